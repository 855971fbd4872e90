#pragma once

#include "device.cuh"

// Accesses to shared memory in the state space itself. Addresses are 32 bits, as
// the instructions take them.

namespace ptxrun {

__device__ __forceinline__ uint32_t shared_address(const void *p) {
    uint64_t a;
    asm("cvta.to.shared.u64 %0, %1;" : "=l"(a) : "l"(p));
    return uint32_t(a);
}

// load_shared loads count consecutive elements, aligned to their total size if
// that is a power of two, else to 4 bytes.
template <int count, class T>
__device__ __forceinline__ void load_shared(T (&x)[count], uint32_t a) {
    constexpr int bytes = count * sizeof(T);
    static_assert(bytes <= 2 || bytes % 4 == 0, "whole words, or less than one");
    if constexpr (bytes <= 2) {
        uint16_t w;
        if constexpr (bytes == 1) {
            asm volatile("ld.shared.u8 %0, [%1];" : "=h"(w) : "r"(a) : "memory");
        } else {
            asm volatile("ld.shared.u16 %0, [%1];" : "=h"(w) : "r"(a) : "memory");
        }
        copy_bytes(x, &w, bytes);
        return;
    }
    uint32_t w[bytes / 4 + (bytes < 4)];
    if constexpr (bytes == 16) {
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "r"(a) : "memory");
    } else if constexpr (bytes == 8) {
        asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "r"(a) : "memory");
    } else {
#pragma unroll
        for (int i = 0; i < bytes / 4; i++) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(w[i]) : "r"(a + 4 * i) : "memory");
    }
    copy_bytes(x, w, bytes);
}

template <int count, class T>
__device__ __forceinline__ void load_shared(T (&x)[count], const void *p) { load_shared(x, shared_address(p)); }

// store_shared stores words, aligned to their total size if that is 16.
template <int count>
__device__ __forceinline__ void store_shared(uint32_t a, const uint32_t (&w)[count]) {
    if constexpr (count == 4) {
        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" : : "r"(a), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
    } else {
#pragma unroll
        for (int i = 0; i < count; i++) asm volatile("st.shared.u32 [%0], %1;" : : "r"(a + 4 * i), "r"(w[i]) : "memory");
    }
}

// put_shared and get_shared move one value of 1, 2 or any multiple of 4 bytes, at an
// address aligned as for load_shared. Through a pointer the compiler does not know of the
// alignment and moves bytes.
template <class T>
__device__ __forceinline__ void put_shared(uint32_t a, const T &v) {
    if constexpr (sizeof(T) == 1) {
        asm volatile("st.shared.u8 [%0], %1;" : : "r"(a), "h"(uint16_t(bit_cast<uint8_t>(v))) : "memory");
    } else if constexpr (sizeof(T) == 2) {
        asm volatile("st.shared.u16 [%0], %1;" : : "r"(a), "h"(bit_cast<uint16_t>(v)) : "memory");
    } else {
        uint32_t w[sizeof(T) / 4];
        copy_bytes(w, &v, sizeof(T));
        store_shared(a, w);
    }
}
template <class T>
__device__ __forceinline__ void put_shared(void *p, const T &v) { put_shared(shared_address(p), v); }

template <class T>
__device__ __forceinline__ T get_shared(uint32_t a) {
    T v[1];
    load_shared(v, a);
    return v[0];
}
template <class T>
__device__ __forceinline__ T get_shared(const void *p) { return get_shared<T>(shared_address(p)); }

// store_shared_bits stores a value of 1, 2, 4 or 8 bytes, given in words.
template <int bytes>
__device__ __forceinline__ void store_shared_bits(uint32_t a, uint32_t low, uint32_t high = 0) {
    if constexpr (bytes == 1) {
        asm volatile("st.shared.u8 [%0], %1;" : : "r"(a), "r"(low) : "memory");
    } else if constexpr (bytes == 2) {
        asm volatile("st.shared.u16 [%0], %1;" : : "r"(a), "r"(low) : "memory");
    } else if constexpr (bytes == 4) {
        asm volatile("st.shared.u32 [%0], %1;" : : "r"(a), "r"(low) : "memory");
    } else {
        static_assert(bytes == 8, "a value has 1, 2, 4 or 8 bytes");
        asm volatile("st.shared.v2.u32 [%0], {%1, %2};" : : "r"(a), "r"(low), "r"(high) : "memory");
    }
}

// store_shared_if stores a value of 1, 2, 4 or 8 bytes, given in words, if keep is
// not zero. The condition is the instruction's own: no branch.
template <int bytes>
__device__ __forceinline__ void store_shared_if(unsigned keep, uint32_t a, uint32_t low, uint32_t high = 0) {
#define PTXRUN_STORE_IF(type, value) \
    "{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %0, 0;\n\t@p st.shared." type " [%1], " value ";\n\t}"
    if constexpr (bytes == 1) {
        asm volatile(PTXRUN_STORE_IF("u8", "%2") : : "r"(keep), "r"(a), "r"(low) : "memory");
    } else if constexpr (bytes == 2) {
        asm volatile(PTXRUN_STORE_IF("u16", "%2") : : "r"(keep), "r"(a), "r"(low) : "memory");
    } else if constexpr (bytes == 4) {
        asm volatile(PTXRUN_STORE_IF("u32", "%2") : : "r"(keep), "r"(a), "r"(low) : "memory");
    } else {
        static_assert(bytes == 8, "a value has 1, 2, 4 or 8 bytes");
        asm volatile(PTXRUN_STORE_IF("v2.u32", "{%2, %3}") : : "r"(keep), "r"(a), "r"(low), "r"(high) : "memory");
    }
#undef PTXRUN_STORE_IF
}

}  // namespace ptxrun
