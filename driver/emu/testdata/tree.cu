// A walk over a binary tree by recursion that no two threads end at the same
// depth, with operations called through a table of functions.
#include "device.cuh"

struct Node {
    int left, right; // indices, negative for none
    int value;
    uint8_t op;
};

typedef int64_t (*Op)(int64_t, int64_t);

__device__ __attribute__((noinline)) int64_t add(int64_t a, int64_t b) { return a + b; }
__device__ __attribute__((noinline)) int64_t mul(int64_t a, int64_t b) { return a * b % 1000003; }
__device__ __attribute__((noinline)) int64_t most(int64_t a, int64_t b) { return a < b ? b : a; }

__device__ Op ops[3] = {add, mul, most};

__device__ __attribute__((noinline)) int64_t walk(const Node *nodes, int at, int depth) {
    if (at < 0 || depth == 0) return 1;
    Node n = nodes[at];
    int64_t l = walk(nodes, n.left, depth - 1);
    int64_t r = walk(nodes, n.right, depth - 1);
    return ops[n.op](ops[n.op](l, r), n.value);
}

extern "C" __global__ void tree(const Node *nodes, int64_t *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = walk(nodes, i % 5, i % 7);
}
