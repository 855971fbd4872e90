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
// it and whenever: results do not depend on timing.

namespace ptxrun {

// TileTotals is an array of totals, one a tile, zero at the start. A total is
// published in words of 4 bytes of it and 4 of a flag, so that each word is
// seen whole or not at all, and no fence is needed.
template <class T>
struct TileTotals {
    static constexpr int words = (sizeof(T) + 3) / 4;
    uint64_t *status;

    static __device__ __forceinline__ uint64_t published(uint32_t v) { return uint64_t(1) << 32 | v; }

    __device__ __forceinline__ void publish(uint64_t tile, const T &total) const {
        uint32_t w[words] = {};
        copy_bytes(w, &total, sizeof(T));
#pragma unroll
        for (int i = 0; i < words; i++) store_relaxed(status + tile * words + i, published(w[i]));
    }

    // Pending is a total on its way.
    struct Pending {
        uint64_t w[words];
        const uint64_t *at;

        __device__ __forceinline__ void load() {
#pragma unroll
            for (int i = 0; i < words; i++) w[i] = load_relaxed(at + i);
        }
        __device__ __forceinline__ T wait() {
            for (;;) {
                bool there = true;
#pragma unroll
                for (int i = 0; i < words; i++) there &= w[i] >> 32 != 0;
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

// PassState is the workspace of a single pass, zero at the start. The tiles'
// totals follow, apart from the ticket, on which all blocks wait.
struct alignas(256) PassState {
    uint64_t ticket;
    uint64_t unused[31];

    __device__ __forceinline__ uint64_t *totals() { return reinterpret_cast<uint64_t *>(this + 1); }
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

    __device__ __forceinline__ LookBack(uint64_t *status, Passed init) : totals{status}, passed(init), group(0) {}

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
                p[k].at = totals.status + t * TileTotals<T>::words;
                if (t < tile) p[k].load();
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
