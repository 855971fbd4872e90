#include "ptxrun/device.cuh" // __global__ and the like, for clang without a CUDA SDK

extern "C" __global__ void halve(const uint8_t *in, uint8_t *out, uint32_t width) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < width) out[i] = in[2 * i];
}
