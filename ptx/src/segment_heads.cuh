#pragma once

#include "block.cuh"
#include "warp.cuh"

// What describes segments, made a bit an element: set where an element begins a
// segment in scan order. Backwards that is where its successor begins one in
// memory.

namespace ptxrun {

constexpr int heads_block = 256;

template <class K>
constexpr int heads_tile = heads_block * vector_width<K>;

// ByKeys begins a segment where neighbours differ, ByFlags where b's byte is not
// zero; a stands before b in memory.
template <class K>
struct ByKeys {
    using Key = K;
    static __device__ __forceinline__ bool between(K a, K b) { return a != b; }
};
struct ByFlags {
    using Key = uint8_t;
    static __device__ __forceinline__ bool between(uint8_t, uint8_t b) { return b != 0; }
};

// segment_heads writes ceil(n / 32) words of bits; what is behind the last
// element is 0. A thread looks at a vector and at the key beside it, lanes put
// their bits together.
template <class By>
__device__ __forceinline__ void segment_heads(const typename By::Key *keys, uint64_t n, uint32_t *bits, uint32_t reverse) {
    using K = typename By::Key;
    constexpr int vw = vector_width<K>;
    const unsigned lane = threadIdx.x % warp_size;
    const uint64_t base = uint64_t(blockIdx.x) * heads_tile<K>;
    if (base >= n) return;
    K x[vw];
    load_tile<heads_block>(x, keys + base, n - base, K(0));

    // The key beside is another lane's, but for the warp's last.
    const uint64_t at = base + threadIdx.x * vw;
    const uint64_t beside = reverse ? at + vw : at - 1;
    K key = reverse ? shuffle_down(x[0], 1) : shuffle_up(x[vw - 1], 1);
    if (lane == (reverse ? warp_size - 1 : 0) && beside < n) key = keys[beside];

    // One bit more than there are elements: bit i is between elements i - 1 and i.
    uint32_t b = uint32_t(By::between(key, x[0]));
    if (reverse) b = uint32_t(By::between(x[vw - 1], key)) << vw;
#pragma unroll
    for (int i = 1; i < vw; i++) b |= uint32_t(By::between(x[i - 1], x[i])) << i;
    if (reverse) b >>= 1;
    const uint64_t begin = (reverse ? n - 1 : 0) - at;  // where the first segment does
    if (begin < vw) b |= 1u << begin;
    if (at + vw > n) b &= at < n ? (1u << (n - at)) - 1 : 0;
    b <<= at % 32;
#pragma unroll
    for (int delta = 1; delta < 32 / vw; delta *= 2) b |= __shfl_xor_sync(full_warp, b, delta);
    if (lane % (32 / vw) == 0 && at < n) bits[at / 32] = b;
}

// segment_offsets sets the bits of segments that begin at offsets, of which
// there are count: the first 0, the last n, none less than the one before. Where
// that is not so it sets *bad. Both are zero before. Lanes whose bits are in the
// same word put them together.
template <class I>
__device__ __forceinline__ void segment_offsets(const I *offsets, uint64_t count, uint64_t n, uint32_t *bits, uint32_t reverse, uint32_t *bad) {
    const unsigned lane = threadIdx.x % warp_size;
    const uint64_t i = uint64_t(blockIdx.x) * heads_block + threadIdx.x;
    const bool there = i < count;
    const uint64_t offset = there ? offsets[i] : n;
    const uint64_t next = i + 1 < count ? offsets[i + 1] : n;
    if (there && (offset > next || (i == 0 && offset != 0) || (i + 1 == count && offset != n))) atomic_or(bad, 1u);

    const uint64_t at = offset - reverse;  // beyond n if there is nothing before
    const bool inside = there && at < n;
    const uint64_t word = inside ? at / 32 : ~uint64_t(0);
    uint32_t b = inside ? 1u << at % 32 : 0;
#pragma unroll
    for (unsigned delta = 1; delta < warp_size; delta *= 2) {
        const uint64_t w = shuffle_up(word, delta);
        const uint32_t more = shuffle_up(b, delta);
        if (lane >= delta && w == word) b |= more;
    }
    const uint64_t follows = shuffle_down(word, 1);
    if (inside && (lane == warp_size - 1 || follows != word)) atomic_or(bits + word, b);
}

}  // namespace ptxrun
