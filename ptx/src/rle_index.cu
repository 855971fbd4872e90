// The run-length kernels that do not touch values.

#include "rle.cuh"

#define KERNEL extern "C" __global__ void __launch_bounds__(ptxrun::rle_block)

#define SCATTER(i, I) \
    KERNEL rle_scatter_##i(const I *scanned, uint64_t n, I *starts, uint64_t capacity, uint64_t *count) { \
        ptxrun::rle_scatter(scanned, n, starts, capacity, count); \
    }
SCATTER(u32, uint32_t)
SCATTER(u64, uint64_t)
