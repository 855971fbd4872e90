// Run-length decoding of values of one width by bulk copies (sm_90). PTXRUN_TYPE is the
// type of a value, PTXRUN_NAME its name in the kernels.

#include "rle_decode_bulk.cuh"

#define DECODE(v, V, l, L) \
    extern "C" __global__ void __launch_bounds__(ptxrun::decode_bulk_block) \
        rle_decode_bulk_##v##_##l(const V *values, const L *lengths, uint64_t runs, V *out, uint64_t from, uint64_t size, uint64_t *total, \
                                  ptxrun::DecodeState *state) { \
        ptxrun::rle_decode_bulk(values, lengths, runs, out, from, size, total, state); \
    }

#define KERNELS(v, V) KERNELS_NAMED(v, V)
#define KERNELS_NAMED(v, V) \
    DECODE(v, V, u32, uint32_t) \
    DECODE(v, V, u64, uint64_t)

KERNELS(PTXRUN_NAME, PTXRUN_TYPE)
