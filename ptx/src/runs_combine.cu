// Element-wise operators on two encodings whose values are numbers of one type.
// PTXRUN_TYPE is the type, PTXRUN_NAME its name in the kernels. Which operator is
// a parameter: a warp takes one way, and memory is what a segment costs.

#include "runs_overlay.cuh"

namespace ptxrun {

template <class T>
struct Difference {
    static __device__ __forceinline__ T combine(T a, T b) {
        using W = typename Wrapping<T>::Type;
        return T(W(a) - W(b));
    }
};

// one_nan makes one NaN of all, so that they make one run.
template <class T>
__device__ __forceinline__ T one_nan(T x) { return lesser(x, x); }

// CombineOp and CompareOp are numbered as in internal/twin/runs_combine.go.
template <class T>
struct CombineOp {
    uint32_t op;
    __device__ __forceinline__ T operator()(T a, T b) const {
        switch (op) {
            case 0: return one_nan(Sum<T>::combine(a, b));
            case 1: return one_nan(Difference<T>::combine(a, b));
            case 2: return Min<T>::combine(a, b);
            case 3: return Max<T>::combine(a, b);
        }
        if constexpr (!is_float<T>) {
            switch (op) {
                case 4: return And<T>::combine(a, b);
                case 5: return Or<T>::combine(a, b);
                case 6: return Xor<T>::combine(a, b);
            }
        }
        return a;
    }
};

template <class T>
struct CompareOp {
    uint32_t op;
    __device__ __forceinline__ uint8_t operator()(T a, T b) const {
        switch (op) {
            case 0: return a == b;
            case 1: return a != b;
            case 2: return a < b;
            case 3: return a <= b;
            case 4: return a > b;
        }
        return a >= b;
    }
};

}  // namespace ptxrun

#define COMBINE(name, v, V, R, Op) \
    extern "C" __global__ void __launch_bounds__(ptxrun::overlay_block) \
        runs_##name##_##v(const V *a_values, const uint64_t *a_ends, uint64_t a_n, const V *b_values, const uint64_t *b_ends, uint64_t b_n, \
                          uint32_t op, R *values, uint64_t *ends, uint8_t *keep) { \
        ptxrun::runs_combine(ptxrun::Runs<V>{a_values, a_ends, a_n}, ptxrun::Runs<V>{b_values, b_ends, b_n}, values, ends, keep, ptxrun::Op<V>{op}); \
    }

#define KERNELS(v, V) KERNELS_NAMED(v, V)
#define KERNELS_NAMED(v, V) \
    COMBINE(combine, v, V, V, CombineOp) \
    COMBINE(compare, v, V, uint8_t, CompareOp)

KERNELS(PTXRUN_NAME, PTXRUN_TYPE)
