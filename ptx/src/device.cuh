#pragma once

// CUDA C++ as far as these sources use it, so that clang compiles them to PTX
// without a CUDA SDK. Where the real headers are there (nvcc, or clang with an
// SDK), they are used and only the namespace below is added.

#if defined(__CUDACC__)

#include <stdint.h>
#include <string.h>

#else

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))

typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef __SIZE_TYPE__ size_t;

// A built-in variable is a struct without storage whose members read special
// registers.
#define PTXRUN_SREG(member, reg) \
    __declspec(property(get = get_##member)) unsigned member; \
    static __device__ __forceinline__ unsigned get_##member() { return __nvvm_read_ptx_sreg_##reg(); }
#define PTXRUN_SREG3(variable, reg) \
    extern const __device__ struct variable##_t { \
        PTXRUN_SREG(x, reg##_x) PTXRUN_SREG(y, reg##_y) PTXRUN_SREG(z, reg##_z) \
    } variable;

PTXRUN_SREG3(threadIdx, tid)
PTXRUN_SREG3(blockIdx, ctaid)
PTXRUN_SREG3(blockDim, ntid)
PTXRUN_SREG3(gridDim, nctaid)

#undef PTXRUN_SREG3
#undef PTXRUN_SREG

// __syncthreads is clang's own.
__device__ __forceinline__ void __syncwarp(unsigned mask = 0xffffffff) { __nvvm_bar_warp_sync(mask); }
__device__ __forceinline__ void __threadfence() { __nvvm_membar_gl(); }

__device__ __forceinline__ unsigned __shfl_sync(unsigned mask, unsigned v, int lane) {
    return __nvvm_shfl_sync_idx_i32(mask, v, lane, 31);
}
__device__ __forceinline__ unsigned __shfl_up_sync(unsigned mask, unsigned v, unsigned delta) {
    return __nvvm_shfl_sync_up_i32(mask, v, delta, 0);
}
__device__ __forceinline__ unsigned __shfl_down_sync(unsigned mask, unsigned v, unsigned delta) {
    return __nvvm_shfl_sync_down_i32(mask, v, delta, 31);
}
__device__ __forceinline__ unsigned __shfl_xor_sync(unsigned mask, unsigned v, int lane_mask) {
    return __nvvm_shfl_sync_bfly_i32(mask, v, lane_mask, 31);
}
// Another type would be converted to unsigned, which is no shuffle of it.
template <class T>
unsigned __shfl_sync(unsigned, T, int) = delete;
template <class T>
unsigned __shfl_up_sync(unsigned, T, unsigned) = delete;
template <class T>
unsigned __shfl_down_sync(unsigned, T, unsigned) = delete;
template <class T>
unsigned __shfl_xor_sync(unsigned, T, int) = delete;
__device__ __forceinline__ unsigned __ballot_sync(unsigned mask, int p) { return __nvvm_vote_ballot_sync(mask, p); }
__device__ __forceinline__ int __any_sync(unsigned mask, int p) { return __nvvm_vote_any_sync(mask, p); }

__device__ __forceinline__ int __popc(unsigned v) { return __builtin_popcount(v); }
__device__ __forceinline__ int __clz(int v) { return v == 0 ? 32 : __builtin_clz(v); }
__device__ __forceinline__ unsigned __brev(unsigned v) { return __builtin_bitreverse32(v); }
__device__ __forceinline__ unsigned __byte_perm(unsigned a, unsigned b, unsigned s) { return __nvvm_prmt(a, b, s); }
__device__ __forceinline__ unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    unsigned d;
    asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
int __dp4a(int, int, int) = delete;

#endif

// PTXRUN_INLINE is for a lambda that is large: clang leaves such
// out of line, where what they capture goes through memory.
#define PTXRUN_INLINE __attribute__((always_inline))

namespace ptxrun {

__device__ __forceinline__ void copy_bytes(void *to, const void *from, size_t bytes) {
#if defined(__CUDACC__)
    memcpy(to, from, bytes);
#else
    __builtin_memcpy(to, from, bytes);
#endif
}

// bit_cast returns from's bytes as a To.
template <class To, class From>
__device__ __forceinline__ To bit_cast(const From &from) {
    static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the size");
    To to;
    copy_bytes(&to, &from, sizeof(To));
    return to;
}

template <class A, class B>
constexpr bool is_same = false;
template <class A>
constexpr bool is_same<A, A> = true;

template <class T>
constexpr __host__ __device__ T minimum(T a, T b) { return b < a ? b : a; }

template <class T>
constexpr __host__ __device__ T maximum(T a, T b) { return a < b ? b : a; }

// ceil_div does not wrap, whatever n.
template <class T>
constexpr __host__ __device__ T ceil_div(T n, T d) { return n / d + (n % d != 0); }

// nonzero_bytes has bit i where byte i of w is not zero: adding carries into a
// byte's top bit whatever is below it, and the product moves the top bits of four
// bytes side by side.
__device__ __forceinline__ unsigned nonzero_bytes(uint32_t w) {
    const uint32_t high = (((w & 0x7f7f7f7fu) + 0x7f7f7f7fu) | w) & 0x80808080u;
    return high * 0x00204081u >> 28;
}

// Memory that other blocks write while this one runs. Relaxed accesses see
// each other's values, in no promised order with other addresses. All are of
// device scope. Addresses are of global memory.
#define PTXRUN_ORDERED(type, bits, reg) \
    __device__ __forceinline__ type load_relaxed(const type *p) { \
        type v; \
        asm volatile("ld.relaxed.gpu.global.u" bits " %0, [%1];" : "=" reg(v) : "l"(p) : "memory"); \
        return v; \
    } \
    __device__ __forceinline__ void store_relaxed(type *p, type v) { \
        asm volatile("st.relaxed.gpu.global.u" bits " [%0], %1;" : : "l"(p), reg(v) : "memory"); \
    } \
    __device__ __forceinline__ type atomic_add(type *p, type v) { \
        type old; \
        asm volatile("atom.relaxed.gpu.global.add.u" bits " %0, [%1], %2;" : "=" reg(old) : "l"(p), reg(v) : "memory"); \
        return old; \
    } \
    __device__ __forceinline__ void atomic_max(type *p, type v) { \
        asm volatile("red.relaxed.gpu.global.max.u" bits " [%0], %1;" : : "l"(p), reg(v) : "memory"); \
    } \
    __device__ __forceinline__ void atomic_or(type *p, type v) { \
        asm volatile("red.relaxed.gpu.global.or.b" bits " [%0], %1;" : : "l"(p), reg(v) : "memory"); \
    } \
    __device__ __forceinline__ void atomic_xor(type *p, type v) { \
        asm volatile("red.relaxed.gpu.global.xor.b" bits " [%0], %1;" : : "l"(p), reg(v) : "memory"); \
    }

PTXRUN_ORDERED(uint32_t, "32", "r")
PTXRUN_ORDERED(uint64_t, "64", "l")

#undef PTXRUN_ORDERED

// load_relaxed of two words, aligned to their size; each is seen whole.
__device__ __forceinline__ void load_relaxed(uint64_t &a, uint64_t &b, const uint64_t *p) {
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(p) : "memory");
}

// store_relaxed of two words, aligned to their size; each is seen whole.
__device__ __forceinline__ void store_relaxed(uint64_t *p, uint64_t a, uint64_t b) {
    asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" : : "l"(p), "l"(a), "l"(b) : "memory");
}

// fence_acq_rel orders this thread's accesses before it, and those that it knows
// of, before what comes after it, for who reads a relaxed store from there.
__device__ __forceinline__ void fence_acq_rel() { asm volatile("fence.acq_rel.gpu;" : : : "memory"); }

}  // namespace ptxrun
