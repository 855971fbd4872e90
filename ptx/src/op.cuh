#pragma once

#include "device.cuh"

// Operators that a scan combines elements with. An operator is a class with
//
//     using Value = ...;                            // trivially copyable, at most 16 bytes
//     static __device__ Value identity();           // identity ⊕ a = a ⊕ identity = a
//     static __device__ Value combine(Value, Value);  // associative; a ⊕ b, in that order
//
// combine need not commute; where it does, commutes<Op> may be specialised to
// true, which saves the work of keeping the order. A Value is
// default-constructible; its bytes are copied, padding included.

namespace ptxrun {

template <class Op>
constexpr bool commutes = false;

template <class T>
constexpr bool is_float = T(0.5) != T(0);

// Arithmetic that wraps around: in unsigned registers, where that is defined,
// and never in int, to which C++ promotes narrow types.
template <class T, bool = is_float<T>, bool = (sizeof(T) > 4)>
struct Wrapping { using Type = uint32_t; };
template <class T>
struct Wrapping<T, false, true> { using Type = uint64_t; };
template <class T, bool wide>
struct Wrapping<T, true, wide> { using Type = T; };

// Limits of T, infinities included.
template <class T>
struct Limits {
    static constexpr bool is_signed = T(-1) < T(0);
    static constexpr uint64_t ones = ~uint64_t(0) >> (64 - 8 * sizeof(T) + is_signed);
    static __device__ __forceinline__ T highest() { return T(ones); }
    static __device__ __forceinline__ T lowest() { return is_signed ? T(~ones) : T(0); }
};
template <>
struct Limits<float> {
    static __device__ __forceinline__ float highest() { return bit_cast<float>(0x7f800000u); }
    static __device__ __forceinline__ float lowest() { return bit_cast<float>(0xff800000u); }
};
template <>
struct Limits<double> {
    static __device__ __forceinline__ double highest() { return bit_cast<double>(uint64_t(0x7ff0) << 48); }
    static __device__ __forceinline__ double lowest() { return bit_cast<double>(uint64_t(0xfff0) << 48); }
};

// lesser and greater order floats as IEEE 754-2019's minimum and maximum do:
// -0 is less than +0, and a NaN operand gives NaN, here always the one that
// PTX calls canonical. Keeping numbers instead (minNum) would not be
// associative where a signalling NaN is involved, and neither would payloads.
template <class T>
__device__ __forceinline__ T lesser(T a, T b) { return b < a ? b : a; }
template <class T>
__device__ __forceinline__ T greater(T a, T b) { return a < b ? b : a; }

#if __CUDA_ARCH__ >= 800
#define PTXRUN_FLOAT_ORDER(name, instruction) \
    __device__ __forceinline__ float name(float a, float b) { \
        float r; \
        asm(instruction ".NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); \
        return r; \
    }
#else
#define PTXRUN_FLOAT_ORDER(name, instruction) \
    __device__ __forceinline__ float name(float a, float b) { \
        float r; \
        asm(instruction ".f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b)); \
        return a == a && b == b ? r : bit_cast<float>(0x7fffffffu); \
    }
#endif
#define PTXRUN_DOUBLE_ORDER(name, instruction) \
    __device__ __forceinline__ double name(double a, double b) { \
        double r; \
        asm(instruction ".f64 %0, %1, %2;" : "=d"(r) : "d"(a), "d"(b)); \
        return a == a && b == b ? r : bit_cast<double>(~uint64_t(0) >> 1); \
    }

PTXRUN_FLOAT_ORDER(lesser, "min")
PTXRUN_FLOAT_ORDER(greater, "max")
PTXRUN_DOUBLE_ORDER(lesser, "min")
PTXRUN_DOUBLE_ORDER(greater, "max")

#undef PTXRUN_FLOAT_ORDER
#undef PTXRUN_DOUBLE_ORDER

// Sum wraps around for integers. For floats only -0 leaves every value alone:
// +0 would turn -0 into +0.
template <class T>
struct Sum {
    using Value = T;
    static __device__ __forceinline__ T identity() {
        if constexpr (is_float<T>) return T(-0.0);
        return T(0);
    }
    static __device__ __forceinline__ T combine(T a, T b) {
        using W = typename Wrapping<T>::Type;
        return T(W(a) + W(b));
    }
};

// Product wraps around for integers.
template <class T>
struct Product {
    using Value = T;
    static __device__ __forceinline__ T identity() { return T(1); }
    static __device__ __forceinline__ T combine(T a, T b) {
        using W = typename Wrapping<T>::Type;
        return T(W(a) * W(b));
    }
};

template <class T>
struct Min {
    using Value = T;
    static __device__ __forceinline__ T identity() { return Limits<T>::highest(); }
    static __device__ __forceinline__ T combine(T a, T b) { return lesser(a, b); }
};

template <class T>
struct Max {
    using Value = T;
    static __device__ __forceinline__ T identity() { return Limits<T>::lowest(); }
    static __device__ __forceinline__ T combine(T a, T b) { return greater(a, b); }
};

template <class T>
struct And {
    using Value = T;
    static __device__ __forceinline__ T identity() { return T(~T(0)); }
    static __device__ __forceinline__ T combine(T a, T b) { return T(a & b); }
};

template <class T>
struct Or {
    using Value = T;
    static __device__ __forceinline__ T identity() { return T(0); }
    static __device__ __forceinline__ T combine(T a, T b) { return T(a | b); }
};

template <class T>
struct Xor {
    using Value = T;
    static __device__ __forceinline__ T identity() { return T(0); }
    static __device__ __forceinline__ T combine(T a, T b) { return T(a ^ b); }
};

// SaturatingSum stays at the largest value instead of wrapping around, which
// is associative for unsigned types.
template <class T>
struct SaturatingSum {
    static_assert(!is_float<T> && T(-1) > T(0), "saturation is associative for unsigned types only");
    using Value = T;
    static __device__ __forceinline__ T identity() { return T(0); }
    static __device__ __forceinline__ T combine(T a, T b) {
        T s = T(a + b);
        return s < a ? T(~T(0)) : s;
    }
};

#define PTXRUN_COMMUTES(Op) \
    template <class T> \
    constexpr bool commutes<Op<T>> = true;
PTXRUN_COMMUTES(Sum)
PTXRUN_COMMUTES(Product)
PTXRUN_COMMUTES(Min)
PTXRUN_COMMUTES(Max)
PTXRUN_COMMUTES(And)
PTXRUN_COMMUTES(Or)
PTXRUN_COMMUTES(Xor)
PTXRUN_COMMUTES(SaturatingSum)
#undef PTXRUN_COMMUTES

}  // namespace ptxrun
