// A tiled matrix product.
#include "device.cuh"

constexpr int edge = 16;

extern "C" __global__ void __launch_bounds__(edge *edge) matmul(const float *a, const float *b, float *c, int m, int n, int k) {
    __shared__ float ta[edge][edge], tb[edge][edge];
    int row = blockIdx.y * edge + threadIdx.y, col = blockIdx.x * edge + threadIdx.x;
    float sum = 0;
    for (int t = 0; t < k; t += edge) {
        ta[threadIdx.y][threadIdx.x] = row < m && t + threadIdx.x < k ? a[row * k + t + threadIdx.x] : 0;
        tb[threadIdx.y][threadIdx.x] = col < n && t + threadIdx.y < k ? b[(t + threadIdx.y) * n + col] : 0;
        __syncthreads();
        for (int i = 0; i < edge; i++) sum += ta[threadIdx.y][i] * tb[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = sum;
}
