// Functions that find out for themselves where they are, called by name and through
// a table.
#include "device.cuh"

__device__ __attribute__((noinline)) uint32_t linear_thread() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
__device__ __attribute__((noinline)) uint32_t linear_block() {
    return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}
__device__ __attribute__((noinline)) uint32_t element() {
    return linear_block() * (blockDim.x * blockDim.y * blockDim.z) + linear_thread();
}
__device__ __attribute__((noinline)) uint32_t twice(uint32_t v) { return 2 * v; }

typedef uint32_t (*Where)();
__device__ Where places[3] = {linear_thread, linear_block, element};

extern "C" __global__ void functions(uint32_t *out, uint32_t which) { out[element()] = twice(places[which % 3]()) + threadIdx.y; }
