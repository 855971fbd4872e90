#pragma once

#include "block.cuh"
#include "bulk.cuh"
#include "look_back.cuh"
#include "op.cuh"

// Device-wide scan in a single pass: every element is read once and written
// once. Blocks stay and take tiles by ticket, so that a tile waits only for
// tiles that running blocks hold.
//
// A tile is pass_parts parts, a warp's work each, of pass_rows rows of 32
// vectors. All variants share this shape and the functions below, and with them
// the order in which operands are combined: their results are the same bits.
//
// Scan order is memory order, or its reverse: tiles, the vectors of a tile and the
// elements of a vector are all counted from the other end. What is behind the last
// element in memory is the identity, since in reverse it comes first.

namespace ptxrun {

// The bits of parameter mode.
constexpr uint32_t scan_exclusive = 1;
constexpr uint32_t scan_reverse = 2;

constexpr int pass_parts = 8;
constexpr int pass_rows = 8;

template <class T>
constexpr int pass_part = pass_rows * warp_size * vector_width<T>;
template <class T>
constexpr int pass_tile = pass_parts * pass_part<T>;

// mirror turns the order of the elements of size bytes in words around.
template <int size, int words>
__device__ __forceinline__ void mirror(uint32_t (&word)[words]) {
    constexpr int each = maximum(1, size / 4);
    uint32_t w[words];
#pragma unroll
    for (int k = 0; k < words; k++) {
        w[k] = word[(words / each - 1 - k / each) * each + k % each];
        if constexpr (size == 1) w[k] = __byte_perm(w[k], 0, 0x0123);
        if constexpr (size == 2) w[k] = __byte_perm(w[k], 0, 0x1032);
    }
#pragma unroll
    for (int k = 0; k < words; k++) word[k] = w[k];
}

template <class T, int count>
__device__ __forceinline__ void mirror(T (&x)[count]) {
    if constexpr (count > 1) {
        uint32_t word[count * sizeof(T) / 4];
        copy_bytes(word, x, sizeof(x));
        mirror<sizeof(T)>(word);
        copy_bytes(x, word, sizeof(x));
    }
}

// tile_vector is where in a tile, in elements, vector j of a lane of a part is.
template <class T, bool reverse>
__device__ __forceinline__ unsigned tile_vector(unsigned part, int j, unsigned lane) {
    constexpr unsigned all = pass_parts * pass_rows * warp_size;
    const unsigned k = (part * pass_rows + j) * warp_size + lane;
    return (reverse ? all - 1 - k : k) * vector_width<T>;
}

// Vector is the elements that a lane holds of a row, vector_width of the result
// type, read as In.
template <class Op, class In, bool = (sizeof(In) < 4 && sizeof(In) == sizeof(typename Op::Value))>
struct Vector {
    using T = typename Op::Value;
    static constexpr int vw = vector_width<T>;
    T x[vw];

    __device__ __forceinline__ void set(const In (&v)[vw]) {
#pragma unroll
        for (int i = 0; i < vw; i++) x[i] = T(v[i]);
    }
    __device__ __forceinline__ void get(T (&v)[vw]) const {
#pragma unroll
        for (int i = 0; i < vw; i++) v[i] = x[i];
    }
    __device__ __forceinline__ T total() const {
        T t = x[0];
#pragma unroll
        for (int i = 1; i < vw; i++) t = Op::combine(t, x[i]);
        return t;
    }
    // place makes x the scan of itself from base.
    __device__ __forceinline__ void place(T base, bool exclusive) {
#pragma unroll
        for (int i = 0; i < vw; i++) {
            const T next = Op::combine(base, x[i]);
            x[i] = exclusive ? base : next;
            base = next;
        }
    }
};

// Words is a vector of 8- or 16-bit elements, four or two to a register.
template <class T>
struct Words {
    static constexpr int vw = vector_width<T>;
    static constexpr int bits = 8 * sizeof(T), each = 32 / bits;
    uint32_t word[4];

    __device__ __forceinline__ void set(const T (&v)[vw]) { copy_bytes(word, v, 16); }
    __device__ __forceinline__ void get(T (&v)[vw]) const { copy_bytes(v, word, 16); }
};

template <class Op, class In>
struct Vector<Op, In, true> : Words<In> {
    using T = In;
    using W = Words<In>;

    __device__ __forceinline__ T at(int i) const {
        const uint32_t w = this->word[i / W::each] >> (i % W::each * W::bits);
        T t;
        copy_bytes(&t, &w, sizeof(T));
        return t;
    }
    __device__ __forceinline__ T total() const {
        T t = at(0);
#pragma unroll
        for (int i = 1; i < W::vw; i++) t = Op::combine(t, at(i));
        return t;
    }
    __device__ __forceinline__ void place(T base, bool exclusive) {
#pragma unroll
        for (int k = 0; k < 4; k++) {
            uint32_t w = 0;
#pragma unroll
            for (int i = 0; i < W::each; i++) {
                const T next = Op::combine(base, at(k * W::each + i));
                const T here = exclusive ? base : next;
                uint32_t placed = 0;
                copy_bytes(&placed, &here, sizeof(T));
                w |= placed << (i * W::bits);
                base = next;
            }
            this->word[k] = w;
        }
    }
};

// Sums of 16 and of 8 bits are made without taking the elements apart.
template <>
struct Vector<Sum<uint16_t>, uint16_t, true> : Words<uint16_t> {
    // Multiplying by 0x10001 adds the low half to the high one.
    __device__ __forceinline__ uint16_t total() const {
        uint32_t sum = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) sum += word[i] * 0x10001u >> 16;
        return uint16_t(sum);
    }
    __device__ __forceinline__ void place(uint16_t base, bool exclusive) {
        constexpr uint32_t high = 0x80008000u;
        uint32_t b = base;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t s = word[i] * 0x10001u, shown = exclusive ? s << 16 : s, bases = b * 0x10001u;
            word[i] = ((shown & ~high) + (bases & ~high)) ^ ((shown ^ bases) & high);  // without a carry into the high half
            b = (b + (s >> 16)) & 0xffffu;
        }
    }
};

template <>
struct Vector<Sum<uint8_t>, uint8_t, true> : Words<uint8_t> {
    __device__ __forceinline__ uint8_t total() const {
        uint32_t sum = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) sum = __dp4a(word[i], 0x01010101u, sum);
        return uint8_t(sum);
    }
    // Sums of a vector's bytes fit into 16 bits: a word's bytes 0 and 2 are scanned
    // in the halves of one word, 1 and 3 in those of another.
    __device__ __forceinline__ void place(uint8_t base, bool exclusive) {
        const uint32_t shift = exclusive ? 0x2104 : 0x3210;
        uint32_t before = base * 0x10001u;  // what precedes the word, in both halves
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t even = __byte_perm(word[i], 0, 0x4240), odd = __byte_perm(word[i], 0, 0x4341);
            const uint32_t odds = (even + odd) * 0x10001u + before;                // up to bytes 1 and 3
            const uint32_t evens = even + __byte_perm(odds, before, 0x1054);  // up to bytes 0 and 2
            word[i] = __byte_perm(__byte_perm(evens, odds, 0x6240), before, shift);
            before = __byte_perm(odds, 0, 0x3232);
        }
    }
};

// part_total combines a part's elements, of which each lane holds its vectors.
template <class Op, class In>
__device__ __forceinline__ typename Op::Value part_total(const Vector<Op, In> (&v)[pass_rows]) {
    using T = typename Op::Value;
    if constexpr (commutes<Op>) {
        T t = v[0].total();
#pragma unroll
        for (int j = 1; j < pass_rows; j++) t = Op::combine(t, v[j].total());
        return shuffle(warp_reduce<Op>(t), 0);
    } else {
        T row[pass_rows];  // side by side, to hide the shuffles' latency
#pragma unroll
        for (int j = 0; j < pass_rows; j++) row[j] = warp_reduce<Op>(v[j].total());
        T t = row[0];
#pragma unroll
        for (int j = 1; j < pass_rows; j++) t = Op::combine(t, row[j]);
        return shuffle(t, 0);
    }
}

// PartScan is a part scanned up to what precedes it.
template <class Op, class In>
struct PartScan {
    using T = typename Op::Value;
    T before[pass_rows];  // this lane's vector, in its row; of no use in lane 0
    T above[pass_rows];   // the row; of no use in row 0

    __device__ __forceinline__ void scan(const Vector<Op, In> (&v)[pass_rows], unsigned lane) {
        T running;
#pragma unroll
        for (int j = 0; j < pass_rows; j++) {
            const T inclusive = warp_scan<Op>(v[j].total(), lane);
            before[j] = shuffle_up(inclusive, 1);
            const T total = shuffle(inclusive, warp_size - 1);
            above[j] = running;
            running = j == 0 ? total : Op::combine(running, total);
        }
    }
    __device__ __forceinline__ void place(Vector<Op, In> (&v)[pass_rows], T prefix, bool exclusive, unsigned lane) {
#pragma unroll
        for (int j = 0; j < pass_rows; j++) {
            T base = j == 0 ? prefix : Op::combine(prefix, above[j]);
            if (lane > 0) base = Op::combine(base, before[j]);
            v[j].place(base, exclusive);
        }
    }
};

// load_part loads a part of the tile of held elements at in. whole says that the
// part lies before held and aligned.
template <bool reverse, class Op, class In>
__device__ __forceinline__ void load_part(Vector<Op, In> (&v)[pass_rows], const In *in, unsigned held, unsigned part, bool whole, unsigned lane) {
    using T = typename Op::Value;
    constexpr int vw = Vector<Op, In>::vw;
    In x[pass_rows][vw];
    bool loaded = false;
    if constexpr (is_access<vw * sizeof(In)>) {
        if (whole) {
#pragma unroll
            for (int j = 0; j < pass_rows; j++) load_wide(x[j], in + tile_vector<T, reverse>(part, j, lane));
            loaded = true;
        }
    }
    if (!loaded) {
#pragma unroll
        for (int j = 0; j < pass_rows; j++) {
#pragma unroll
            for (int i = 0; i < vw; i++) {
                const unsigned k = tile_vector<T, reverse>(part, j, lane) + i;
                x[j][i] = in[minimum(k, held - 1)];
                // Nothing that is stored depends on it where input and result differ: they are not scanned in reverse.
                if constexpr (is_same<T, In>) {
                    if (k >= held) x[j][i] = Op::identity();
                }
            }
        }
    }
#pragma unroll
    for (int j = 0; j < pass_rows; j++) {
        if constexpr (reverse && is_same<T, In>) mirror(x[j]);
        v[j].set(x[j]);
    }
}

// store_part is load_part's opposite.
template <bool reverse, class Op, class In>
__device__ __forceinline__ void store_part(typename Op::Value *out, const Vector<Op, In> (&v)[pass_rows], unsigned held, unsigned part, bool whole, unsigned lane) {
    using T = typename Op::Value;
    constexpr int vw = Vector<Op, In>::vw;
    T x[vw];
    if constexpr (is_access<vw * sizeof(T)>) {
        if (whole) {
#pragma unroll
            for (int j = 0; j < pass_rows; j++) {
                v[j].get(x);
                if constexpr (reverse) mirror(x);
                store_wide(out + tile_vector<T, reverse>(part, j, lane), x);
            }
            return;
        }
    }
#pragma unroll
    for (int j = 0; j < pass_rows; j++) {
        const unsigned k = tile_vector<T, reverse>(part, j, lane);
        v[j].get(x);
        if constexpr (reverse) mirror(x);
#pragma unroll
        for (int i = 0; i < vw; i++)
            if (k + i < held) out[k + i] = x[i];
    }
}

// tile_at is which tile of memory a tile in scan order is.
__device__ __forceinline__ uint64_t tile_at(uint64_t tile, uint64_t tiles, bool reverse) { return reverse ? tiles - 1 - tile : tile; }

// tile_held is how many elements a tile of memory has.
template <class T>
__device__ __forceinline__ unsigned tile_held(uint64_t tile, uint64_t n) {
    return minimum<uint64_t>(pass_tile<T>, n - tile * pass_tile<T>);
}

constexpr int pass_block = pass_parts * warp_size;

// scan_pass holds a tile in registers, a warp a part. Several blocks a
// multiprocessor, one waiting while others load, keep the memory busy.
// in and out may be the same memory. mode is not scan_reverse where In is another
// type than the results.
template <class Op, class In>
__device__ __forceinline__ void scan_pass(const In *in, typename Op::Value *out, uint64_t n, const Pass &pass, typename Op::Value init, uint32_t mode) {
    using T = typename Op::Value;
    constexpr int vw = vector_width<T>;
    __shared__ WarpTotals<T, pass_block> totals;
    __shared__ WarpTotals<T, warp_size> tile_prefix;
    __shared__ uint64_t ticket;
    const unsigned lane = threadIdx.x % warp_size, part = threadIdx.x / warp_size;
    const uint64_t tiles = ceil_div<uint64_t>(n, pass_tile<T>);
    const bool aligned = is_aligned(in, minimum(16, int(vw * sizeof(In)))) && is_aligned(out, 16);
    const bool reverse = is_same<T, In> && (mode & scan_reverse);
    LookBack<Op> look_back(pass, init);

    for (;;) {
        if (threadIdx.x == 0) ticket = pass.take_ticket();
        __syncthreads();
        const uint64_t tile = ticket;
        if (tile >= tiles) return;
        const uint64_t at = tile_at(tile, tiles, reverse), base = at * pass_tile<T>;
        const unsigned held = tile_held<T>(at, n);
        const bool whole = aligned && (reverse ? pass_parts - part : part + 1) * pass_part<T> <= held;

        Vector<Op, In> v[pass_rows];
        if (reverse) {
            load_part<true>(v, in + base, held, part, whole, lane);
        } else {
            load_part<false>(v, in + base, held, part, whole, lane);
        }
        const T total = part_total<Op, In>(v);
        if (lane == 0) totals.get()[part] = total;
        __syncthreads();
        if (part == 0) {
            T tile_total = total;
            for (int p = 1; p < pass_parts; p++) tile_total = Op::combine(tile_total, totals.get()[p]);
            if (lane == 0) look_back.totals.publish(tile, tile_total);
            const T prefix = look_back.prefix(tile, lane);
            if (lane == 0) tile_prefix.get()[0] = prefix;
        }
        PartScan<Op, In> scan;
        scan.scan(v, lane);
        __syncthreads();
        T prefix = tile_prefix.get()[0];
        if (part > 0) {  // the tile's parts before this one first, as in scan_bulk
            T before = totals.get()[0];
            for (unsigned p = 1; p < part; p++) before = Op::combine(before, totals.get()[p]);
            prefix = Op::combine(prefix, before);
        }
        scan.place(v, prefix, mode & scan_exclusive, lane);
        if (reverse) {
            store_part<true>(out + base, v, held, part, whole, lane);
        } else {
            store_part<false>(out + base, v, held, part, whole, lane);
        }
    }
}

#if __CUDA_ARCH__ >= 900

template <bool reverse, class Op, class In>
__device__ __forceinline__ void load_shared_part(Vector<Op, In> (&v)[pass_rows], const unsigned char *tile, unsigned part, unsigned lane) {
    using T = typename Op::Value;
#pragma unroll
    for (int j = 0; j < pass_rows; j++) {
        In x[Vector<Op, In>::vw];
        load_shared(x, tile + tile_vector<T, reverse>(part, j, lane) * sizeof(In));
        if constexpr (reverse && is_same<T, In>) mirror(x);
        v[j].set(x);
    }
}

// scan_bulk divides a block's warps into roles that wait for nothing but what
// they need, so that loads, totals, look-backs and stores of different tiles
// overlap: one takes tickets and issues bulk copies of whole tiles into a ring
// of stages in shared memory; reducers, a tile each in turn, publish its total
// as soon as it is there; one looks back; and scanners, a part each, scan and
// store it. No barrier of the whole block is left.
constexpr int bulk_stages = 6;
constexpr int bulk_reducers = 3;
constexpr int bulk_block = (2 + bulk_reducers + pass_parts) * warp_size;

template <class T, class In>
struct BulkStages {
    alignas(128) unsigned char tile[bulk_stages][pass_tile<T> * sizeof(In)];
    alignas(16) unsigned char prefix[bulk_stages][16];
    alignas(16) unsigned char before[bulk_stages][pass_parts][16];  // a part's predecessors in the tile
    uint64_t index[bulk_stages];
    Barrier full[bulk_stages];   // the tile is there
    Barrier ready[bulk_stages];  // prefix and before are there
    Barrier empty[bulk_stages];  // the tile is in the scanners' registers
    Barrier filled;              // the last tile, if it is not whole
};
static_assert(sizeof(BulkStages<uint64_t, uint64_t>) <= bulk_stages * pass_tile<uint64_t> * 8 + 2048, "the launch gives 2 KiB beside the tiles");

// scan_bulk needs in and out aligned to 16 bytes, and dynamic shared memory for
// BulkStages. in and out may be the same memory. mode is as in scan_pass.
template <class Op, class In>
__device__ __forceinline__ void scan_bulk(const In *in, typename Op::Value *out, uint64_t n, const Pass &pass, typename Op::Value init, uint32_t mode) {
    using T = typename Op::Value;
    alignas(128) extern __shared__ unsigned char dynamic_shared[];
    auto &stages = *reinterpret_cast<BulkStages<T, In> *>(dynamic_shared);
    const unsigned lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size;
    const uint64_t tiles = ceil_div<uint64_t>(n, pass_tile<T>);
    const bool reverse = is_same<T, In> && (mode & scan_reverse);

    if (threadIdx.x == 0) {
        for (int s = 0; s < bulk_stages; s++) {
            stages.full[s].init(1);
            stages.ready[s].init(2 * warp_size);
            stages.empty[s].init(pass_parts * warp_size);
        }
        stages.filled.init(warp_size);
        fence_barriers();
    }
    __syncthreads();

    if (warp == 0) {
        if (lane > 0) return;
        load_tiles<bulk_stages, bulk_reducers>(
            stages, pass, tiles,
            [&](int s, uint64_t tile) {
                // The copy is in units of 16 bytes; what is left of the last tile is fetched by hand.
                const uint64_t at = tile_at(tile, tiles, reverse);
                const In *const from = in + at * pass_tile<T>;
                const unsigned bytes = tile_held<T>(at, n) * sizeof(In), whole = bytes / 16 * 16;
                for (unsigned k = whole; k < bytes; k += sizeof(In))
                    copy_bytes(stages.tile[s] + k, reinterpret_cast<const char *>(from) + k, sizeof(In));
                if (whole < bytes) fence_copies();
                stages.full[s].announce(whole);
                if (whole > 0) bulk_load(stages.tile[s], from, whole, stages.full[s]);
            },
            [&](int s) { stages.full[s].arrive(); });
        return;
    }

    if (warp == 1) {
        LookBack<Op> look_back(pass, init);
        over_stages<bulk_stages, 1>(stages, tiles, 0, [&](unsigned s, unsigned, uint64_t tile) PTXRUN_INLINE {
            const T prefix = look_back.prefix(tile, lane);
            if (lane == 0) put_shared(stages.prefix[s], prefix);
            stages.ready[s].arrive();
        });
    } else if (warp < 2 + bulk_reducers) {
        const TileTotals<T> totals{pass.status(), pass.mark()};
        over_stages<bulk_stages, bulk_reducers>(stages, tiles, warp - 2, [&](unsigned s, unsigned, uint64_t tile) PTXRUN_INLINE {
            const unsigned held = tile_held<T>(tile_at(tile, tiles, reverse), n);
            if (held < pass_tile<T>) {
                for (unsigned k = held + lane; k < pass_tile<T>; k += warp_size) {
                    In nothing = In();
                    if constexpr (is_same<T, In>) nothing = Op::identity();
                    copy_bytes(stages.tile[s] + k * sizeof(In), &nothing, sizeof(In));
                }
                fence_copies();  // in reverse this tile is the first, and its stage is used again
                stages.filled.arrive();
                stages.filled.wait(0);
            }
            T total = Op::identity();
#pragma unroll 1
            for (int part = 0; part < pass_parts; part++) {
                Vector<Op, In> v[pass_rows];
                if (reverse) {
                    load_shared_part<true>(v, stages.tile[s], part, lane);
                } else {
                    load_shared_part<false>(v, stages.tile[s], part, lane);
                }
                const T t = part_total<Op, In>(v);
                if (part > 0 && lane == 0) put_shared(stages.before[s][part], total);
                total = part == 0 ? t : Op::combine(total, t);
            }
            if (lane == 0) totals.publish(tile, total);
            stages.ready[s].arrive();
        });
    } else {
        const unsigned part = warp - 2 - bulk_reducers;
        over_stages<bulk_stages, 1>(stages, tiles, 0, [&](unsigned s, unsigned parity, uint64_t tile) PTXRUN_INLINE {
            const uint64_t at = tile_at(tile, tiles, reverse);
            const unsigned held = tile_held<T>(at, n);
            if (held < pass_tile<T>) stages.filled.wait(0);
            Vector<Op, In> v[pass_rows];
            if (reverse) {
                load_shared_part<true>(v, stages.tile[s], part, lane);
            } else {
                load_shared_part<false>(v, stages.tile[s], part, lane);
            }
            PartScan<Op, In> scan;
            scan.scan(v, lane);
            stages.ready[s].wait(parity);
            T prefix = get_shared<T>(stages.prefix[s]);
            if (part > 0) prefix = Op::combine(prefix, get_shared<T>(stages.before[s][part]));
            stages.empty[s].arrive();
            scan.place(v, prefix, mode & scan_exclusive, lane);
            const bool whole = (reverse ? pass_parts - part : part + 1) * pass_part<T> <= held;
            if (reverse) {
                store_part<true>(out + at * pass_tile<T>, v, held, part, whole, lane);
            } else {
                store_part<false>(out + at * pass_tile<T>, v, held, part, whole, lane);
            }
        });
    }
}

#endif

}  // namespace ptxrun

// PTXRUN_SCAN_PASS(name, In, Op) emits scan_pass_<name>, the single-pass scan of
// operator Op over elements of type In; PTXRUN_SCAN_BULK, scan_bulk_<name>.
#define PTXRUN_SCAN_PASS(name, In, ...) PTXRUN_PASS_KERNEL(scan_pass, ptxrun::pass_block, name, In, __VA_ARGS__)
#define PTXRUN_SCAN_BULK(name, In, ...) PTXRUN_PASS_KERNEL(scan_bulk, ptxrun::bulk_block, name, In, __VA_ARGS__)
#define PTXRUN_PASS_KERNEL(kernel, block, name, In, ...) \
    extern "C" __global__ void __launch_bounds__(block) \
        kernel##_##name(const In *in, __VA_ARGS__::Value *out, uint64_t n, ptxrun::PassState *state, uint32_t first, \
                        __VA_ARGS__::Value init, uint32_t mode) { \
        ptxrun::kernel<__VA_ARGS__, In>(in, out, n, {state, first}, init, mode); \
    }
