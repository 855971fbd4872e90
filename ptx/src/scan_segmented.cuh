#pragma once

#include "scan_pass.cuh"
#include "shared.cuh"

// Segmented scan in a single pass, forwards or backwards: at a head the scan
// starts anew from init. After Schwartz, "Ultracomputers" (1980), and Sengupta,
// Harris, Zhang and Owens, "Scan Primitives for GPU Computing" (2007), the
// operator is that on pairs of a head flag and a value,
//
//     (f1, v1) ⊕ (f2, v2) = (f1 | f2, f2 ? v2 : v1 ⊕ v2),
//
// with the flags apart from the values: a row's flags are a ballot, and lanes
// combine no further back than to the latest head in it. What is at or after a
// head includes init; what is before the first head of its vector, part or tile
// does not, and is combined with what precedes.
//
// Scan order is as in scan_pass.cuh. A scan without heads is one segment. The
// first element of all is a head, so that a last tile that is not full does not
// matter when it comes first.

namespace ptxrun {

// A bit of parameter mode, beside those of scan_pass.cuh: heads are bits, else bytes
// of which those not zero are heads.
constexpr uint32_t segmented_bits = 4;

// SegmentVector is a lane's vector of a row, in scan order.
template <class Op>
struct SegmentVector {
    using T = typename Op::Value;
    static constexpr int vw = vector_width<T>;
    static constexpr int words = vw * sizeof(T) / 4;
    static constexpr int per_word = sizeof(T) < 4 ? 4 / sizeof(T) : 1;
    uint32_t word[words];

    __device__ __forceinline__ T at(int i) const {
        T t;
        if constexpr (per_word > 1) {
            const uint32_t w = word[i / per_word] >> (i % per_word * 8 * sizeof(T));
            copy_bytes(&t, &w, sizeof(T));
        } else {
            copy_bytes(&t, word + i * (sizeof(T) / 4), sizeof(T));
        }
        return t;
    }
    __device__ __forceinline__ void mirror() {
        if constexpr (vw > 1) ptxrun::mirror<sizeof(T)>(word);
    }
    // total combines what follows the last head, bit i of heads being element
    // i's; all if there is none.
    __device__ __forceinline__ T total(uint32_t heads, T init) const {
        T t = heads & 1 ? Op::combine(init, at(0)) : at(0);
#pragma unroll
        for (int i = 1; i < vw; i++) t = Op::combine(heads >> i & 1 ? init : t, at(i));
        return t;
    }
    // place makes the elements their scan from base.
    __device__ __forceinline__ void place(T base, uint32_t heads, T init, bool exclusive) {
#pragma unroll
        for (int k = 0; k < vw; k += per_word) {
            uint32_t w = 0;
            // Elements are taken out of the word again: kept apart since total they
            // would take a register each.
            if constexpr (per_word > 1) asm volatile("" : "+r"(word[k / per_word]));
#pragma unroll
            for (int i = k; i < k + per_word; i++) {
                if (heads >> i & 1) base = init;
                const T next = Op::combine(base, at(i));
                const T result = exclusive ? base : next;
                base = next;
                if constexpr (per_word > 1) {
                    uint32_t bits = 0;
                    copy_bytes(&bits, &result, sizeof(T));
                    w |= bits << ((i - k) * 8 * sizeof(T));
                } else {
                    copy_bytes(word + i * (sizeof(T) / 4), &result, sizeof(T));
                }
            }
            if constexpr (per_word > 1) word[k / per_word] = w;
        }
    }
};

// segmented_warp_scan is warp_scan that starts anew at the lanes whose bit is
// set in heads.
template <class Op>
__device__ __forceinline__ typename Op::Value segmented_warp_scan(typename Op::Value v, unsigned heads, unsigned lane) {
    const unsigned start = latest(heads & (full_warp >> (warp_size - 1 - lane)));
#pragma unroll
    for (unsigned delta = 1; delta < warp_size; delta *= 2) {
        auto before = shuffle_up(v, delta);
        if (lane >= start + delta) v = Op::combine(before, v);
    }
    return v;
}

// SegmentedLookBack is LookBack over totals with heads: the mark's bit says that
// the tile has one, and nothing before the last head counts.
template <class Op>
struct SegmentedLookBack {
    using T = typename Op::Value;
    TileTotals<T> totals;
    T passed;        // what is open after all groups before group
    uint64_t group;  // of 32 tiles

    __device__ __forceinline__ SegmentedLookBack(const Pass &pass, T init) : totals{pass.status(), pass.mark()}, passed(init), group(0) {}

    // prefix returns what is open before tile, which is never less than in the
    // call before. All lanes call it and get it.
    __device__ __forceinline__ T prefix(uint64_t tile, unsigned lane) {
        constexpr int ahead = 5;  // groups in flight, as in LookBack
        for (;;) {
            typename TileTotals<T>::Pending p[ahead];
#pragma unroll
            for (int k = 0; k < ahead; k++) {
                const uint64_t t = (group + k) * 32 + lane;
                if (t < tile) p[k].request(totals, t);
            }
#pragma unroll 1
            for (int k = 0; k < ahead; k++) {
                const bool before = group * 32 + lane < tile;
                T total = before ? p[0].wait() : Op::identity();
                const unsigned heads = __ballot_sync(full_warp, before && p[0].bit());
                if (lane < latest(heads)) total = Op::identity();
                const T sum = shuffle(warp_reduce<Op>(total), 0);
                const T open = heads != 0 ? sum : Op::combine(passed, sum);
                if (group == tile / 32) return open;
                passed = open;
                group++;
#pragma unroll
                for (int i = 1; i < ahead; i++) p[i - 1] = p[i];
            }
        }
    }
};

// SegmentedMemory is the shared memory of a block.
template <class T>
struct SegmentedMemory {
    static constexpr int staged = 4;  // rows at a time
    alignas(16) unsigned char rows[pass_parts][staged * warp_size * vector_width<T> * sizeof(T)];
    uint32_t heads[pass_parts][pass_part<T> / 32];  // of the tile, in memory order
    WarpTotals<T, pass_block> totals;
    WarpTotals<T, warp_size> prefix;
    uint32_t headed[pass_parts];
    uint64_t ticket;
};

// load_heads brings the heads of a part, at place from in a tile of held elements
// that begins at base, to words in shared memory. Bits behind the tile may be
// anything.
template <int count>
__device__ __forceinline__ void load_heads(uint32_t (&words)[count], const void *heads, bool bits, uint64_t base, unsigned from, unsigned held, unsigned lane) {
    if (!heads) {
#pragma unroll 1
        for (unsigned w = lane; w < count; w += warp_size) words[w] = 0;
    } else if (bits) {
        const auto *const h = static_cast<const uint32_t *>(heads) + base / 32;
#pragma unroll 1
        for (unsigned w = lane; w < count; w += warp_size) words[w] = h[minimum(from / 32 + w, (held - 1) / 32)];
    } else {
        const auto *const h = static_cast<const unsigned char *>(heads) + base;
        if (is_aligned(h, 16) && from + 32 * count <= held) {
            constexpr unsigned vectors = 2 * count;  // of 16 flags
            constexpr unsigned ahead = minimum<unsigned>(2, ceil_div(vectors, warp_size));
#pragma unroll 1
            for (unsigned v = lane; v < vectors; v += ahead * warp_size) {
                uint32_t w[ahead][4];
#pragma unroll
                for (unsigned k = 0; k < ahead; k++) load_wide(w[k], reinterpret_cast<const uint32_t *>(h + from) + 4 * (v + k * warp_size));
#pragma unroll
                for (unsigned k = 0; k < ahead; k++)
                    reinterpret_cast<uint16_t *>(words)[v + k * warp_size] = uint16_t(nonzero_bytes(w[k][0]) | nonzero_bytes(w[k][1]) << 4 | nonzero_bytes(w[k][2]) << 8 | nonzero_bytes(w[k][3]) << 12);
            }
        } else {
#pragma unroll 1
            for (unsigned w = 0; w < count; w++) {
                const unsigned b = __ballot_sync(full_warp, h[minimum(from + 32 * w + lane, held - 1)] != 0);
                if (lane == 0) words[w] = b;
            }
        }
    }
    __syncwarp();
}

// scan_segmented holds a tile in registers, a warp a part, as scan_pass does. Its
// kernels have two blocks a multiprocessor: one loads while the other waits. in
// and out may be the same memory. heads are aligned to 4 bytes if they are bits;
// null is none. The pass's state is not used for a single tile.
template <class Op>
__device__ __forceinline__ void scan_segmented(const typename Op::Value *in, typename Op::Value *out, uint64_t n, const void *heads, const Pass &pass, typename Op::Value init, uint32_t mode, SegmentedMemory<typename Op::Value> &memory) {
    using T = typename Op::Value;
    using V = SegmentVector<Op>;
    constexpr int vw = V::vw;
    constexpr int row = warp_size * vw;
    constexpr int staged = SegmentedMemory<T>::staged;
    const unsigned lane = threadIdx.x % warp_size, part = threadIdx.x / warp_size;
    const bool exclusive = mode & scan_exclusive, reverse = mode & scan_reverse;
    const uint64_t tiles = ceil_div<uint64_t>(n, pass_tile<T>);
    const bool aligned = is_aligned(in, 16) && is_aligned(out, 16);
    SegmentedLookBack<Op> look_back(pass, init);

    // Where this part is in a tile, and this lane's vector in a row. Row j of the
    // scan is row j ^ flip of memory.
    const unsigned from = (reverse ? pass_parts - 1 - part : part) * pass_part<T>;
    const unsigned mine = (reverse ? warp_size - 1 - lane : lane) * vw;
    const unsigned flip = reverse ? pass_rows - 1 : 0;
    unsigned char *const stage = memory.rows[part];
    const uint32_t vectors = shared_address(stage) + mine * sizeof(T);  // this lane's

    for (uint64_t round = 0;; round++) {
        if (threadIdx.x == 0) memory.ticket = tiles > 1 ? pass.take_ticket() : round;
        __syncthreads();
        const uint64_t turn = memory.ticket;
        if (turn >= tiles) return;
        const uint64_t tile = reverse ? tiles - 1 - turn : turn;
        const uint64_t base = tile * pass_tile<T>;
        const unsigned held = tile_held<T>(tile, n);
        const bool whole = aligned && from + pass_part<T> <= held;

        V v[pass_rows];
        bool loaded = false;
        if constexpr (is_access<vw * sizeof(T)>) {
            if (whole) {
#pragma unroll
                for (unsigned j = 0; j < pass_rows; j++) load_wide(v[j].word, reinterpret_cast<const uint32_t *>(in + base + from + (j ^ flip) * row + mine));
                loaded = true;
            }
        }
        if (!loaded) {
#pragma unroll
            for (unsigned j = 0; j < pass_rows; j += staged) {
                const unsigned at = from + ((j ^ flip) & ~(staged - 1)) * row;
                __syncwarp();
#pragma unroll 1
                for (unsigned i = lane; i < staged * row; i += warp_size) reinterpret_cast<T *>(stage)[i] = in[base + minimum(at + i, held - 1)];
                __syncwarp();
#pragma unroll
                for (unsigned k = 0; k < staged; k++) load_shared(v[j + k].word, vectors + ((k ^ flip) & (staged - 1)) * row * sizeof(T));
            }
        }
        uint32_t(&words)[pass_part<T> / 32] = memory.heads[part];
        load_heads(words, heads, mode & segmented_bits, base, from, held, lane);
        const unsigned begin = (reverse ? held - 1 : 0) - from;
        if (turn == 0 && begin < pass_part<T> && lane == 0) words[begin / 32] |= 1u << begin % 32;
        __syncwarp();
        uint32_t bits[pass_rows];
#pragma unroll
        for (unsigned j = 0; j < pass_rows; j++) {
            const unsigned at = (j ^ flip) * row + mine;
            bits[j] = words[at / 32] >> (at % 32) & ((1u << vw) - 1);
        }
        if (reverse) {
#pragma unroll
            for (int j = 0; j < pass_rows; j++) {
                v[j].mirror();
                bits[j] = __brev(bits[j]) >> (32 - vw);
            }
        }

        T carry[pass_rows];  // what precedes this lane's vector in the part, since the latest head
        unsigned open = 0;   // bit j: that is not all, no head precedes it in the part
        bool seen = false;   // a head, in the part
        T running;
#pragma unroll
        for (int j = 0; j < pass_rows; j++) {
            const unsigned with_head = __ballot_sync(full_warp, bits[j] != 0);
            const T inclusive = segmented_warp_scan<Op>(v[j].total(bits[j], init), with_head, lane);
            const T before = shuffle_up(inclusive, 1);
            const T total = shuffle(inclusive, warp_size - 1);
            const bool unbroken = (with_head & ((1u << lane) - 1)) == 0;
            carry[j] = before;  // in the very first vector there is none
            if (j > 0 && unbroken) carry[j] = lane == 0 ? running : Op::combine(running, before);
            open |= unsigned(unbroken && !seen) << j;
            running = j == 0 || with_head != 0 ? total : Op::combine(running, total);
            seen |= with_head != 0;
        }
        if (lane == 0) {
            memory.totals.get()[part] = running;
            memory.headed[part] = seen;
        }
        __syncthreads();
        if (part == 0 && tiles > 1) {
#pragma unroll 1
            for (int p = 1; p < pass_parts; p++) {
                const T t = memory.totals.get()[p];
                running = memory.headed[p] ? t : Op::combine(running, t);
                seen |= memory.headed[p] != 0;
            }
            if (lane == 0) look_back.totals.publish(turn, running, seen);
            const T prefix = look_back.prefix(turn, lane);
            if (lane == 0) memory.prefix.get()[0] = prefix;
        }
        __syncthreads();
        T prefix = tiles > 1 ? memory.prefix.get()[0] : init;
#pragma unroll 1
        for (unsigned p = 0; p < part; p++) {
            const T t = memory.totals.get()[p];
            prefix = memory.headed[p] ? t : Op::combine(prefix, t);
        }
#pragma unroll
        for (int j = 0; j < pass_rows; j++) {
            T base = carry[j];
            if (open >> j & 1) base = j == 0 && lane == 0 ? prefix : Op::combine(prefix, base);
            v[j].place(base, bits[j], init, exclusive);
        }
        if (reverse) {
#pragma unroll
            for (int j = 0; j < pass_rows; j++) v[j].mirror();
        }

        bool stored = false;
        if constexpr (is_access<vw * sizeof(T)>) {
            if (whole) {
#pragma unroll
                for (unsigned j = 0; j < pass_rows; j++) store_wide(reinterpret_cast<uint32_t *>(out + base + from + (j ^ flip) * row + mine), v[j].word);
                stored = true;
            }
        }
        if (!stored) {
#pragma unroll
            for (unsigned j = 0; j < pass_rows; j += staged) {
                const unsigned at = from + ((j ^ flip) & ~(staged - 1)) * row;
                __syncwarp();
#pragma unroll
                for (unsigned k = 0; k < staged; k++) store_shared(vectors + ((k ^ flip) & (staged - 1)) * row * sizeof(T), v[j + k].word);
                __syncwarp();
#pragma unroll 1
                for (unsigned i = lane; i < staged * row; i += warp_size) {
                    T x[1];
                    load_shared(x, stage + i * sizeof(T));
                    if (at + i < held) out[base + at + i] = x[0];
                }
            }
        }
    }
}

}  // namespace ptxrun

// PTXRUN_SCAN_SEGMENTED(name, Op) emits scan_segmented_<name>, the segmented scan
// with operator Op.
#define PTXRUN_SCAN_SEGMENTED(name, ...) PTXRUN_SCAN_SEGMENTED_(name, __VA_ARGS__)
#define PTXRUN_SCAN_SEGMENTED_(name, ...) \
    extern "C" __global__ void __launch_bounds__(ptxrun::pass_block, 2) \
        scan_segmented_##name(const __VA_ARGS__::Value *in, __VA_ARGS__::Value *out, uint64_t n, const void *heads, \
                              ptxrun::PassState *state, uint32_t first, __VA_ARGS__::Value init, uint32_t mode) { \
        __shared__ ptxrun::SegmentedMemory<__VA_ARGS__::Value> memory; \
        ptxrun::scan_segmented<__VA_ARGS__>(in, out, n, heads, {state, first}, init, mode, memory); \
    }
