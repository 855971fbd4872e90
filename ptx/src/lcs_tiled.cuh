#pragma once

#include "warp.cuh"

// The table of the longest common subsequence in squares of cells, of which those
// on an anti-diagonal do not depend on each other.

namespace ptxrun {

constexpr int lcs_tile = 256;  // rows, columns and threads of a square

// lcs_tiled fills the squares of one anti-diagonal from row first of squares on, a
// block each. right has the cells of the last column in each row so far, lower
// those of the last row in each column, corners the cell before a square's first
// row and column; all are 0 at the start. A thread has a row and is one column
// behind the row above.
template <class T>
__device__ __forceinline__ void lcs_tiled(const T *a, uint64_t m, const T *b, uint64_t n, uint32_t *right, uint32_t *lower, uint32_t *corners,
                                          uint64_t diagonal, uint64_t first) {
    __shared__ T letters[lcs_tile];
    __shared__ uint32_t above[lcs_tile];     // the row above the square, then its last row
    __shared__ uint32_t edge[2][lcs_tile + 1];  // each row's cell of the step before, behind the row above's

    const unsigned t = threadIdx.x;
    const uint64_t i = (first + blockIdx.x) * lcs_tile + t, j = (diagonal - first - blockIdx.x) * lcs_tile;
    const unsigned rows = minimum<uint64_t>(lcs_tile, m - (i - t)), columns = minimum<uint64_t>(lcs_tile, n - j);
    if (t < columns) {
        letters[t] = b[j + t];
        above[t] = lower[j + t];
    }
    const bool here = t < rows;
    const T letter = here ? a[i] : T(0);
    uint32_t left = here ? right[i] : 0;
    const uint32_t corner = corners[first + blockIdx.x];
    // The cell up and left of the next one: at the start, of the row above's left edge.
    uint32_t diagonal_cell = corner;
    edge[0][t + 1] = left;
    __syncthreads();
    if (t > 0) diagonal_cell = edge[0][t];
    const uint32_t next_corner = above[columns - 1];
    __syncthreads();

    for (unsigned s = 0; s < rows + columns - 1; s++) {
        const unsigned c = s - t;
        if (here && c < columns) {
            const uint32_t up = t == 0 ? above[c] : edge[(s + 1) % 2][t];
            left = letter == letters[c] ? diagonal_cell + 1 : maximum(up, left);
            diagonal_cell = up;
            edge[s % 2][t + 1] = left;
            if (t == rows - 1) lower[j + c] = left;
        }
        __syncthreads();
    }
    if (here) right[i] = left;
    if (t == 0) corners[first + blockIdx.x] = next_corner;
}

}  // namespace ptxrun
