#pragma once

#include "device.cuh"
#include "op.cuh"

// Warp level. Every function is called by all 32 lanes of a warp.

namespace ptxrun {

constexpr unsigned warp_size = 32;
constexpr unsigned full_warp = 0xffffffff;

// by_words applies f to a value's 32-bit words.
template <class T, class F>
__device__ __forceinline__ T by_words(const T &v, F f) {
    static_assert(__is_trivially_copyable(T), "a value is moved between lanes by its bytes");
    static_assert(sizeof(T) <= 16, "values are at most 16 bytes");
    constexpr int words = (sizeof(T) + 3) / 4;
    uint32_t word[words] = {};
    copy_bytes(word, &v, sizeof(T));
#pragma unroll
    for (int i = 0; i < words; i++) word[i] = f(word[i]);
    T r;
    copy_bytes(&r, word, sizeof(T));
    return r;
}

// shuffle returns the given lane's v.
template <class T>
__device__ __forceinline__ T shuffle(const T &v, int lane) {
    return by_words(v, [=](uint32_t w) { return __shfl_sync(full_warp, w, lane); });
}

// shuffle_up returns the v of delta lanes before; the first delta lanes keep theirs.
template <class T>
__device__ __forceinline__ T shuffle_up(const T &v, unsigned delta) {
    return by_words(v, [=](uint32_t w) { return __shfl_up_sync(full_warp, w, delta); });
}

// shuffle_down returns the v of delta lanes after; the last delta lanes keep theirs.
template <class T>
__device__ __forceinline__ T shuffle_down(const T &v, unsigned delta) {
    return by_words(v, [=](uint32_t w) { return __shfl_down_sync(full_warp, w, delta); });
}

// latest is the last lane whose bit is set in lanes, or lane 0.
__device__ __forceinline__ unsigned latest(unsigned lanes) { return 31 - __clz(lanes | 1); }

// warp_scan returns v of lane 0 ⊕ … ⊕ v of this lane (Kogge and Stone).
template <class Op>
__device__ __forceinline__ typename Op::Value warp_scan(typename Op::Value v, unsigned lane) {
#pragma unroll
    for (unsigned delta = 1; delta < warp_size; delta *= 2) {
        auto before = shuffle_up(v, delta);
        if (lane >= delta) v = Op::combine(before, v);
    }
    return v;
}

// WarpReduce combines the lanes' values in order; lane 0 has the result. Lane l
// holds l … l+2·delta-1 after each step, for l a multiple of 2·delta; the other
// lanes' values are of no use.
template <class Op>
struct WarpReduce {
    static __device__ __forceinline__ typename Op::Value reduce(typename Op::Value v) {
#pragma unroll
        for (unsigned delta = 1; delta < warp_size; delta *= 2) v = Op::combine(v, shuffle_down(v, delta));
        return v;
    }
};

#if __CUDA_ARCH__ >= 800
// One instruction does it for 32-bit integers, whose operators commute. All lanes have
// the result.
#define PTXRUN_REDUX(Op, T, instruction) \
    template <> \
    struct WarpReduce<Op<T>> { \
        static __device__ __forceinline__ T reduce(T v) { \
            T r; \
            asm volatile("redux.sync." instruction " %0, %1, 0xffffffff;" : "=r"(r) : "r"(v)); \
            return r; \
        } \
    };
PTXRUN_REDUX(Sum, uint32_t, "add.u32")
PTXRUN_REDUX(Min, uint32_t, "min.u32")
PTXRUN_REDUX(Max, uint32_t, "max.u32")
PTXRUN_REDUX(Min, int32_t, "min.s32")
PTXRUN_REDUX(Max, int32_t, "max.s32")
PTXRUN_REDUX(And, uint32_t, "and.b32")
PTXRUN_REDUX(Or, uint32_t, "or.b32")
PTXRUN_REDUX(Xor, uint32_t, "xor.b32")
#undef PTXRUN_REDUX
#endif

template <class Op>
__device__ __forceinline__ typename Op::Value warp_reduce(typename Op::Value v) {
    return WarpReduce<Op>::reduce(v);
}

}  // namespace ptxrun
