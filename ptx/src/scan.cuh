#pragma once

#include "block.cuh"
#include "op.cuh"

// Device-wide scan by recursion over block sums (Blelloch's reduce-then-scan):
// the upsweep reduces each tile, the tiles' sums are scanned exclusively by the
// same two kernels, and the downsweep scans each tile from its place in them.
// Elements are read twice and written once. Results do not depend on timing:
// operands are combined in an order that only n decides.

namespace ptxrun {

constexpr int scan_block = 256;

// A thread holds 64 bytes: four 16-byte loads in flight. Types below 4 bytes
// hold 16 elements, because arithmetic is in 32-bit registers.
template <class T>
constexpr int scan_items = 64 / maximum(int(sizeof(T)), 4);

template <class T>
constexpr int scan_tile = scan_block * scan_items<T>;

// scan_upsweep stores in sums[b] the combination of tile b's elements, for block b.
template <class Op>
__device__ __forceinline__ void scan_upsweep(const typename Op::Value *in, uint64_t n, typename Op::Value *sums) {
    using T = typename Op::Value;
    __shared__ WarpTotals<T, scan_block> totals;
    const uint64_t base = uint64_t(blockIdx.x) * scan_tile<T>;
    if (base >= n) return;
    T x[scan_items<T>];
    load_tile<scan_block>(x, in + base, n - base, Op::identity());
    const T sum = block_reduce<Op, scan_block>(x, totals);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

// scan_downsweep scans tile b from prefixes[b] in block b; without prefixes
// (null), from init. in and out may be the same memory.
template <class Op>
__device__ __forceinline__ void scan_downsweep(const typename Op::Value *in, typename Op::Value *out, uint64_t n, const typename Op::Value *prefixes, typename Op::Value init, uint32_t exclusive) {
    using T = typename Op::Value;
    __shared__ WarpTotals<T, scan_block> totals;
    const uint64_t base = uint64_t(blockIdx.x) * scan_tile<T>;
    if (base >= n) return;
    T x[scan_items<T>];
    load_tile<scan_block>(x, in + base, n - base, Op::identity());
    T prefix = init;
    if (prefixes) prefix = prefixes[blockIdx.x];
    block_scan<Op, scan_block>(x, prefix, exclusive != 0, totals);
    store_tile<scan_block>(out + base, n - base, x);
}

}  // namespace ptxrun

// PTXRUN_SCAN(name, Op) emits the kernels of operator Op, a class as in op.cuh:
// scan_upsweep_<name> and scan_downsweep_<name>.
#define PTXRUN_SCAN(name, ...) PTXRUN_SCAN_NAMED(name, __VA_ARGS__)
#define PTXRUN_SCAN_NAMED(name, ...) \
    using scan_op_##name = __VA_ARGS__; \
    extern "C" __global__ void __launch_bounds__(ptxrun::scan_block) \
        scan_upsweep_##name(const scan_op_##name::Value *in, uint64_t n, scan_op_##name::Value *sums) { \
        ptxrun::scan_upsweep<scan_op_##name>(in, n, sums); \
    } \
    extern "C" __global__ void __launch_bounds__(ptxrun::scan_block) \
        scan_downsweep_##name(const scan_op_##name::Value *in, scan_op_##name::Value *out, uint64_t n, \
                              const scan_op_##name::Value *prefixes, scan_op_##name::Value init, uint32_t exclusive) { \
        ptxrun::scan_downsweep<scan_op_##name>(in, out, n, prefixes, init, exclusive); \
    }
