// Asynchronous copies: by groups, and in bulk with an mbarrier.
#include "device.cuh"

struct alignas(16) int4_t {
    int x, y, z, w;
};

__device__ unsigned shared_address(const void *p) { return (unsigned)(uintptr_t)(__attribute__((address_space(3))) const void *)p; }

// Doubles ints, 4 a thread; two stages of copies are in flight.
extern "C" __global__ void __launch_bounds__(64) staged(const int4_t *in, int4_t *out, int tiles) {
    __shared__ int4_t buffer[2][64];
    auto fetch = [&](int t) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(&buffer[t % 2][threadIdx.x])),
                     "l"(in + t * 64 + threadIdx.x)
                     : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    fetch(0);
    for (int t = 0; t < tiles; t++) {
        if (t + 1 < tiles) {
            fetch(t + 1);
            asm volatile("cp.async.wait_group 1;" ::: "memory");
        } else {
            asm volatile("cp.async.wait_all;" ::: "memory");
        }
        __syncthreads();
        int4_t v = buffer[t % 2][63 - threadIdx.x];
        v.x *= 2; v.y *= 2; v.z *= 2; v.w *= 2;
        out[t * 64 + 63 - threadIdx.x] = v;
        __syncthreads();
    }
}

// Adds one to ints that a bulk copy brings and another takes away.
extern "C" __global__ void __launch_bounds__(128) bulk(const int *in, int *out, int tiles) {
    __shared__ __attribute__((aligned(128))) int buffer[512];
    __shared__ uint64_t barrier;
    unsigned bar = shared_address(&barrier), buf = shared_address(buffer);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
        asm volatile("fence.proxy.async;" ::: "memory");
    }
    __syncthreads();
    for (int t = blockIdx.x, phase = 0; t < tiles; t += gridDim.x, phase ^= 1) {
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(2048) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(buf),
                         "l"(in + t * 512), "r"(2048), "r"(bar)
                         : "memory");
        }
        asm volatile(
            "{\n\t.reg .pred done;\n"
            "again:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
            "\t@done bra ready;\n\tbra again;\n"
            "ready:\n\t}" ::"r"(bar), "r"(phase) : "memory");
        for (int i = threadIdx.x; i < 512; i += blockDim.x) buffer[i]++;
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(out + t * 512), "r"(buf), "r"(2048) : "memory");
            asm volatile("cp.async.bulk.commit_group;\n\tcp.async.bulk.wait_group.read 0;" ::: "memory");
        }
        __syncthreads();
    }
}
