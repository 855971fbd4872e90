// Run-length encoding of values of one width, in a single pass. PTXRUN_TYPE is the
// type of a value, PTXRUN_NAME its name in the kernels.

#include "rle_encode.cuh"

#define ENCODE(v, V, l, L) \
    extern "C" __global__ void __launch_bounds__(ptxrun::select_block) \
        rle_encode_pass_##v##_##l(const V *in, uint64_t n, V *values, L *lengths, uint64_t capacity, uint64_t *count, uint64_t *too_long, \
                                  ptxrun::PassState *state, uint32_t first) { \
        ptxrun::rle_encode_pass(in, n, ptxrun::RunOutput<V, L>{values, lengths, capacity, count, too_long}, {state, first}); \
    }

#define KERNELS(v, V) KERNELS_NAMED(v, V)
#define KERNELS_NAMED(v, V) \
    ENCODE(v, V, u32, uint32_t) \
    ENCODE(v, V, u64, uint64_t)

KERNELS(PTXRUN_NAME, PTXRUN_TYPE)
