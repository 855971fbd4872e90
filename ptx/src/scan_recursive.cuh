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

// PTXRUN_SCAN_RECURSIVE(name, Op) emits the kernels of operator Op:
// scan_upsweep_<name> and scan_downsweep_<name>.
#define PTXRUN_SCAN_RECURSIVE(name, ...) PTXRUN_SCAN_RECURSIVE_(name, __VA_ARGS__)
#define PTXRUN_SCAN_RECURSIVE_(name, ...) \
    extern "C" __global__ void __launch_bounds__(ptxrun::scan_block) \
        scan_upsweep_##name(const __VA_ARGS__::Value *in, uint64_t n, __VA_ARGS__::Value *sums) { \
        ptxrun::scan_upsweep<__VA_ARGS__>(in, n, sums); \
    } \
    extern "C" __global__ void __launch_bounds__(ptxrun::scan_block) \
        scan_downsweep_##name(const __VA_ARGS__::Value *in, __VA_ARGS__::Value *out, uint64_t n, \
                              const __VA_ARGS__::Value *prefixes, __VA_ARGS__::Value init, uint32_t exclusive) { \
        ptxrun::scan_downsweep<__VA_ARGS__>(in, out, n, prefixes, init, exclusive); \
    }
