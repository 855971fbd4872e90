#pragma once

#include "run_ends.cuh"

// Two encodings laid over each other. The run ends of both, merged, cut them
// into segments in which each has one value: as many as both have runs, some of
// them empty, where ends are equal or runs are.
//
// The merge is by the merge path of Green, McColl and Bader, "GPU Merge Path"
// (2012): a block finds where its tile of the merged ends begins and stops in
// both, brings these parts to shared memory, and its threads do the same there.

namespace ptxrun {

constexpr int overlay_block = 128;
constexpr int overlay_items = 7;  // segments of a thread; odd, so that its neighbours' are in other banks
constexpr int overlay_tile = overlay_block * overlay_items;

// merge_path returns how many of the first diagonal elements of a and b merged
// are a's; equal ones of a are before those of b.
template <class Index>
__device__ __forceinline__ Index merge_path(const uint64_t *a, Index na, const uint64_t *b, Index nb, Index diagonal) {
    Index lo = diagonal > nb ? diagonal - nb : 0, hi = minimum(diagonal, na);
    while (lo < hi) {
        const Index middle = lo + (hi - lo) / 2;
        if (a[middle] <= b[diagonal - 1 - middle]) {
            lo = middle + 1;
        } else {
            hi = middle;
        }
    }
    return lo;
}

// warp_merge_path is merge_path by a warp, as warp_upper_bound is upper_bound.
__device__ __forceinline__ uint64_t warp_merge_path(const uint64_t *a, uint64_t na, const uint64_t *b, uint64_t nb, uint64_t diagonal, unsigned lane) {
    uint64_t lo = diagonal > nb ? diagonal - nb : 0, hi = minimum(diagonal, na);
    while (lo < hi) {
        const uint64_t step = ceil_div<uint64_t>(hi - lo, warp_size);
        const uint64_t last = minimum(lo + (lane + 1) * step, hi) - 1;
        const unsigned below = __popc(__ballot_sync(full_warp, a[last] <= b[diagonal - 1 - last]));
        hi = minimum(hi, lo + (below + 1) * step) - (below < warp_size);
        lo = minimum(lo + below * step, hi);
    }
    return lo;
}

// Runs are n runs; run i has values[i] and covers [ends[i-1], ends[i]).
template <class V>
struct Runs {
    const V *values;
    const uint64_t *ends;
    uint64_t n;

    // at returns the value at a position below the last end, which run i or a
    // later one covers.
    __device__ __forceinline__ V at(uint64_t i, uint64_t position) const {
        return values[minimum(i + upper_bound(ends + i, n - i, position), n - 1)];
    }
};

// Part is some runs of an encoding in shared memory, from one before the first of
// a tile to one behind the last. Behind the encoding's last run, ends are the
// greatest number.
template <class V>
struct Part {
    const uint64_t *ends;  // of the tile's first run on; ends[-1] is there
    const V *values;
    Runs<V> runs;  // in global memory, from the tile's first on

    __device__ __forceinline__ Part(Runs<V> all, uint64_t first, unsigned held, uint64_t *shared_ends, V *shared_values)
        : ends(shared_ends + 1), values(shared_values + 1), runs{all.values + first, all.ends + first, all.n - first} {
        for (unsigned s = threadIdx.x; s < held; s += overlay_block) {
            const uint64_t i = first + s;  // one more than the run's place
            shared_ends[s] = i == 0 ? 0 : i > all.n ? ~uint64_t(0) : all.ends[i - 1];
            shared_values[s] = all.values[minimum(i - (i > 0), all.n - 1)];
        }
    }

    // at returns the value at a position that run i of the part or a later one covers.
    __device__ __forceinline__ V at(unsigned i, uint64_t position) const {
        if (ends[i] > position) return values[i];
        return runs.at(i + 1, position);  // only where runs are empty
    }
};

template <class V>
struct OverlayMemory {
    uint64_t split[2];
    uint64_t ends[overlay_tile + 6];
    V values[overlay_tile + 6];
};

// overlay calls f(k, begin, end, a, i, b, j) for each segment of the block's tile:
// the segment is number k of the tile and lies in runs i of a's part and j of b's.
// Both encodings have runs, and as many elements. It returns how many segments
// the tile has.
template <class V, class F>
__device__ __forceinline__ unsigned overlay(OverlayMemory<V> &shared, Runs<V> a, Runs<V> b, F f) {
    const unsigned warp = threadIdx.x / warp_size;
    const uint64_t base = uint64_t(blockIdx.x) * overlay_tile;
    const unsigned size = minimum<uint64_t>(overlay_tile, a.n + b.n - base);
    if (warp < 2) {
        const uint64_t split = warp_merge_path(a.ends, a.n, b.ends, b.n, base + warp * size, threadIdx.x % warp_size);
        if (threadIdx.x % warp_size == 0) shared.split[warp] = split;
    }
    __syncthreads();
    const uint64_t first = shared.split[0];
    const unsigned na = shared.split[1] - first, nb = size - na;
    const Part<V> x(a, first, na + 3, shared.ends, shared.values);
    const Part<V> y(b, base - first, nb + 3, shared.ends + na + 3, shared.values + na + 3);
    __syncthreads();

    const unsigned from = minimum(threadIdx.x * overlay_items, size), to = minimum(from + overlay_items, size);
    unsigned i = merge_path(x.ends, na, y.ends, nb, from), j = from - i;
    uint64_t begin = maximum(x.ends[int(i) - 1], y.ends[int(j) - 1]);
#pragma unroll 1
    for (unsigned k = from; k < to; k++) {
        const bool of_a = x.ends[i] <= y.ends[j];
        const uint64_t end = of_a ? x.ends[i] : y.ends[j];
        f(k, begin, end, x, i, y, j);
        begin = end;
        i += of_a;
        j += !of_a;
    }
    return size;
}

template <class T>
__device__ __forceinline__ bool same_bits(T a, T b) {
    if constexpr (is_float<T> && sizeof(T) == 4) return bit_cast<uint32_t>(a) == bit_cast<uint32_t>(b);
    if constexpr (is_float<T> && sizeof(T) == 8) return bit_cast<uint64_t>(a) == bit_cast<uint64_t>(b);
    return a == b;
}

// runs_combine stores each segment's end, op of its two values, and whether it is
// the last of a maximal run of equal results, of the bits. Empty segments are
// not. What is kept is the canonical encoding.
template <class V, class R, class Op>
__device__ __forceinline__ void runs_combine(Runs<V> a, Runs<V> b, R *values, uint64_t *ends, uint8_t *keep, Op op) {
    __shared__ OverlayMemory<V> shared;
    __shared__ uint64_t shared_ends[overlay_tile];
    __shared__ R shared_values[overlay_tile];
    __shared__ uint8_t shared_keep[overlay_tile];
    const uint64_t total = a.ends[a.n - 1];
    const unsigned size = overlay(shared, a, b, [&](unsigned k, uint64_t begin, uint64_t end, const Part<V> &x, unsigned i, const Part<V> &y, unsigned j) {
        const R value = op(x.values[i], y.values[j]);
        bool last = begin < end;
        if (last && end < total) last = !same_bits(value, op(x.at(i + (x.ends[i] == end), end), y.at(j + (y.ends[j] == end), end)));
        shared_values[k] = value;
        shared_ends[k] = end;
        shared_keep[k] = last;
    });
    __syncthreads();
    const uint64_t base = uint64_t(blockIdx.x) * overlay_tile;
    for (unsigned k = threadIdx.x; k < size; k += overlay_block) {
        values[base + k] = shared_values[k];
        ends[base + k] = shared_ends[k];
        keep[base + k] = shared_keep[k];
    }
}

// runs_equal sets *differs, zero before, where a segment has two values.
template <class V>
__device__ __forceinline__ void runs_equal(Runs<V> a, Runs<V> b, uint64_t *differs) {
    __shared__ OverlayMemory<V> shared;
    bool found = false;
    overlay(shared, a, b, [&](unsigned, uint64_t begin, uint64_t end, const Part<V> &x, unsigned i, const Part<V> &y, unsigned j) {
        found |= begin < end && x.values[i] != y.values[j];
    });
    if (__any_sync(full_warp, found) && threadIdx.x % warp_size == 0) atomic_max(differs, 1);
}

// runs_last marks runs that are the last of a maximal run of equal values. Empty
// runs are not.
template <class V>
__device__ __forceinline__ void runs_last(Runs<V> runs, uint8_t *keep) {
    const uint64_t total = runs.ends[runs.n - 1];
    each_run(runs.n, [=](int, uint64_t k, bool inside) {
        const uint64_t begin = k > 0 ? runs.ends[k - 1] : 0, end = runs.ends[k];
        if (inside) keep[k] = begin < end && (end == total || runs.at(k + 1, end) != runs.values[k]);
    });
}

}  // namespace ptxrun
