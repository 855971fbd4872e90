// The kernels of the longest common subsequence for letters of one width.
// PTXRUN_TYPE is the type of a letter, PTXRUN_NAME its name in the kernels.

#include "lcs_many.cuh"
#include "lcs_tiled.cuh"

#define KERNEL(block) extern "C" __global__ void __launch_bounds__(ptxrun::block)

#define KERNELS(t, T) KERNELS_NAMED(t, T)
#define KERNELS_NAMED(t, T) \
    KERNEL(lcs_pass_block) \
    lcs_pass_##t(const T *a, const T *b, const ptxrun::LCSProblem *problems, uint64_t count, uint64_t rows, uint64_t columns, uint64_t front, \
                 uint64_t keep, uint64_t slots, uint64_t units, uint64_t *ring, uint32_t *kept, uint64_t *lengths, uint64_t *ticket) { \
        ptxrun::lcs_pass(a, b, problems, count, rows, columns, front, keep, slots, units, ring, kept, lengths, ticket); \
    } \
    KERNEL(lcs_cross_block) \
    lcs_cross_##t(const ptxrun::LCSProblem *problems, uint64_t count, uint64_t columns, const uint32_t *kept, uint64_t *crossings, uint64_t *lengths) { \
        ptxrun::lcs_cross(problems, count, columns, kept, crossings, lengths); \
    } \
    KERNEL(warp_size) \
    lcs_trace_##t(const T *a, const T *b, const ptxrun::LCSPiece *pieces, uint32_t *values, uint32_t *states, uint64_t *rows, \
                  uint32_t *a_marks, uint32_t *b_marks) { \
        ptxrun::lcs_trace(a, b, pieces, values, states, rows, a_marks, b_marks); \
    } \
    KERNEL(warp_size) \
    lcs_many_##t(const T *a, const T *b, const ptxrun::LCSLane *lanes, const ptxrun::LCSSlice *slices, const uint8_t *counts, \
                 const uint32_t *columns, uint32_t *results, uint64_t stride, uint32_t where) { \
        ptxrun::lcs_many(a, b, lanes, slices, counts, columns, results, stride, where); \
    } \
    KERNEL(lcs_tile) \
    lcs_tiled_##t(const T *a, uint64_t m, const T *b, uint64_t n, uint32_t *right, uint32_t *lower, uint32_t *corners, uint64_t diagonal, \
                  uint64_t first) { \
        ptxrun::lcs_tiled(a, m, b, n, right, lower, corners, diagonal, first); \
    }

KERNELS(PTXRUN_NAME, PTXRUN_TYPE)
