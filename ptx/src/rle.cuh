#pragma once

#include "block.cuh"
#include "search.cuh"

// Run-length encoding (mark run heads, scan the marks, scatter run starts,
// finish lengths) and decoding (scan lengths to run ends, then write the runs
// by one of four strategies). Values are compared and copied by their bits.
//
// V is the type of a value, I that of a position, L that of a length. No two
// arrays of a kernel overlap. Positions are computed in 64 bits.

namespace ptxrun {

constexpr int rle_block = 256;
constexpr int rle_tile = 256 * 16;  // elements a block marks, scatters or widens
constexpr int decode_block = 256;
constexpr int decode_tile_bytes = 16384;  // of output that a block of the tiled strategy owns

// A block of the element-wise kernels goes over its tile in rows of rle_block
// vectors of vt elements: the vectors of the widest array are 16 bytes.
template <int vt>
constexpr int rle_rows = rle_tile / (rle_block * vt);

// rle_mark sets flags[k] where a run begins: at 0, and where raw[k] differs
// from raw[k-1].
template <class V, class I>
__device__ __forceinline__ void rle_mark(const V *raw, uint64_t n, I *flags) {
    constexpr int vt = 16 / sizeof(I), rows = rle_rows<vt>;
    const uint64_t base = uint64_t(blockIdx.x) * rle_tile;
    const auto starts_run = [=](uint64_t k) { return I(k == 0 || raw[k] != raw[k - 1]); };

    if (base + rle_tile <= n && is_aligned(raw, minimum(16, vt * int(sizeof(V)))) && is_aligned(flags, 16)) {
        V x[rows][vt], before[rows];
#pragma unroll
        for (int j = 0; j < rows; j++) {
            const uint64_t k = base + (j * rle_block + threadIdx.x) * vt;
            load_wide(x[j], raw + k);
            before[j] = raw[k - (k > 0)];
        }
#pragma unroll
        for (int j = 0; j < rows; j++) {
            const uint64_t k = base + (j * rle_block + threadIdx.x) * vt;
            I f[vt];
            f[0] = k == 0 || x[j][0] != before[j];
#pragma unroll
            for (int i = 1; i < vt; i++) f[i] = x[j][i] != x[j][i - 1];
            store_wide(flags + k, f);
        }
        return;
    }
    const uint64_t end = minimum(n, base + rle_tile);
    for (uint64_t k = base + threadIdx.x; k < end; k += rle_block) flags[k] = starts_run(k);
}

// rle_scatter stores where each run starts, for the first capacity runs, and
// how many runs there are. scanned is the inclusive scan of the flags.
template <class I>
__device__ __forceinline__ void rle_scatter(const I *scanned, uint64_t n, I *starts, uint64_t capacity, uint64_t *count) {
    constexpr int vt = 16 / sizeof(I), rows = rle_rows<vt>;
    const uint64_t base = uint64_t(blockIdx.x) * rle_tile;
    const auto scatter = [=](uint64_t k, I before, I here) {
        if (here != before && here - 1 < capacity) starts[here - 1] = I(k);
    };
    if (base < n && n - base <= rle_tile && threadIdx.x == 0) *count = scanned[n - 1];

    if (base + rle_tile <= n && is_aligned(scanned, 16)) {
        I x[rows][vt], before[rows];
#pragma unroll
        for (int j = 0; j < rows; j++) {
            const uint64_t k = base + (j * rle_block + threadIdx.x) * vt;
            load_wide(x[j], scanned + k);
            before[j] = k > 0 ? scanned[k - 1] : 0;
        }
#pragma unroll
        for (int j = 0; j < rows; j++) {
            const uint64_t k = base + (j * rle_block + threadIdx.x) * vt;
            scatter(k, before[j], x[j][0]);
#pragma unroll
            for (int i = 1; i < vt; i++) scatter(k + i, x[j][i - 1], x[j][i]);
        }
        return;
    }
    const uint64_t end = minimum(n, base + rle_tile);
    for (uint64_t k = base + threadIdx.x; k < end; k += rle_block) scatter(k, k > 0 ? scanned[k - 1] : 0, scanned[k]);
}

// rle_finish stores the value and length of the first capacity runs; starts also
// holds where the run after them begins, if there is one. Any grid will do, because
// only the device knows the count.
template <class V, class I, class L>
__device__ __forceinline__ void rle_finish(const V *raw, uint64_t n, const I *starts, const uint64_t *count, uint64_t capacity, V *values, L *lengths) {
    const uint64_t all = *count, runs = minimum(all, capacity);
    constexpr int vt = 4;
    const bool wide = is_aligned(starts, 16) && is_aligned(values, minimum(16, vt * int(sizeof(V)))) && is_aligned(lengths, 16);
    const uint64_t stride = uint64_t(gridDim.x) * rle_block * vt;
    for (uint64_t r = (uint64_t(blockIdx.x) * rle_block + threadIdx.x) * vt; r < runs; r += stride) {
        if (wide && r + vt <= runs) {
            I start[vt];
            V value[vt];
            L length[vt];
            load_wide(start, starts + r);
            const uint64_t end = r + vt < all ? starts[r + vt] : n;
#pragma unroll
            for (int i = 0; i < vt; i++) {
                value[i] = raw[start[i]];
                length[i] = L((i + 1 < vt ? start[i + 1] : end) - start[i]);
            }
            store_wide(values + r, value);
            store_wide(lengths + r, length);
            continue;
        }
        for (uint64_t i = r; i < minimum(r + vt, runs); i++) {
            const uint64_t start = starts[i], end = i + 1 < all ? starts[i + 1] : n;
            values[i] = raw[start];
            lengths[i] = L(end - start);
        }
    }
}

// The decode kernels write values[r] to out[ends[r-1], ends[r]) for every run,
// and nothing at or above total. ends is the inclusive scan of the lengths;
// runs may be empty; the last end is at least total. Any grid will do.

// rle_decode_thread: a thread writes a run. For runs shorter than a vector.
template <class V>
__device__ __forceinline__ void rle_decode_thread(const V *values, const uint64_t *ends, uint64_t runs, V *out, uint64_t total) {
    const uint64_t threads = uint64_t(gridDim.x) * decode_block;
    for (uint64_t r = uint64_t(blockIdx.x) * decode_block + threadIdx.x; r < runs; r += threads) {
        const uint64_t begin = r > 0 ? minimum(ends[r - 1], total) : 0, end = minimum(ends[r], total);
        fill(out, begin, end, values[r], 0, 1);
    }
}

// rle_decode_group: group threads, a warp or a block, write a run together.
// They read several runs at a time, one a lane, because a run's two ends cost
// a memory latency and often more than its elements.
template <class V, int group>
__device__ __forceinline__ void rle_decode_group(const V *values, const uint64_t *ends, uint64_t runs, V *out, uint64_t total) {
    constexpr unsigned block_groups = decode_block / group;
    const unsigned lane = threadIdx.x % warp_size;
    const uint64_t groups = uint64_t(gridDim.x) * block_groups;
    const uint64_t first = uint64_t(blockIdx.x) * block_groups + threadIdx.x / group;
    // No more at a time than leaves a share to every group.
    const unsigned batch = minimum<uint64_t>(ceil_div(runs, groups), warp_size);

    for (uint64_t base = first * batch; base < runs; base += groups * batch) {
        const unsigned held = minimum<uint64_t>(batch, runs - base);
        const uint64_t r = base + minimum(lane, held - 1);
        const uint64_t begin = r > 0 ? minimum(ends[r - 1], total) : 0, end = minimum(ends[r], total);
        const V value = values[r];
        for (unsigned i = 0; i < held; i++)
            fill(out, shuffle(begin, i), shuffle(end, i), shuffle(value, i), threadIdx.x % group, group);
    }
}

// rle_decode_tiled: a block owns a tile of the output and finds the runs that
// lie in it, so that no distribution of lengths leaves threads without work.
// The tile's run ends and values go through shared memory, up to stage runs at
// a time; then a thread searches there once for each 16-byte vector it writes.
template <class V>
__device__ __forceinline__ void rle_decode_tiled(const V *values, const uint64_t *ends, uint64_t runs, V *out, uint64_t total) {
    constexpr unsigned tile = decode_tile_bytes / sizeof(V);
    constexpr unsigned stage = minimum(tile, 2048u);
    constexpr unsigned vw = vector_width<V>;
    static_assert(tile <= 0xffff, "a place in the tile is 16 bits");

    __shared__ uint64_t tile_runs[2];  // the runs of the tile's first and last element
    __shared__ uint16_t stage_ends[stage];  // relative to the tile
    __shared__ V stage_values[stage];
    const unsigned tid = threadIdx.x, warp = tid / warp_size;

    const uint64_t tiles = ceil_div<uint64_t>(total, tile);
    for (uint64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
        const uint64_t base = t * tile;
        const unsigned size = minimum<uint64_t>(tile, total - base);
        V *const tile_out = out + base;
        // Vectors lie at 16-byte boundaries: the first begins lead elements before the tile.
        const unsigned lead = reinterpret_cast<uintptr_t>(tile_out) / sizeof(V) % vw;

        if (warp < 2) {
            const uint64_t k = warp == 0 ? base : base + size - 1;
            const uint64_t r = warp_upper_bound(ends, runs, k, tid % warp_size);
            if (tid % warp_size == 0) tile_runs[warp] = r;
        }
        __syncthreads();
        const uint64_t last = tile_runs[1];

        unsigned done = 0;  // elements of the tile that are written
        for (uint64_t first = tile_runs[0]; first <= last; first += stage) {
            const unsigned held = minimum<uint64_t>(stage, last - first + 1);
            for (unsigned i = tid; i < held; i += decode_block) {
                stage_ends[i] = minimum<uint64_t>(ends[first + i] - base, size);
                stage_values[i] = values[first + i];
            }
            __syncthreads();

            const unsigned end = stage_ends[held - 1];
            for (unsigned v = (done + lead) / vw + tid; v * vw < end + lead; v += decode_block) {
                // Elements [lo, hi) of the tile; at an edge, a part of the vector.
                const unsigned lo = maximum(v * vw, done + lead) - lead;
                const unsigned hi = minimum(v * vw + vw, end + lead) - lead;
                unsigned i = upper_bound(stage_ends, held, uint16_t(lo));
                unsigned run_end = stage_ends[i];
                V value = stage_values[i];
                const auto value_at = [&](unsigned k) {
                    while (k >= run_end) {
                        i++;
                        run_end = stage_ends[i];
                        value = stage_values[i];
                    }
                    return value;
                };
                if (hi - lo == vw) {
                    V x[vw];
#pragma unroll
                    for (unsigned k = 0; k < vw; k++) x[k] = value;
                    if (run_end < hi) {
#pragma unroll
                        for (unsigned k = 1; k < vw; k++) x[k] = value_at(lo + k);
                    }
                    store_wide(tile_out + lo, x);
                } else {
                    for (unsigned k = lo; k < hi; k++) tile_out[k] = value_at(k);
                }
            }
            done = end;
            __syncthreads();
        }
    }
}

}  // namespace ptxrun
