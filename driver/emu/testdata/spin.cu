// Threads that wait for each other, within a warp, a block and a grid.
#include "device.cuh"

// Each lane waits for the lane before it, the first for nobody.
extern "C" __global__ void chain(volatile int *flags, int *order) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0)
        while (flags[i - 1] == 0) {}
    __threadfence(); // a volatile read alone does not order what follows
    order[i] = i == 0 ? 1 : 2 * order[i - 1] % 1009;
    __threadfence();
    flags[i] = 1;
}

// The other way round: lower lanes and blocks wait for higher ones.
extern "C" __global__ void backwards(volatile int *flags, int *order, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i + 1 < n)
        while (flags[i + 1] == 0) {}
    order[i] = n - i;
    __threadfence();
    flags[i] = 1;
}

// A lock that all threads take, two lanes of a warp never at the same time.
extern "C" __global__ void lock(int *mutex, int *count, int times) {
    for (int i = 0; i < times; i++) {
        bool done = false;
        while (!done) {
            if (__nvvm_atom_cas_gen_i(mutex, 0, 1) == 0) {
                __threadfence();
                *(volatile int *)count = *(volatile int *)count + 1;
                __threadfence();
                __nvvm_atom_xchg_gen_i(mutex, 0);
                done = true;
            }
        }
    }
}

// A barrier of the whole grid.
extern "C" __global__ void grid_barrier(unsigned *arrived, int *a, int *b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    a[i] = i;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        __nvvm_atom_add_gen_i((int *)arrived, 1);
        while (*(volatile unsigned *)arrived < gridDim.x) {}
        __threadfence();
    }
    __syncthreads();
    b[i] = a[n - 1 - i];
}

// Loops that lanes leave at different times by different ways, and votes among
// those that are left.
extern "C" __global__ void breaks(const int *in, int *out, int n) {
    int i = threadIdx.x, sum = 0;
    for (int k = 0; k < n; k++) {
        if (in[k] == i) break;
        if (in[k] % 5 == i % 5) continue;
        for (int j = 0; j < i % 4; j++) {
            sum += j;
            if (sum % 7 == 3) goto out;
        }
        if (k > 20 && in[k] % 3 == i % 3) {
            out[i] = -sum;
            return;
        }
        sum += in[k];
    }
out:
    out[i] = sum;
}
