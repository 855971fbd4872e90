// Random access to values of one width by run ends. PTXRUN_TYPE is the type of a
// value, PTXRUN_NAME its name in the kernels.

#include "run_ends.cuh"

#define AT(v, V, e, E, i, I) \
    extern "C" __global__ void __launch_bounds__(ptxrun::runs_block) \
        run_at_##v##_##e##_##i(const V *values, const E *ends, uint64_t runs, const I *indices, uint64_t n, V *out) { \
        ptxrun::run_at(values, ends, runs, indices, n, out); \
    }

#define KERNELS(v, V) KERNELS_NAMED(v, V)
#define KERNELS_NAMED(v, V) \
    AT(v, V, i16, int16_t, u32, uint32_t) \
    AT(v, V, i16, int16_t, u64, uint64_t) \
    AT(v, V, i32, int32_t, u32, uint32_t) \
    AT(v, V, i32, int32_t, u64, uint64_t) \
    AT(v, V, i64, int64_t, u32, uint32_t) \
    AT(v, V, i64, int64_t, u64, uint64_t)

KERNELS(PTXRUN_NAME, PTXRUN_TYPE)
