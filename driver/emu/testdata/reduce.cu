// A reduction with shuffles whose last block to finish adds up the others' sums.
#include "device.cuh"

__device__ unsigned arrived;

extern "C" __global__ void reduce(const int *in, uint64_t n, int *partial, int *out) {
    __shared__ int sums[32];
    __shared__ bool last;
    int v = 0;
    for (uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += uint64_t(gridDim.x) * blockDim.x) v += in[i];
    auto block_sum = [&](int v) {
        for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(~0u, v, d);
        if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
        __syncthreads();
        v = threadIdx.x < blockDim.x / 32 ? sums[threadIdx.x] : 0;
        if (threadIdx.x < 32)
            for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(~0u, v, d);
        return v;
    };
    v = block_sum(v);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = v;
        __threadfence();
        last = unsigned(__nvvm_atom_inc_gen_ui(&arrived, gridDim.x - 1)) == gridDim.x - 1;
        __threadfence();
    }
    __syncthreads();
    if (!last) return;
    v = 0;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += blockDim.x) v += partial[i];
    __syncthreads();
    v = block_sum(v);
    if (threadIdx.x == 0) *out = v;
}
