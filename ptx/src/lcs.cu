// What of the longest common subsequence does not depend on the letters' width: the
// spin-wait wavefront, which takes bytes, a thread a cell of the table that waits
// until its three neighbours are there; and the copying of results.

#include "device.cuh"
#include "warp.cuh"

namespace ptxrun {

constexpr int lcs_edge = 16;  // a block is a square of cells
constexpr int lcs_block = lcs_edge * lcs_edge;
constexpr int32_t lcs_missing = -1;

// tiles_before returns how many tiles of rows × columns lie on anti-diagonals
// before the given one.
__device__ __forceinline__ uint64_t tiles_before(uint64_t diagonal, uint64_t rows, uint64_t columns) {
    const uint64_t shorter = minimum(rows, columns), longer = maximum(rows, columns);
    const auto triangle = [](uint64_t k) { return k * (k + 1) / 2; };  // a grid has less than 2^31 tiles
    if (diagonal < shorter) return triangle(diagonal);
    if (diagonal <= longer) return triangle(shorter) - shorter + (diagonal - shorter + 1) * shorter;
    return rows * columns - triangle(rows + columns - 1 - diagonal);
}

}  // namespace ptxrun

// The table is m×n, row-major, every cell -1 at the start. *ticket is 0 at the
// start, the grid ceil(m/16)·ceil(n/16) blocks.
//
// Forward progress: blocks take their tile by ticket, anti-diagonal after
// anti-diagonal, so that a tile's neighbours belong to blocks that run already.
// Lanes of one warp wait for each other, so a lane whose cell is done stays in
// the loop until all are: its store is inside, where no compiler can put it
// behind the point at which the lanes meet again.
extern "C" __global__ void __launch_bounds__(ptxrun::lcs_block)
    lcs_spinwait(const uint8_t *a, uint64_t m, const uint8_t *b, uint64_t n, volatile int32_t *table, uint64_t *ticket) {
    using namespace ptxrun;
    __shared__ uint64_t tile[2];  // row and column
    if (threadIdx.x == 0) {
        const uint64_t rows = ceil_div<uint64_t>(m, lcs_edge), columns = ceil_div<uint64_t>(n, lcs_edge);
        const uint64_t t = atomic_add(ticket, uint64_t(1));
        // The last diagonal with no more than t tiles before it.
        uint64_t lo = 0, hi = rows + columns - 1;
        while (hi - lo > 1) {
            const uint64_t d = (lo + hi) / 2;
            if (tiles_before(d, rows, columns) <= t) lo = d;
            else hi = d;
        }
        const uint64_t top = lo < columns ? 0 : lo - columns + 1;
        tile[0] = top + (t - tiles_before(lo, rows, columns));
        tile[1] = lo - tile[0];
    }
    __syncthreads();

    const uint64_t i = tile[0] * lcs_edge + threadIdx.x / lcs_edge;
    const uint64_t j = tile[1] * lcs_edge + threadIdx.x % lcs_edge;
    bool waiting = i < m && j < n;
    // a and b may be host memory: each thread reads them once.
    const bool same = waiting && a[i] == b[j];
    volatile int32_t *const cell = table + i * n + j;
    while (__any_sync(full_warp, waiting)) {
        if (!waiting) continue;
        const int32_t up = i > 0 ? cell[-int64_t(n)] : 0;
        const int32_t left = j > 0 ? cell[-1] : 0;
        const int32_t diagonal = i > 0 && j > 0 ? cell[-int64_t(n) - 1] : 0;
        if (up == lcs_missing || left == lcs_missing || diagonal == lcs_missing) continue;
        *cell = maximum(diagonal + same, maximum(up, left));
        waiting = false;
    }
}

// lcs_place copies lengths to their two places among results.
extern "C" __global__ void __launch_bounds__(ptxrun::lcs_block)
    lcs_place(const uint64_t *lengths, uint64_t n, const uint64_t *places, uint32_t *results) {
    const uint64_t i = uint64_t(blockIdx.x) * ptxrun::lcs_block + threadIdx.x;
    if (i >= n) return;
    const uint32_t length = lengths[i];
    results[places[2 * i]] = length;
    if (places[2 * i + 1] != places[2 * i]) results[places[2 * i + 1]] = length;
}

// lcs_unpack stores n bits as numbers.
extern "C" __global__ void __launch_bounds__(ptxrun::lcs_block) lcs_unpack(const uint32_t *bits, uint64_t n, uint32_t *out) {
    const uint64_t i = uint64_t(blockIdx.x) * ptxrun::lcs_block + threadIdx.x;
    if (i < n) out[i] = bits[i / 32] >> i % 32 & 1;
}
