// Reductions of encodings whose values are numbers of one type. PTXRUN_TYPE is
// the type, PTXRUN_NAME its name in the kernels.

#include "runs_reduce.cuh"

#define KERNEL extern "C" __global__ void __launch_bounds__(ptxrun::reduce_block)

#define REDUCE(name, v, V, l, L, ...) \
    KERNEL runs_##name##_##v##_##l(const V *values, const L *lengths, uint64_t n, uint64_t chunk, ptxrun::Partial *partials) { \
        ptxrun::runs_reduce(values, lengths, n, chunk, partials, __VA_ARGS__{}); \
    }

#define LENGTHS(v, V, l, L) \
    REDUCE(sum, v, V, l, L, ptxrun::RunsSum<V, L>) \
    REDUCE(minmax, v, V, l, L, ptxrun::RunsMinMax<V, L>) \
    KERNEL runs_histogram_##v##_##l(const V *values, const L *lengths, uint64_t n, uint64_t chunk, const V *edges, uint64_t bins, \
                                    uint64_t *counts, uint64_t *elements) { \
        ptxrun::runs_histogram(values, lengths, n, chunk, edges, bins, counts, elements); \
    }

#define KERNELS(v, V) KERNELS_NAMED(v, V)
#define KERNELS_NAMED(v, V) \
    LENGTHS(v, V, u32, uint32_t) \
    LENGTHS(v, V, u64, uint64_t)

KERNELS(PTXRUN_NAME, PTXRUN_TYPE)
