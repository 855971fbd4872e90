// The kernels of run ends that do not touch values.

#include "run_ends.cuh"

#define KERNEL extern "C" __global__ void __launch_bounds__(ptxrun::runs_block)

#define LENGTHS(e, E, l, L) \
    KERNEL run_lengths_##e##_##l(const E *ends, uint64_t n, const uint64_t *count, L *lengths) { \
        ptxrun::run_lengths(ends, n, count, lengths); \
    }

#define INDEX_CHECK(e, E, i, I) \
    KERNEL run_index_check_##e##_##i(const E *ends, uint64_t runs, const I *indices, uint64_t n, uint64_t *first) { \
        ptxrun::run_index_check(ends, runs, indices, n, first); \
    }

#define ENDS(e, E) \
    KERNEL run_ends_check_##e(const E *ends, uint64_t n, uint64_t longest, uint64_t *first) { \
        ptxrun::run_ends_check(ends, n, longest, first); \
    } \
    KERNEL run_ends_narrow_##e(const uint64_t *ends, uint64_t n, E *narrow) { ptxrun::run_ends_narrow(ends, n, narrow); } \
    LENGTHS(e, E, u32, uint32_t) \
    LENGTHS(e, E, u64, uint64_t) \
    INDEX_CHECK(e, E, u32, uint32_t) \
    INDEX_CHECK(e, E, u64, uint64_t)

ENDS(i16, int16_t)
ENDS(i32, int32_t)
ENDS(i64, int64_t)
