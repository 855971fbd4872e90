// An operator of 8 bytes that does not commute: maps x -> m x + c modulo 2^32,
// combined into the map that applies the left one first.

#include "ptxrun/scan.cuh"

struct Affine {
    uint32_t m, c;
};

struct Compose {
    using Value = Affine;
    static __device__ Affine identity() { return {1, 0}; }
    static __device__ Affine combine(Affine a, Affine b) { return {a.m * b.m, a.c * b.m + b.c}; }
};

PTXRUN_SCAN(affine, Compose)
