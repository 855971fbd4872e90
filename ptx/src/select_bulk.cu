// Compaction of values of one width by bulk copies (sm_90). PTXRUN_TYPE is the
// type of a value, PTXRUN_NAME its name in the kernels.

#include "select.cuh"

#define KERNEL(...) extern "C" __global__ void __launch_bounds__(ptxrun::SelectShape<__VA_ARGS__>::block)
#define OUTPUT(V) uint64_t n, V *out, uint64_t *count, uint64_t capacity, uint32_t mode, ptxrun::PassState *state, uint32_t first

#define KERNELS(v, V) KERNELS_NAMED(v, V)
#define KERNELS_NAMED(v, V) \
    KERNEL(V, ptxrun::ByFlag) select_bulk_flagged_##v(const V *in, const uint8_t *flags, OUTPUT(V)) { \
        ptxrun::select_bulk(ptxrun::Input<V, ptxrun::ByFlag>(in, {flags}), n, ptxrun::Output<V>{out, count, capacity, mode}, {state, first}); \
    } \
    KERNEL(V, ptxrun::ByValue<V>) select_bulk_compare_##v(const V *in, V fold, V low, V span, uint32_t negate, OUTPUT(V)) { \
        ptxrun::select_bulk(ptxrun::Input<V, ptxrun::ByValue<V>>(in, {fold, low, span, negate}), n, ptxrun::Output<V>{out, count, capacity, mode}, {state, first}); \
    } \
    KERNEL(V, ptxrun::ByNeighbour) select_bulk_unique_##v(const V *in, OUTPUT(V)) { \
        ptxrun::select_bulk(ptxrun::Input<V, ptxrun::ByNeighbour>(in, {}), n, ptxrun::Output<V>{out, count, capacity, mode}, {state, first}); \
    }

KERNELS(PTXRUN_NAME, PTXRUN_TYPE)
