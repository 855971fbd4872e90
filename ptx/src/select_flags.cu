// Compaction that reads flags and no values: counting them, and the indices of
// those that are not zero.

#include "select.cuh"

#define KERNEL extern "C" __global__ void __launch_bounds__(ptxrun::select_block)

KERNEL select_count_flagged(const uint8_t *flags, uint64_t n, uint64_t *count) {
    ptxrun::select_counted(ptxrun::Input<uint8_t, ptxrun::ByFlag>(nullptr, {flags}), n, count);
}

#define INDICES(i, I) \
    KERNEL select_pass_indices_##i(const uint8_t *flags, uint64_t n, I *out, uint64_t *count, uint64_t capacity, uint32_t mode, \
                                   ptxrun::PassState *state, uint32_t first) { \
        ptxrun::select_pass<false>(ptxrun::Input<I, ptxrun::ByFlag>(nullptr, {flags}), n, ptxrun::Output<I>{out, count, capacity, mode}, {state, first}); \
    }

INDICES(u32, uint32_t)
INDICES(u64, uint64_t)
