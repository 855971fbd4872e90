#pragma once

#include "device.cuh"
#include "warp.cuh"

// Block level. nt is the threads of a block (a multiple of 32), vt the elements
// a thread holds, nv = nt*vt the elements of a tile.
//
// A thread's elements are in vectors of vw consecutive ones, 16 bytes where the
// type divides that. A warp's elements are consecutive in memory and lie in
// rows: row j holds vector j of lane 0, of lane 1, …, of lane 31. So a warp's
// access to a row is one of 512 consecutive bytes, and no exchange through
// shared memory is needed between loading and scanning.

namespace ptxrun {

template <class T>
constexpr int vector_width = 16 % sizeof(T) == 0 ? 16 / sizeof(T) : 1;

// is_access says whether a lane's load or store can have that many bytes.
template <int bytes>
constexpr bool is_access = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8 || bytes == 16;

// is_aligned says whether p can be accessed in units of the given bytes.
__device__ __forceinline__ bool is_aligned(const void *p, unsigned bytes) {
    return reinterpret_cast<uintptr_t>(p) % bytes == 0;
}

// Word is one access to global memory of 1 to 16 bytes, held in registers of at
// most 32 bits. Wide loads are written in assembly, because clang takes vector
// loads apart and does not always find back to them.
template <int bytes>
struct Word;
template <>
struct Word<1> {
    uint8_t x;
    __device__ __forceinline__ void load(const void *p) { x = *static_cast<const uint8_t *>(p); }
    __device__ __forceinline__ void store(void *p) const { *static_cast<uint8_t *>(p) = x; }
};
template <>
struct Word<2> {
    uint16_t x;
    __device__ __forceinline__ void load(const void *p) { x = *static_cast<const uint16_t *>(p); }
    __device__ __forceinline__ void store(void *p) const { *static_cast<uint16_t *>(p) = x; }
};
template <>
struct Word<4> {
    uint32_t x;
    __device__ __forceinline__ void load(const void *p) { x = *static_cast<const uint32_t *>(p); }
    __device__ __forceinline__ void store(void *p) const { *static_cast<uint32_t *>(p) = x; }
};
template <>
struct Word<8> {
    uint32_t x, y;
    __device__ __forceinline__ void load(const void *p) {
        asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(x), "=r"(y) : "l"(p) : "memory");
    }
    __device__ __forceinline__ void store(void *p) const {
        asm volatile("st.global.v2.u32 [%0], {%1, %2};" : : "l"(p), "r"(x), "r"(y) : "memory");
    }
};
template <>
struct Word<16> {
    uint32_t x, y, z, w;
    __device__ __forceinline__ void load(const void *p) {
        asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x), "=r"(y), "=r"(z), "=r"(w) : "l"(p) : "memory");
    }
    __device__ __forceinline__ void store(void *p) const {
        asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" : : "l"(p), "r"(x), "r"(y), "r"(z), "r"(w) : "memory");
    }
};

// load_wide loads count consecutive elements by the widest accesses; p is
// aligned to their total size, or to 16 bytes if that is larger.
template <int count, class T>
__device__ __forceinline__ void load_wide(T (&x)[count], const T *p) {
    constexpr int bytes = count * sizeof(T);
    constexpr int width = minimum(bytes, 16);
    Word<width> word[bytes / width];
#pragma unroll
    for (int i = 0; i < bytes / width; i++) word[i].load(reinterpret_cast<const char *>(p) + i * width);
    copy_bytes(x, word, bytes);
}

// store_wide is load_wide's reverse.
template <int count, class T>
__device__ __forceinline__ void store_wide(T *p, const T (&x)[count]) {
    constexpr int bytes = count * sizeof(T);
    constexpr int width = minimum(bytes, 16);
    Word<width> word[bytes / width];
    copy_bytes(word, x, bytes);
#pragma unroll
    for (int i = 0; i < bytes / width; i++) word[i].store(reinterpret_cast<char *>(p) + i * width);
}

// Tile says which elements of a tile a thread holds.
template <class T, int nt, int vt>
struct Tile {
    static_assert(nt % warp_size == 0, "a block is whole warps");
    static constexpr int vw = minimum(vector_width<T>, vt);
    static constexpr int rows = vt / vw;
    static constexpr int nv = nt * vt;
    static_assert(vt % vw == 0, "a thread's elements are whole vectors");

    // offset is where row 0 of this thread begins; the next rows follow at row_stride.
    static __device__ __forceinline__ unsigned offset() {
        return threadIdx.x / warp_size * (warp_size * vt) + threadIdx.x % warp_size * vw;
    }
    static constexpr unsigned row_stride = warp_size * vw;
};

// load_tile loads the first nv of count elements, at least one; where there are
// fewer than nv, the rest of x is pad.
template <int nt, int vt, class T>
__device__ __forceinline__ void load_tile(T (&x)[vt], const T *tile, uint64_t count, T pad) {
    using L = Tile<T, nt, vt>;
    const unsigned offset = L::offset();
    if constexpr (L::vw > 1 || sizeof(T) == 16) {
        if (count >= L::nv && is_aligned(tile, sizeof(T) * L::vw)) {
#pragma unroll
            for (int j = 0; j < L::rows; j++) {
                T v[L::vw];
                load_wide(v, tile + offset + j * L::row_stride);
#pragma unroll
                for (int i = 0; i < L::vw; i++) x[j * L::vw + i] = v[i];
            }
            return;
        }
    }
    const unsigned held = minimum<uint64_t>(count, L::nv);
#pragma unroll
    for (int j = 0; j < L::rows; j++) {
#pragma unroll
        for (int i = 0; i < L::vw; i++) {
            // Loading somewhere rather than not at all keeps the loads independent.
            const unsigned k = offset + j * L::row_stride + i;
            const T v = tile[minimum(k, held - 1)];
            x[j * L::vw + i] = k < held ? v : pad;
        }
    }
}

// store_tile stores the first nv of count elements.
template <int nt, int vt, class T>
__device__ __forceinline__ void store_tile(T *tile, uint64_t count, const T (&x)[vt]) {
    using L = Tile<T, nt, vt>;
    const unsigned offset = L::offset();
    if constexpr (L::vw > 1 || sizeof(T) == 16) {
        if (count >= L::nv && is_aligned(tile, sizeof(T) * L::vw)) {
#pragma unroll
            for (int j = 0; j < L::rows; j++) {
                T v[L::vw];
#pragma unroll
                for (int i = 0; i < L::vw; i++) v[i] = x[j * L::vw + i];
                store_wide(tile + offset + j * L::row_stride, v);
            }
            return;
        }
    }
    const unsigned held = minimum<uint64_t>(count, L::nv);
#pragma unroll
    for (int j = 0; j < L::rows; j++) {
#pragma unroll
        for (int i = 0; i < L::vw; i++) {
            const unsigned k = offset + j * L::row_stride + i;
            if (k < held) tile[k] = x[j * L::vw + i];
        }
    }
}

// WarpTotals is the shared memory of a block scan or reduction. It is raw,
// because a __shared__ variable's type must not have a constructor.
template <class T, int nt>
struct alignas(T) WarpTotals {
    unsigned char bytes[nt / warp_size * sizeof(T)];
    __device__ __forceinline__ T *get() { return reinterpret_cast<T *>(bytes); }
};

// row_total combines the elements that this thread holds of row j.
template <class Op, int vw, int vt>
__device__ __forceinline__ typename Op::Value row_total(const typename Op::Value (&x)[vt], int j) {
    auto total = x[j * vw];
#pragma unroll
    for (int i = 1; i < vw; i++) total = Op::combine(total, x[j * vw + i]);
    return total;
}

// block_reduce combines a tile's elements in order; thread 0 has the result.
// totals may be used again after the next __syncthreads.
template <class Op, int nt, int vt>
__device__ __forceinline__ typename Op::Value block_reduce(const typename Op::Value (&x)[vt], WarpTotals<typename Op::Value, nt> &totals) {
    using T = typename Op::Value;
    using L = Tile<T, nt, vt>;
    T total = warp_reduce<Op>(row_total<Op, L::vw>(x, 0));
#pragma unroll
    for (int j = 1; j < L::rows; j++) total = Op::combine(total, warp_reduce<Op>(row_total<Op, L::vw>(x, j)));
    if (threadIdx.x % warp_size == 0) totals.get()[threadIdx.x / warp_size] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
#pragma unroll
        for (int w = 1; w < nt / int(warp_size); w++) total = Op::combine(total, totals.get()[w]);
    }
    return total;
}

// block_scan replaces x by its scan, which starts from prefix: x[k] becomes
// prefix ⊕ x[0] ⊕ … ⊕ x[k], or, exclusive, prefix ⊕ x[0] ⊕ … ⊕ x[k-1]. It waits
// for all threads once, so what they loaded before may be overwritten after.
// totals may be used again after the next __syncthreads.
template <class Op, int nt, int vt>
__device__ __forceinline__ void block_scan(typename Op::Value (&x)[vt], typename Op::Value prefix, bool exclusive, WarpTotals<typename Op::Value, nt> &totals) {
    using T = typename Op::Value;
    using L = Tile<T, nt, vt>;
    const unsigned lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size;

    T before[L::rows];  // what precedes this lane's vector in its row; of no use in lane 0
    T total[L::rows];   // of the whole row
    T warp_total;
#pragma unroll
    for (int j = 0; j < L::rows; j++) {
        const T inclusive = warp_scan<Op>(row_total<Op, L::vw>(x, j), lane);
        before[j] = shuffle_up(inclusive, 1);
        total[j] = shuffle(inclusive, warp_size - 1);
        warp_total = j == 0 ? total[0] : Op::combine(warp_total, total[j]);
    }

    if (lane == 0) totals.get()[warp] = warp_total;
    __syncthreads();
    for (unsigned w = 0; w < warp; w++) prefix = Op::combine(prefix, totals.get()[w]);

#pragma unroll
    for (int j = 0; j < L::rows; j++) {
        T running = lane == 0 ? prefix : Op::combine(prefix, before[j]);
        prefix = Op::combine(prefix, total[j]);
#pragma unroll
        for (int i = 0; i < L::vw; i++) {
            const T next = Op::combine(running, x[j * L::vw + i]);
            x[j * L::vw + i] = exclusive ? running : next;
            running = next;
        }
    }
}

// fill stores value in out[begin, end). It is called by workers threads, each
// with its own number.
template <class T>
__device__ __forceinline__ void fill(T *out, uint64_t begin, uint64_t end, T value, unsigned worker, unsigned workers) {
    constexpr unsigned vw = vector_width<T>;
    T v[vw];
#pragma unroll
    for (unsigned i = 0; i < vw; i++) v[i] = value;

    const uint64_t count = end - begin;
    out += begin;
    // Short runs are done before vectors would begin.
    if (count <= workers || count < 2 * vw) {
        for (uint64_t k = worker; k < count; k += workers) out[k] = value;
        return;
    }
    // Elements before the first 16-byte boundary, then vectors, then the rest.
    const unsigned head = (vw - reinterpret_cast<uintptr_t>(out) / sizeof(T) % vw) % vw;
    for (unsigned k = worker; k < head; k += workers) out[k] = value;
    const uint64_t body = head + (count - head) / vw * vw;
    for (uint64_t k = head + worker * vw; k < body; k += workers * vw) store_wide(out + k, v);
    for (uint64_t k = body + worker; k < count; k += workers) out[k] = value;
}

}  // namespace ptxrun
