// Parent kernels, which record children, and children that record more.
#include "aggregate.cuh"

using ptxrun::ChildQueue;
using ptxrun::Granularity;

struct AddArgs {
    uint32_t *out;
    uint32_t n, by;
};

// add is a child: out[i] += by + its block, for n elements.
extern "C" __global__ void add(uint32_t *out, uint32_t n, uint32_t by) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] += by + blockIdx.x;
}

// Thread i of n asks for a child on its own 300 elements of out, of a grid and a
// block that depend on i; every third asks for none.
template <Granularity granularity>
__device__ void parent(ChildQueue *q, uint32_t *out, uint32_t n, uint32_t threshold) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    ptxrun::ChildConfig c = ptxrun::child_config(i % 4, 1 + i * 7 % 70, i % 5 * 16);
    AddArgs a = {out + uint64_t(i) * 300, c.grid[0] * c.block[0], i};
    ptxrun::launch_or_run<granularity>(q, i < n && i % 3 != 1, c, a, threshold, [](const ptxrun::ChildConfig &c, const AddArgs &a) {
        for (uint32_t k = 0; k < a.n; k++) a.out[k] += a.by + k / c.block[0];
    });
}

extern "C" __global__ void parent_grid(ChildQueue *q, uint32_t *out, uint32_t n, uint32_t threshold) {
    parent<Granularity::grid>(q, out, n, threshold);
}
extern "C" __global__ void parent_block(ChildQueue *q, uint32_t *out, uint32_t n, uint32_t threshold) {
    parent<Granularity::block>(q, out, n, threshold);
}
extern "C" __global__ void parent_warp(ChildQueue *q, uint32_t *out, uint32_t n, uint32_t threshold) {
    parent<Granularity::warp>(q, out, n, threshold);
}

// Records arguments of another kernel.
extern "C" __global__ void parent_wrong(ChildQueue *q) {
    ptxrun::launch<Granularity::grid>(q, true, ptxrun::child_config(1, 1), uint64_t(1));
}

// Thread 1 records a grid and a block that may be too large, the others good ones.
extern "C" __global__ void parent_large(ChildQueue *q, uint32_t *out, uint32_t grid_x, uint32_t grid_y, uint32_t grid_z, uint32_t block_x,
                                        uint32_t block_y, uint32_t block_z) {
    ptxrun::ChildConfig c = ptxrun::child_config(1, 1);
    if (threadIdx.x == 1) c = ptxrun::ChildConfig{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, 0, 0};
    ptxrun::launch<Granularity::grid>(q, threadIdx.x < 3, c, AddArgs{out, 1, 1});
}

// Each of n threads records a child of the given blocks of four threads, of which
// out[4 · block] and so on are the thread's.
extern "C" __global__ void parent_even(ChildQueue *q, uint32_t *out, uint32_t n, uint32_t blocks) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    ptxrun::launch<Granularity::grid>(q, i < n, ptxrun::child_config(blocks, 4), AddArgs{out + uint64_t(i) * blocks * 4, blocks * 4, i});
}

// Records at two granularities.
extern "C" __global__ void parent_mixed(ChildQueue *q, uint32_t *out) {
    ptxrun::launch<Granularity::grid>(q, threadIdx.x == 1, ptxrun::child_config(1, 1), AddArgs{out, 1, 1});
    ptxrun::launch<Granularity::warp>(q, threadIdx.x == 2, ptxrun::child_config(1, 1), AddArgs{out, 1, 1});
}

struct SplitArgs {
    ChildQueue *q;
    uint32_t *counts;
    uint32_t node, nodes;
};

// split visits a node of a binary heap and has its two children visited.
extern "C" __global__ void split(ChildQueue *q, uint32_t *counts, uint32_t node, uint32_t nodes) {
    uint32_t child = 2 * node + 1 + threadIdx.x;
    if (threadIdx.x == 0) counts[node]++;
    ptxrun::launch<Granularity::grid>(q, threadIdx.x < 2 && child < nodes, ptxrun::child_config(1, 2 + node % 40),
                                      SplitArgs{q, counts, child, nodes});
}
