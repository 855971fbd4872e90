// The run-length kernels for values of one width.
// PTXRUN_TYPE is the type of a value, PTXRUN_NAME its name in the kernels.

#include "rle.cuh"

#define KERNEL(block) extern "C" __global__ void __launch_bounds__(ptxrun::block)

#define MARK(v, V, i, I) \
    KERNEL(rle_block) rle_mark_##v##_##i(const V *raw, uint64_t n, I *flags) { \
        ptxrun::rle_mark(raw, n, flags); \
    }

#define FINISH(v, V, i, I, l, L) \
    KERNEL(rle_block) \
    rle_finish_##v##_##i##_##l(const V *raw, uint64_t n, const I *starts, const uint64_t *count, uint64_t capacity, \
                               V *values, L *lengths) { \
        ptxrun::rle_finish(raw, n, starts, count, capacity, values, lengths); \
    }

#define DECODE(strategy, v, V, ...) \
    KERNEL(decode_block) \
    rle_decode_##strategy##_##v(const V *values, const uint64_t *ends, uint64_t runs, V *out, uint64_t total) { \
        ptxrun::__VA_ARGS__(values, ends, runs, out, total); \
    }

#define KERNELS(v, V) KERNELS_NAMED(v, V)
#define KERNELS_NAMED(v, V) \
    MARK(v, V, u32, uint32_t) \
    MARK(v, V, u64, uint64_t) \
    FINISH(v, V, u32, uint32_t, u32, uint32_t) \
    FINISH(v, V, u32, uint32_t, u64, uint64_t) \
    FINISH(v, V, u64, uint64_t, u32, uint32_t) \
    FINISH(v, V, u64, uint64_t, u64, uint64_t) \
    DECODE(thread, v, V, rle_decode_thread<V>) \
    DECODE(warp, v, V, rle_decode_group<V, ptxrun::warp_size>) \
    DECODE(block, v, V, rle_decode_group<V, ptxrun::decode_block>) \
    DECODE(tiled, v, V, rle_decode_tiled<V>)

KERNELS(PTXRUN_NAME, PTXRUN_TYPE)
