// A bitonic sort of one block's elements, 64-bit keys and 16-bit values.
#include "device.cuh"

constexpr int count = 512;

extern "C" __global__ void __launch_bounds__(count / 2) bitonic(int64_t *keys, uint16_t *values, int n) {
    __shared__ int64_t k[count];
    __shared__ uint16_t v[count];
    const int base = blockIdx.x * count;
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        bool in = base + i < n;
        k[i] = in ? keys[base + i] : int64_t(0x7fffffffffffffff);
        v[i] = in ? values[base + i] : 0;
    }
    for (int size = 2; size <= count; size *= 2) {
        for (int stride = size / 2; stride > 0; stride /= 2) {
            __syncthreads();
            int lo = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
            int hi = lo + stride;
            bool up = (lo & size) == 0;
            if ((k[lo] > k[hi]) == up) {
                int64_t tk = k[lo];
                k[lo] = k[hi];
                k[hi] = tk;
                uint16_t tv = v[lo];
                v[lo] = v[hi];
                v[hi] = tv;
            }
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        if (base + i < n) {
            keys[base + i] = k[i];
            values[base + i] = v[i];
        }
    }
}
