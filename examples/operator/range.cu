// A scan operator that shows whether operands were combined in order. A value is
// a range; ranges combine where one ends and the next begins, and to broken
// anywhere else. It is associative and does not commute.

#include "ptxrun/scan.cuh"

struct Range {
    uint32_t lo, hi;
};

struct Join {
    using Value = Range;
    static __device__ Range identity() { return {0, 0}; }
    static __device__ Range broken() { return {1, 0}; }
    static __device__ bool same(Range a, Range b) { return a.lo == b.lo && a.hi == b.hi; }

    static __device__ Range combine(Range a, Range b) {
        if (same(a, identity())) return b;
        if (same(b, identity())) return a;
        if (same(a, broken()) || same(b, broken()) || a.hi != b.lo) return broken();
        return {a.lo, b.hi};
    }
};

PTXRUN_SCAN(range, Join)
