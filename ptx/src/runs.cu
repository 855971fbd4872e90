// What is asked of encodings by their values' bits, of one width. PTXRUN_TYPE is
// the type of a value, PTXRUN_NAME its name in the kernels.

#include "runs_overlay.cuh"
#include "runs_reduce.cuh"

#define KERNEL(block) extern "C" __global__ void __launch_bounds__(ptxrun::block)

#define COUNT(v, V, l, L) \
    KERNEL(reduce_block) \
    runs_count_##v##_##l(const V *values, const L *lengths, uint64_t n, uint64_t chunk, ptxrun::Partial *partials, \
                         V fold, V low, V span, uint32_t negate) { \
        ptxrun::runs_reduce(values, lengths, n, chunk, partials, ptxrun::RunsCount<V, L>(fold, low, span, negate)); \
    }

#define KERNELS(v, V) KERNELS_NAMED(v, V)
#define KERNELS_NAMED(v, V) \
    COUNT(v, V, u32, uint32_t) \
    COUNT(v, V, u64, uint64_t) \
    KERNEL(overlay_block) \
    runs_equal_##v(const V *a_values, const uint64_t *a_ends, uint64_t a_n, const V *b_values, const uint64_t *b_ends, uint64_t b_n, uint64_t *differs) { \
        ptxrun::runs_equal(ptxrun::Runs<V>{a_values, a_ends, a_n}, ptxrun::Runs<V>{b_values, b_ends, b_n}, differs); \
    } \
    KERNEL(runs_block) runs_last_##v(const V *values, const uint64_t *ends, uint64_t n, uint8_t *keep) { \
        ptxrun::runs_last(ptxrun::Runs<V>{values, ends, n}, keep); \
    }

KERNELS(PTXRUN_NAME, PTXRUN_TYPE)
