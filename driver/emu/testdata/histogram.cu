// A histogram of bytes: atomics in shared memory, then in global memory.
#include "device.cuh"

extern __shared__ unsigned bins[];

extern "C" __global__ void histogram(const uint8_t *data, uint64_t n, unsigned *out) {
    for (int i = threadIdx.x; i < 256; i += blockDim.x) bins[i] = 0;
    __syncthreads();
    uint64_t step = uint64_t(gridDim.x) * blockDim.x;
    for (uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step)
        __nvvm_atom_add_gen_i((int *)&bins[data[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        if (bins[i] != 0) __nvvm_atom_add_gen_i((int *)&out[i], bins[i]);
}
