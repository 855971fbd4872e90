// Kernels whose results depend on everything that a child sees of its launch.
#include "device.cuh"

struct Mix {
    uint32_t v[5];
    uint8_t tail;
};

// position mixes a thread's place, its launch's shape and its arguments into the
// thread's own element.
extern "C" __global__ void position(uint64_t *out, uint8_t a, Mix m, double d, uint16_t b) {
    uint64_t block = blockIdx.x + uint64_t(gridDim.x) * (blockIdx.y + uint64_t(gridDim.y) * blockIdx.z);
    uint32_t thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    uint64_t h = a + 3 * m.v[thread % 5] + 7 * m.tail + 11 * b + uint64_t(d);
    h = h * 31 + threadIdx.x;
    h = h * 31 + threadIdx.y;
    h = h * 31 + threadIdx.z;
    h = h * 31 + blockIdx.x;
    h = h * 31 + blockIdx.y;
    h = h * 31 + blockIdx.z;
    h = h * 31 + blockDim.x + 41 * blockDim.y + 1681 * blockDim.z;
    h = h * 31 + gridDim.x + 41 * gridDim.y + 1681 * gridDim.z;
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] = h;
}

// reversed turns each block's values around by way of dynamic shared memory and
// adds the sum of the block's warp.
extern __shared__ uint32_t dynamic[];

extern "C" __global__ void reversed(const uint32_t *in, uint32_t *out) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t v = in[i], size;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(size));
    dynamic[threadIdx.x] = v;
    __syncthreads();
    uint32_t other = dynamic[blockDim.x - 1 - threadIdx.x];
    __syncthreads();
    uint32_t first = threadIdx.x & ~31u;
    uint32_t lanes = blockDim.x - first < 32 ? blockDim.x - first : 32;
    uint32_t mask = lanes == 32 ? 0xffffffff : (1u << lanes) - 1;
    uint32_t sum = 0;
    for (uint32_t l = 0; l < lanes; l++) sum += __shfl_sync(mask, v, l);
    out[i] = other + sum + size;
}

// added has no barrier and no shared memory.
extern "C" __global__ void added(uint32_t *out, uint32_t n, uint32_t by) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] += by + blockIdx.x;
}
