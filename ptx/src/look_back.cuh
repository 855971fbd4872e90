#pragma once

#include "device.cuh"
#include "warp.cuh"

// What tiles know of each other in a single pass: each tile's total, published
// once, and a look-back over the totals before a tile.
//
// Merrill and Garland's decoupled look-back (2016) ends at the nearest tile that
// has published a prefix. Here a block remembers the prefix of its own previous
// tile, so that totals are all it needs, and those wait for nothing but loads:
// no chain of tiles waits for each other. Totals are combined in groups of 32
// tiles, by a tree in the group and from left to right over groups, whoever does
// it and whenever: results do not depend on timing. Exact operators need no groups;
// decoding's look-back has none.

namespace ptxrun {

// PassState is the workspace of a single pass. The tiles' totals follow, apart
// from the ticket, on which all blocks wait. It is zero before the first pass that
// uses it; another may use it as it was left.
struct alignas(256) PassState {
    uint64_t ticket;
    uint64_t sum;  // of a checksum that is being computed, else zero
    uint64_t unused[30];
};

// Pass is one pass over a state: first is the ticket's value before it.
struct Pass {
    PassState *state;
    uint32_t first;

    __device__ __forceinline__ bool one_tile() const { return state == nullptr; }
    __device__ __forceinline__ uint64_t take_ticket() const { return atomic_add(&state->ticket, uint64_t(1)) - first; }
    __device__ __forceinline__ uint64_t *status() const { return reinterpret_cast<uint64_t *>(state + 1); }
    // mark is even, and that of no earlier pass.
    __device__ __forceinline__ uint32_t mark() const { return 2 * (first + 1); }
};

// TileTotals is an array of totals, one a tile. A total is published in words of 4
// bytes of it and 4 of the pass's mark, so that each word is seen whole or not at
// all, what an earlier pass has left is not seen, and no fence is needed. The mark
// may carry a bit.
template <class T>
struct TileTotals {
    static constexpr int words = (sizeof(T) + 3) / 4;
    uint64_t *status;
    uint32_t mark;

    __device__ __forceinline__ void publish(uint64_t tile, const T &total, uint32_t bit = 0) const {
        uint32_t w[words] = {};
        copy_bytes(w, &total, sizeof(T));
#pragma unroll
        for (int i = 0; i < words; i++) store_relaxed(status + tile * words + i, uint64_t(mark | bit) << 32 | w[i]);
    }

    // Pending is a total on its way.
    struct Pending {
        uint64_t w[words];
        const uint64_t *at;
        uint32_t mark;

        // request loads the total of a tile.
        __device__ __forceinline__ void request(const TileTotals &totals, uint64_t tile) {
            at = totals.status + tile * words;
            mark = totals.mark;
            load();
        }
        __device__ __forceinline__ unsigned bit() const { return w[0] >> 32 & 1; }

        __device__ __forceinline__ void load() {
#pragma unroll
            for (int i = 0; i < words; i++) w[i] = load_relaxed(at + i);
        }
        __device__ __forceinline__ T wait() {
            for (;;) {
                bool there = true;
#pragma unroll
                for (int i = 0; i < words; i++) there &= (uint32_t(w[i] >> 32) & ~1u) == mark;
                if (there) break;
                load();
            }
            uint32_t v[words];
#pragma unroll
            for (int i = 0; i < words; i++) v[i] = uint32_t(w[i]);
            T total;
            copy_bytes(&total, v, sizeof(T));
            return total;
        }
    };
};

// LookBack is a warp's memory of the tiles it has passed. Op combines totals in
// a group, Wide the groups: counts are 32 bits in a tile and 64 in all.
template <class Op, class Wide = Op>
struct LookBack {
    using T = typename Op::Value;
    using Passed = typename Wide::Value;
    TileTotals<T> totals;
    Passed passed;   // init ⊕ the totals of all groups before group
    uint64_t group;  // of 32 tiles

    __device__ __forceinline__ LookBack(const TileTotals<T> &totals, Passed init) : totals(totals), passed(init), group(0) {}
    __device__ __forceinline__ LookBack(const Pass &pass, Passed init) : LookBack(TileTotals<T>{pass.status(), pass.mark()}, init) {}

    // prefix returns init ⊕ the totals of all tiles before tile, which is never
    // less than in the call before. All lanes call it and get it.
    __device__ __forceinline__ Passed prefix(uint64_t tile, unsigned lane) {
        constexpr int ahead = 5;  // groups in flight: 132 blocks take about that many tiles in a turn
        typename TileTotals<T>::Pending p[ahead];
        for (;;) {
            const uint64_t last = tile / 32;
#pragma unroll
            for (int k = 0; k < ahead; k++) {
                const uint64_t t = (group + k) * 32 + lane;
                if (t < tile) p[k].request(totals, t);
            }
#pragma unroll
            for (int k = 0; k < ahead; k++) {
                const uint64_t t = group * 32 + lane;
                const T total = t < tile ? p[k].wait() : Op::identity();
                const Passed sum = shuffle(warp_reduce<Op>(total), 0);
                if (group == last) return Wide::combine(passed, sum);
                passed = Wide::combine(passed, sum);
                group++;
            }
        }
    }
};

}  // namespace ptxrun
