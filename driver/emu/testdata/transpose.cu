// A tiled matrix transpose through padded shared memory.
#include "device.cuh"

constexpr int edge = 32, rows = 8;

extern "C" __global__ void __launch_bounds__(edge *rows) transpose(const float *in, float *out, int width, int height) {
    __shared__ float tile[edge][edge + 1];
    int x = blockIdx.x * edge + threadIdx.x;
    for (int j = threadIdx.y; j < edge; j += rows) {
        int y = blockIdx.y * edge + j;
        if (x < width && y < height) tile[j][threadIdx.x] = in[y * width + x];
    }
    __syncthreads();
    x = blockIdx.y * edge + threadIdx.x;
    for (int j = threadIdx.y; j < edge; j += rows) {
        int y = blockIdx.x * edge + j;
        if (x < height && y < width) out[y * height + x] = tile[threadIdx.x][j];
    }
}
