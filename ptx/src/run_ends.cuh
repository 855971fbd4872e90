#pragma once

#include "search.cuh"

// Run ends: run i covers [ends[i-1], ends[i]), and run 0 begins at 0. E is their
// type, signed as in Apache Arrow, where they increase strictly.

namespace ptxrun {

constexpr int runs_block = 256;
constexpr int runs_rows = 4;
constexpr int runs_tile = runs_block * runs_rows;  // of the kernels that look at each run, or index, by itself

// each_run calls f(j, k, inside) for this thread's j-th run k, of n in all. Behind
// the last, k is the last and inside is false: loads do not wait for a condition.
template <class F>
__device__ __forceinline__ void each_run(uint64_t n, F f) {
    const uint64_t base = uint64_t(blockIdx.x) * runs_tile + threadIdx.x;
    if (n == 0) return;
#pragma unroll
    for (int j = 0; j < runs_rows; j++) {
        const uint64_t k = base + j * runs_block;
        f(j, minimum(k, n - 1), k < n);
    }
}

// report_first raises *first, zero before, to ~k of the least k that a thread
// found; found is ~k, or 0 for nothing. The warp calls it together.
__device__ __forceinline__ void report_first(uint64_t found, uint64_t *first) {
    found = warp_reduce<Max<uint64_t>>(found);
    if (threadIdx.x % warp_size == 0 && found > 0) atomic_max(first, found);
}

// run_ends_check reports the first run that is empty, ends before it begins, or
// is longer than longest.
template <class E>
__device__ __forceinline__ void run_ends_check(const E *ends, uint64_t n, uint64_t longest, uint64_t *first) {
    uint64_t found = 0;
    each_run(n, [&](int, uint64_t k, bool) {
        const int64_t begin = k > 0 ? ends[k - 1] : 0, end = ends[k];
        if (end <= begin || uint64_t(end) - uint64_t(begin) > longest) found = maximum(found, ~k);
    });
    report_first(found, first);
}

// run_ends_narrow stores ends in a narrower type, which holds the last of them.
template <class E>
__device__ __forceinline__ void run_ends_narrow(const uint64_t *ends, uint64_t n, E *narrow) {
    each_run(n, [=](int, uint64_t k, bool inside) {
        const E end = E(ends[k]);
        if (inside) narrow[k] = end;
    });
}

// run_lengths stores each run's length. Where there is a count, it is the number
// of runs, and nothing is stored if it is above n.
template <class E, class L>
__device__ __forceinline__ void run_lengths(const E *ends, uint64_t n, const uint64_t *count, L *lengths) {
    const uint64_t runs = count == nullptr ? n : *count;
    if (runs > n) return;
    each_run(runs, [=](int, uint64_t k, bool inside) {
        const L length = L(uint64_t(ends[k]) - (k > 0 ? uint64_t(ends[k - 1]) : 0));
        if (inside) lengths[k] = length;
    });
}

// run_index_check reports the first of n indices that no run covers.
template <class E, class I>
__device__ __forceinline__ void run_index_check(const E *ends, uint64_t runs, const I *indices, uint64_t n, uint64_t *first) {
    const int64_t last = runs > 0 ? int64_t(ends[runs - 1]) : 0;
    const uint64_t total = last > 0 ? uint64_t(last) : 0;
    uint64_t found = 0;
    each_run(n, [&](int, uint64_t k, bool) {
        if (uint64_t(indices[k]) >= total) found = maximum(found, ~k);
    });
    report_first(found, first);
}

// run_at stores the value at each of n indices. A thread goes through its
// searches in step, so that their loads wait together; the first steps of all
// threads are at the same places, which stay in cache. Whatever ends holds, it
// reads nothing but the arrays.
template <class V, class E, class I>
__device__ __forceinline__ void run_at(const V *values, const E *ends, uint64_t runs, const I *indices, uint64_t n, V *out) {
    uint64_t index[runs_rows] = {}, run[runs_rows] = {};
    each_run(n, [&](int j, uint64_t k, bool) { index[j] = indices[k]; });
    for (uint64_t left = runs; left > 1;) {
        const uint64_t half = left / 2;
#pragma unroll
        for (int j = 0; j < runs_rows; j++) run[j] += uint64_t(ends[run[j] + half - 1]) <= index[j] ? half : 0;
        left -= half;
    }
    each_run(n, [&](int j, uint64_t k, bool inside) {
        const V value = values[run[j]];
        if (inside) out[k] = value;
    });
}

}  // namespace ptxrun
