#pragma once

#include "device.cuh"
#include "warp.cuh"

namespace ptxrun {

// upper_bound returns how many of a's n elements, which do not decrease, are at
// most key: the place of the first that is greater.
template <class T, class Index>
__device__ __forceinline__ Index upper_bound(const T *a, Index n, T key) {
    Index lo = 0;
    while (n > 0) {
        const Index half = n / 2;
        if (a[lo + half] <= key) {
            lo += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return lo;
}

// warp_upper_bound is upper_bound by a warp: each step leaves a 32nd of the
// range, where a thread's leaves a half, for one memory latency.
template <class T>
__device__ __forceinline__ uint64_t warp_upper_bound(const T *a, uint64_t n, T key, unsigned lane) {
    // The first lo elements are at most key; from hi on they are greater.
    uint64_t lo = 0, hi = n;
    while (lo < hi) {
        const uint64_t step = ceil_div<uint64_t>(hi - lo, warp_size);
        // Lane l looks at the last element of part l; parts past hi repeat the last.
        const uint64_t end = minimum(lo + (lane + 1) * step, hi);
        const unsigned below = __popc(__ballot_sync(full_warp, a[end - 1] <= key));
        hi = minimum(hi, lo + (below + 1) * step) - (below < warp_size);
        lo = minimum(lo + below * step, hi);
    }
    return lo;
}

}  // namespace ptxrun
