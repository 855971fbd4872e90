// Kernels that are wrong, each in its own way.
#include "device.cuh"

extern "C" __global__ void past_end(int *p, int n) { p[threadIdx.x + n] = 1; }
extern "C" __global__ void misaligned(char *p) { *(int *)(p + threadIdx.x) = 1; }
extern "C" __global__ void null_read(int *p, int *out) { out[threadIdx.x] = p[0]; }
extern "C" __global__ void shared_past_end(int *out, int n) {
    __shared__ int s[32];
    s[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x + n];
}
extern "C" __global__ void local_past_end(int *out, int n) {
    int a[8];
    for (int i = 0; i < 8; i++) a[i] = out[i];
    out[threadIdx.x] = a[threadIdx.x + n] + a[n & 3];
}
extern "C" __global__ void missing_barrier(int *out) {
    __shared__ int s[64];
    s[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = s[63 - threadIdx.x];
}
extern "C" __global__ void same_warp_race(int *out) {
    __shared__ int s[32];
    s[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = s[31 - threadIdx.x];
}
extern "C" __global__ void write_race(int *out) {
    __shared__ int s;
    s = threadIdx.x;
    __syncthreads();
    *out = s;
}
__device__ __forceinline__ void hand_over(int *out, bool early) {
    __shared__ int s;
    if (threadIdx.x < 32) {
        if (threadIdx.x == 0 && !early) s = 42;
        asm volatile("bar.arrive 1, 64;" ::: "memory");
        if (threadIdx.x == 0 && early) s = 42;
    } else {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        if (threadIdx.x == 32) *out = s;
    }
}
extern "C" __global__ void handed_over(int *out) { hand_over(out, false); }
extern "C" __global__ void handed_over_early(int *out) { hand_over(out, true); }
extern "C" __global__ void block_race(int *out) { out[threadIdx.x] = out[threadIdx.x] + 1; }
extern "C" __global__ void missing_fence(int *data, volatile int *flag, int *out) {
    if (blockIdx.x == 0) {
        *data = 42;
        *flag = 1;
    } else {
        while (*flag == 0) {}
        *out = *data;
    }
}
extern "C" __global__ void missing_reader_fence(int *data, volatile int *flag, int *out) {
    if (blockIdx.x == 0) {
        *data = 42;
        __threadfence();
        *flag = 1;
    } else {
        while (*flag == 0) {}
        *out = *data;
    }
}
extern "C" __global__ void both_read(int *data, volatile int *flag, int *out) {
    if (blockIdx.x == 0) {
        *out = *data;
        *flag = 1;
    } else {
        while (*flag == 0) {}
        *data = *data + 1;
    }
}
extern "C" __global__ void with_fence(int *data, volatile int *flag, int *out) {
    if (blockIdx.x == 0) {
        *data = 42;
        __threadfence();
        *flag = 1;
    } else {
        while (*flag == 0) {}
        __threadfence();
        *out = *data;
    }
}
extern "C" __global__ void partial_barrier(int *out) {
    if (threadIdx.x >= 40) return;
    __syncthreads();
    out[threadIdx.x] = 1;
}
extern "C" __global__ void deadlock(volatile int *flags) {
    while (flags[1 - blockIdx.x] == 0) {}
    flags[blockIdx.x] = 1;
}
extern "C" __global__ void endless(int *out) {
    unsigned x = threadIdx.x;
    for (;;) {
        x = x * 5 + 1;
        if (x == 0xffffffff + threadIdx.x) x ^= x >> 3;
        asm volatile("" : "+r"(x));
        x &= 7;
    }
}
extern "C" __global__ void two_barriers(int *out) {
    if (threadIdx.x < 32)
        asm volatile("barrier.sync 1;");
    else
        asm volatile("barrier.sync 2;");
    out[threadIdx.x] = 1;
}
extern "C" __global__ void inactive_shuffle(unsigned *out) {
    if (threadIdx.x < 16) out[threadIdx.x] = __shfl_xor_sync(0xffff, threadIdx.x, 16);
}
extern "C" __global__ void not_in_mask(unsigned *out) { out[threadIdx.x] = __shfl_xor_sync(0xffff, threadIdx.x, 1); }
extern "C" __global__ void uninitialised_shared(int *out) {
    __shared__ int s[64];
    s[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x + 32];
}
extern "C" __global__ void copies(const int *in, int *out) { out[threadIdx.x] = in[threadIdx.x]; }
extern "C" __global__ void trap_here(int *out) {
    if (threadIdx.x == 7) __builtin_trap();
    *out = 1;
}
extern "C" __global__ void deep(int *out, int n);
__device__ __attribute__((noinline)) int down(int n, int *p) { return n == 0 ? *p : down(n - 1, p) + down(n - 2, p + n); }
extern "C" __global__ void deep(int *out, int n) { *out = down(n, out); }
extern "C" __global__ void undefined_address(int *out) {
    __shared__ volatile int s[64];
    out[s[threadIdx.x] & 7] = 1;
}
extern "C" __global__ void undefined_condition(int *out) {
    __shared__ volatile int s[64];
    if (s[threadIdx.x] > 5) out[threadIdx.x] = 1;
}
extern "C" __global__ void undefined_shuffled(unsigned *out) {
    __shared__ unsigned s[64];
    if (threadIdx.x != 9) s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = __shfl_up_sync(~0u, s[threadIdx.x] << 4 | 3, 1);
}
// Reads bytes behind the data, and drops them.
extern "C" __global__ void dropped_tail(const uint8_t *in, unsigned *out, int n) {
    __shared__ uint8_t s[128];
    if (threadIdx.x < n) s[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    unsigned word = reinterpret_cast<unsigned *>(s)[threadIdx.x], sum = 0;
    for (int i = 0; i < 4; i++) {
        unsigned v = word >> (8 * i) & 0xff;
        sum += 4 * threadIdx.x + i < n ? v : 0;
    }
    out[threadIdx.x] = sum;
}
