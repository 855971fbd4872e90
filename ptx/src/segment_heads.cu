// Where segments begin, as bits: by keys of every width, by flags, by offsets.

#include "segment_heads.cuh"

using namespace ptxrun;

#define HEADS(name, ...) \
    extern "C" __global__ void __launch_bounds__(heads_block) \
        segment_heads_##name(const __VA_ARGS__::Key *keys, uint64_t n, uint32_t *bits, uint32_t reverse) { \
        segment_heads<__VA_ARGS__>(keys, n, bits, reverse); \
    }
HEADS(flags, ByFlags)
HEADS(u8, ByKeys<uint8_t>)
HEADS(u16, ByKeys<uint16_t>)
HEADS(u32, ByKeys<uint32_t>)
HEADS(u64, ByKeys<uint64_t>)

#define OFFSETS(name, I) \
    extern "C" __global__ void __launch_bounds__(heads_block) \
        segment_offsets_##name(const I *offsets, uint64_t count, uint64_t n, uint32_t *bits, uint32_t reverse, uint32_t *bad) { \
        segment_offsets(offsets, count, n, bits, reverse, bad); \
    }
OFFSETS(u32, uint32_t)
OFFSETS(u64, uint64_t)
