// Kernels of the figures of launch aggregation. Child i of n has 1 + hash(i) % 1023
// threads and writes i + t to its place t of 1024.
#include <ptxrun/aggregate.cuh>

using namespace ptxrun;

constexpr uint32_t room = 1024, block = 128;

__device__ __forceinline__ uint64_t hash(uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

struct Child {
    uint32_t *out;
    uint32_t i, n;
};

extern "C" __global__ void child(uint32_t *out, uint32_t i, uint32_t n) {
    const uint32_t t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) out[t] = i + t;
}

template <Granularity granularity>
__device__ __forceinline__ void ask(ChildQueue *q, uint32_t *out, uint32_t n) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    const uint32_t size = 1 + uint32_t(hash(i) % 1023);
    launch<granularity>(q, i < n, child_config(ceil_div(size, block), block), Child{out + uint64_t(i) * room, i, size});
}

extern "C" __global__ void parent_grid(ChildQueue *q, uint32_t *out, uint32_t n) { ask<Granularity::grid>(q, out, n); }
extern "C" __global__ void parent_block(ChildQueue *q, uint32_t *out, uint32_t n) { ask<Granularity::block>(q, out, n); }
extern "C" __global__ void parent_warp(ChildQueue *q, uint32_t *out, uint32_t n) { ask<Granularity::warp>(q, out, n); }

// The same by hand: a parent that leaves each child's size at its own place, its
// first block, and for each block whose it is; and one kernel for all blocks.
extern "C" __global__ void hand_parent(uint32_t n, uint32_t *sizes, uint32_t *starts, uint32_t *owners, uint32_t *total) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % warp_size;
    const uint32_t size = 1 + uint32_t(hash(i) % 1023);
    const uint32_t blocks = i < n ? ceil_div(size, block) : 0;
    const uint32_t end = warp_scan<Sum<uint32_t>>(blocks, lane), all = shuffle(end, warp_size - 1);
    uint32_t first = 0;
    if (lane == 0 && all > 0) first = atomic_add(total, all);
    first = shuffle(first, 0) + end - blocks;
    if (i >= n) return;
    sizes[i] = size;
    starts[i] = first;
    for (uint32_t b = 0; b < blocks; b++) owners[first + b] = i; // at most 8
}

extern "C" __global__ void __launch_bounds__(block) hand_children(uint32_t *out, const uint32_t *sizes, const uint32_t *starts, const uint32_t *owners) {
    const uint32_t i = owners[blockIdx.x];
    const uint32_t t = (blockIdx.x - starts[i]) * block + threadIdx.x;
    if (t < sizes[i]) out[uint64_t(i) * room + t] = i + t;
}

// add_one is bound by memory.
struct alignas(16) Four {
    uint32_t v[4];
};

extern "C" __global__ void add_one(const Four *in, Four *out, uint64_t n) {
    const uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Four f = in[i];
#pragma unroll
    for (int k = 0; k < 4; k++) f.v[k]++;
    out[i] = f;
}
