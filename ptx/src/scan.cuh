#pragma once

#include "scan_pass.cuh"
#include "scan_recursive.cuh"
#include "scan_segmented.cuh"

namespace ptxrun {
template <class T>
constexpr bool scannable = __is_trivially_copyable(T) && sizeof(T) <= 16 && (sizeof(T) % 4 == 0 || sizeof(T) <= 2);
}

// PTXRUN_SCAN(name, Op) emits every scan kernel of operator Op, a class as in
// op.cuh. This is what a user's own operator is brought with. Compiled for sm_90
// it has the kernel that only that target has, beside those of sm_70. v2 is the
// version of the kernels' parameters and tiles, as in kernels.go.
#define PTXRUN_SCAN(name, ...) \
    using scan_op_##name = __VA_ARGS__; \
    static_assert(ptxrun::scannable<scan_op_##name::Value>, "a Value has 1, 2, 4, 8, 12 or 16 bytes and is trivially copyable"); \
    PTXRUN_SCAN_RECURSIVE(v3_##name, scan_op_##name) \
    PTXRUN_SCAN_PASS(v3_##name, scan_op_##name::Value, scan_op_##name) \
    PTXRUN_SCAN_SEGMENTED(v3_##name, scan_op_##name) \
    PTXRUN_SCAN_BULK_IF(v3_##name, scan_op_##name::Value, scan_op_##name)

#if __CUDA_ARCH__ >= 900
#define PTXRUN_SCAN_BULK_IF(...) PTXRUN_SCAN_BULK(__VA_ARGS__)
#else
#define PTXRUN_SCAN_BULK_IF(...)
#endif
