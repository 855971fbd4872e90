#pragma once

#include "block.cuh"
#include "op.cuh"
#include "search.cuh"
#include "shared.cuh"

// Reductions of a run-length encoding: run i is lengths[i] times values[i], and
// takes no part if that is zero times.
//
// Block b reduces runs [b·chunk, (b+1)·chunk) and stores a partial result, which
// the host puts together from left to right. A thread takes every 256th run of
// its block, in order; then lanes are combined by a tree and warps from left to
// right. So float sums depend on nothing but the data and the chunk.
//
// A reduction is a class as in op.cuh that also has
//
//     Value add(Value acc, V value, L length) const;  // length is not zero

namespace ptxrun {

constexpr int reduce_block = 256;
constexpr int reduce_rows = 8;  // runs whose loads a thread has in flight

struct Partial {
    uint64_t value[2];
    uint64_t elements;  // the sum of the lengths, which saturates
};

// chunk_runs calls f(value, length) for this thread's runs of its block's chunk.
template <class V, class L, class F>
__device__ __forceinline__ void chunk_runs(const V *values, const L *lengths, uint64_t n, uint64_t chunk, F f) {
    const uint64_t begin = blockIdx.x * chunk, end = minimum(n, begin + chunk);
    uint64_t k = begin + threadIdx.x;
    for (; k + (reduce_rows - 1) * reduce_block < end; k += reduce_rows * reduce_block) {
        V value[reduce_rows];
        L length[reduce_rows];
#pragma unroll
        for (int j = 0; j < reduce_rows; j++) {
            value[j] = values[k + j * reduce_block];
            length[j] = lengths[k + j * reduce_block];
        }
#pragma unroll
        for (int j = 0; j < reduce_rows; j++) f(value[j], length[j]);
    }
    for (; k < end; k += reduce_block) f(values[k], lengths[k]);
}

template <class R, class V, class L>
__device__ __forceinline__ void runs_reduce(const V *values, const L *lengths, uint64_t n, uint64_t chunk, Partial *partials, R reduction) {
    using T = typename R::Value;
    using Count = SaturatingSum<uint64_t>;
    __shared__ WarpTotals<T, reduce_block> shared_value;
    __shared__ WarpTotals<uint64_t, reduce_block> shared_elements;
    T acc[1] = {R::identity()};
    uint64_t elements[1] = {0};
    chunk_runs(values, lengths, n, chunk, [&](V value, L length) {
        if (length == 0) return;
        acc[0] = reduction.add(acc[0], value, length);
        elements[0] = Count::combine(elements[0], length);
    });
    const T result = block_reduce<R, reduce_block, 1>(acc, shared_value);
    const uint64_t counted = block_reduce<Count, reduce_block, 1>(elements, shared_elements);
    if (threadIdx.x != 0) return;
    Partial p = {{0, 0}, counted};
    copy_bytes(p.value, &result, sizeof(T));
    partials[blockIdx.x] = p;
}

__device__ __forceinline__ uint64_t multiply_high(uint64_t a, uint64_t b) {
    uint64_t r;
    asm("mul.hi.u64 %0, %1, %2;" : "=l"(r) : "l"(a), "l"(b));
    return r;
}

// RunsSum of integers is exact: the lengths' sum is below 2^63, so the elements'
// fits 128 bits, in two's complement.
template <class V, class L, bool = is_float<V>>
struct RunsSum {
    struct Value { uint64_t low, high; };
    static __device__ __forceinline__ Value identity() { return {0, 0}; }
    static __device__ __forceinline__ Value combine(Value a, Value b) {
        const uint64_t low = a.low + b.low;
        return {low, a.high + b.high + (low < a.low)};
    }
    __device__ __forceinline__ Value add(Value acc, V value, L length) const {
        const uint64_t x = uint64_t(value), product = x * length;  // extended by the sign
        if constexpr (sizeof(V) + sizeof(L) <= 8) {
            return combine(acc, {product, Limits<V>::is_signed ? uint64_t(int64_t(product) >> 63) : 0});
        }
        uint64_t high = multiply_high(x, length);
        if (value < V(0)) high -= length;
        return combine(acc, {product, high});
    }
};

// RunsSum of floats is in double; a product and its addition are rounded once.
template <class V, class L>
struct RunsSum<V, L, true> : Sum<double> {
    __device__ __forceinline__ double add(double acc, V value, L length) const {
        double r;
        asm("fma.rn.f64 %0, %1, %2, %3;" : "=d"(r) : "d"(double(value)), "d"(double(length)), "d"(acc));
        return r;
    }
};

template <class V, class L>
struct RunsMinMax {
    struct Value { V min, max; };
    static __device__ __forceinline__ Value identity() { return {Limits<V>::highest(), Limits<V>::lowest()}; }
    static __device__ __forceinline__ Value combine(Value a, Value b) { return {lesser(a.min, b.min), greater(a.max, b.max)}; }
    __device__ __forceinline__ Value add(Value acc, V value, L) const { return combine(acc, {value, value}); }
};

// RunsCount counts elements in a range of keys, or, if negate is not zero, the
// others; as ByValue of select.cuh.
template <class V, class L>
struct RunsCount : Sum<uint64_t> {
    V fold, low, span;
    uint32_t negate;
    __device__ __forceinline__ RunsCount(V fold, V low, V span, uint32_t negate) : fold(fold), low(low), span(span), negate(negate) {}
    __device__ __forceinline__ uint64_t add(uint64_t acc, V value, L length) const {
        const V sign = V(0) - V(value >> (8 * sizeof(V) - 1));
        const bool inside = V((value ^ (sign & fold)) - low) <= span;
        return acc + (inside != (negate != 0) ? length : 0);
    }
};

__device__ __forceinline__ void atomic_add_shared(uint64_t *p, uint64_t v) {
    asm volatile("red.shared.add.u64 [%0], %1;" : : "r"(shared_address(p)), "l"(v) : "memory");
}

constexpr unsigned histogram_bins = 2048;  // as many as a block counts by itself, in 16 KB

// runs_histogram adds to counts[i] how many elements have i of the edges, which
// ascend, at or below them, and stores each block's number of elements. NaN is
// in no bin.
template <class V, class L>
__device__ __forceinline__ void runs_histogram(const V *values, const L *lengths, uint64_t n, uint64_t chunk, const V *edges, uint64_t bins, uint64_t *counts, uint64_t *elements) {
    using Count = SaturatingSum<uint64_t>;
    __shared__ uint64_t shared_counts[histogram_bins];
    __shared__ WarpTotals<uint64_t, reduce_block> shared_elements;
    const bool own = bins <= histogram_bins;
    if (own) {
        for (unsigned i = threadIdx.x; i < bins; i += reduce_block) shared_counts[i] = 0;
        __syncthreads();
    }
    uint64_t total[1] = {0};
    chunk_runs(values, lengths, n, chunk, [&](V value, L length) {
        total[0] = Count::combine(total[0], length);
        if (length == 0 || value != value) return;
        const uint64_t bin = upper_bound(edges, bins - 1, value);
        if (own) {
            atomic_add_shared(shared_counts + bin, length);
        } else {
            atomic_add(counts + bin, uint64_t(length));
        }
    });
    const uint64_t counted = block_reduce<Count, reduce_block, 1>(total, shared_elements);
    if (threadIdx.x == 0) elements[blockIdx.x] = counted;
    if (!own) return;
    // block_reduce has waited for all threads.
    for (unsigned i = threadIdx.x; i < bins; i += reduce_block) {
        if (shared_counts[i] > 0) atomic_add(counts + i, shared_counts[i]);
    }
}

}  // namespace ptxrun
