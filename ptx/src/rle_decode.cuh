#pragma once

#include "look_back.cuh"
#include "op.cuh"
#include "scan_pass.cuh"
#include "search.cuh"
#include "shared.cuh"

// Run-length decoding in a single pass over the lengths: what precedes a tile of
// runs, by look-back, says where its elements go, and they are written at once.
//
// A tile is decode_parts parts, a warp's work each, of pass_rows rows of 32 vectors
// of 16 bytes of lengths. A part of more than chunk_bytes of output is written by
// all blocks, once every part has its place: it is cut into chunks, a warp's work
// each. So no distribution of lengths leaves most of the device idle, and parts of
// short runs are read once.

namespace ptxrun {

constexpr int decode_parts = 8;
constexpr int decode_pass_block = decode_parts * warp_size;
constexpr int chunk_bytes = 32 << 10;

template <class L>
constexpr int decode_part = pass_rows * warp_size * vector_width<L>;
template <class L>
constexpr int decode_pass_tile = decode_parts * decode_part<L>;

// DecodeState is the workspace, zero at the start: after the pass's come the large
// parts. The three arrays are as long as there are parts.
struct alignas(256) DecodeState {
    uint64_t ticket;
    uint64_t placed;  // parts that are listed if they are large
    uint64_t large;   // how many large parts, times 2^32, plus how many chunks they have
    uint64_t unused[29];
};

struct LargeParts {
    uint64_t *first_chunk, *part, *begin;

    __device__ __forceinline__ LargeParts(DecodeState *state, uint64_t tiles) {
        first_chunk = reinterpret_cast<uint64_t *>(state + 1) + tiles * TileTotals<uint64_t>::words;
        part = first_chunk + tiles * decode_parts;
        begin = part + tiles * decode_parts;
    }
};

// Lengths are a lane's lengths of a part: a vector of each row.
template <class L>
struct Lengths {
    static constexpr int vw = vector_width<L>;
    L x[pass_rows][vw];

    // load loads a part of held runs; the rest is zero.
    __device__ __forceinline__ void load(const L *part, unsigned held, unsigned lane) {
        const bool whole = held == decode_part<L> && is_aligned(part, 16);
#pragma unroll
        for (int j = 0; j < pass_rows; j++) {
            const unsigned k = (j * warp_size + lane) * vw;
            if (whole) {
                load_wide(x[j], part + k);
            } else {
#pragma unroll
                for (int i = 0; i < vw; i++) x[j][i] = k + i < held ? part[k + i] : 0;
            }
        }
    }
    // sum is the part's; all lanes get it.
    __device__ __forceinline__ uint64_t sum() const {
        uint64_t s = 0;
#pragma unroll
        for (int j = 0; j < pass_rows; j++) {
#pragma unroll
            for (int i = 0; i < vw; i++) s = SaturatingSum<uint64_t>::combine(s, x[j][i]);
        }
        return shuffle(warp_reduce<SaturatingSum<uint64_t>>(s), 0);
    }
};

// Clipped are the lengths of what of a part's runs lies in [lo, hi), at most a
// chunk; the first run begins at begin.
template <class L>
struct Clipped {
    static constexpr int vw = vector_width<L>;
    uint32_t x[pass_rows][vw];

    __device__ __forceinline__ void all(const Lengths<L> &lengths) {
#pragma unroll
        for (int j = 0; j < pass_rows; j++) {
#pragma unroll
            for (int i = 0; i < vw; i++) x[j][i] = uint32_t(lengths.x[j][i]);
        }
    }
    __device__ __forceinline__ void clip(const Lengths<L> &lengths, uint64_t begin, uint64_t lo, uint64_t hi, unsigned lane) {
        using Add = SaturatingSum<uint64_t>;
#pragma unroll
        for (int j = 0; j < pass_rows; j++) {
            uint64_t own = 0;
#pragma unroll
            for (int i = 0; i < vw; i++) own = Add::combine(own, lengths.x[j][i]);
            const uint64_t inclusive = warp_scan<Add>(own, lane), before = shuffle_up(inclusive, 1);
            uint64_t from = lane > 0 ? Add::combine(begin, before) : begin;
#pragma unroll
            for (int i = 0; i < vw; i++) {
                const uint64_t to = Add::combine(from, lengths.x[j][i]);
                const uint64_t a = maximum(from, lo), b = minimum(to, hi);
                x[j][i] = a < b ? uint32_t(b - a) : 0;
                from = to;
            }
            begin = Add::combine(begin, shuffle(inclusive, warp_size - 1));
        }
    }
};

// prefetch brings the first held of a part's values to the level-2 cache, so that
// they come while the look-back waits.
template <class V, class L>
__device__ __forceinline__ void prefetch(const V *values, unsigned held, unsigned lane) {
    constexpr unsigned sector = 32 / sizeof(V);
#pragma unroll
    for (unsigned k = 0; k < decode_part<L>; k += warp_size * sector) {
        if (k + lane * sector < held) asm volatile("prefetch.global.L2 [%0];" : : "l"(values + k + lane * sector));
    }
}

// Expansion is a warp's own shared memory for writing runs: which elements of a
// window of the output begin runs, and the values of the runs that have elements.
template <class V, class L>
struct Expansion {
    static constexpr int vw = vector_width<V>;
    static constexpr int vectors = 4;  // a lane's in a window
    static constexpr unsigned window = vectors * warp_size * vw;
    alignas(16) uint8_t begins[window];
    alignas(16) unsigned char values[decode_part<L> * sizeof(V)];
};

// expand writes a part's runs, of the given lengths, to out[0, size). values are
// those of the part, held of them.
template <class V, class L>
__device__ __forceinline__ void expand(V *out, unsigned size, const V *values, unsigned held, const Clipped<L> &lengths, Expansion<V, L> &shared, unsigned lane) {
    using E = Expansion<V, L>;
    constexpr int lw = vector_width<L>;
    const uint32_t begins_at = shared_address(shared.begins), values_at = shared_address(shared.values);

    // place is where a run begins, plus its number among those that have elements
    // times 2^16.
    uint32_t place[pass_rows][lw], row[pass_rows + 1];
    row[0] = 0;
    __syncwarp();
#pragma unroll
    for (int j = 0; j < pass_rows; j++) {
        uint32_t own = 0;
#pragma unroll
        for (int i = 0; i < lw; i++) own += lengths.x[j][i] + (uint32_t(lengths.x[j][i] != 0) << 16);
        const uint32_t inclusive = warp_scan<Sum<uint32_t>>(own, lane);
        uint32_t next = row[j] + inclusive - own;
        row[j + 1] = row[j] + shuffle(inclusive, warp_size - 1);

        const unsigned first = (j * warp_size + lane) * lw;
        V v[lw];
        if (held == decode_part<L> && is_aligned(values, minimum(16, int(lw * sizeof(V))))) {
            load_wide(v, values + first);
        } else {
#pragma unroll
            for (int i = 0; i < lw; i++) v[i] = first + i < held ? values[first + i] : V(0);
        }
#pragma unroll
        for (int i = 0; i < lw; i++) {
            const uint32_t length = lengths.x[j][i];
            uint32_t w[sizeof(V) == 8 ? 2 : 1] = {};
            copy_bytes(w, &v[i], sizeof(V));
            store_shared_if<sizeof(V)>(length, values_at + (next >> 16) * sizeof(V), w[0], w[sizeof(V) / 8]);
            place[j][i] = next;
            next += length + (uint32_t(length != 0) << 16);
        }
    }

    // Vectors lie at 16-byte boundaries of memory; the first begins lead elements
    // before out.
    const unsigned lead = reinterpret_cast<uintptr_t>(out) / sizeof(V) % E::vw, end = size + lead;
    V *const vectors = out - lead;
    unsigned begun = 0;  // runs that begin before the window
    for (unsigned window = 0; window < end; window += E::window) {
#pragma unroll
        for (int k = 0; k < E::vectors; k++) {
            const uint32_t at = begins_at + (k * warp_size + lane) * E::vw;
            if constexpr (E::vw >= 4) {
                const uint32_t zero[E::vw / 4] = {};
                store_shared(at, zero);
            } else {
                store_shared_if<E::vw>(1, at, 0);
            }
        }
        __syncwarp();
#pragma unroll
        for (int j = 0; j < pass_rows; j++) {
            if ((row[j] & 0xffff) + lead >= window + E::window || (row[j + 1] & 0xffff) + lead <= window) continue;
#pragma unroll
            for (int i = 0; i < lw; i++) {
                const unsigned at = (place[j][i] & 0xffff) + lead - window;
                store_shared_if<1>(unsigned(at < E::window) & unsigned(lengths.x[j][i] != 0), begins_at + at, 1);
            }
        }
        __syncwarp();
        // Counts of two vectors are scanned in one word.
        uint32_t flags[E::vectors][(E::vw + 3) / 4], before[E::vectors];
        unsigned next = begun;
#pragma unroll
        for (int k = 0; k < E::vectors; k += 2) {
            uint32_t own = 0;
#pragma unroll
            for (int h = 0; h < 2; h++) {
                uint8_t f[E::vw];
                load_shared(f, begins_at + ((k + h) * warp_size + lane) * E::vw);
                uint32_t sum = 0;
                flags[k + h][0] = 0;
                copy_bytes(flags[k + h], f, E::vw);
#pragma unroll
                for (int w = 0; w < (E::vw + 3) / 4; w++) sum += flags[k + h][w];
                own |= (sum * 0x01010101u >> 24) << (16 * h);
            }
            const uint32_t inclusive = warp_scan<Sum<uint32_t>>(own, lane), all = shuffle(inclusive, warp_size - 1);
            before[k] = next + ((inclusive - own) & 0xffff);
            before[k + 1] = next + (all & 0xffff) + ((inclusive - own) >> 16);
            next += (all & 0xffff) + (all >> 16);
        }
        begun = next;
#pragma unroll
        for (int k = 0; k < E::vectors; k++) {
            const unsigned at = window + (k * warp_size + lane) * E::vw;
            if (at >= end) continue;
            uint32_t value_at = values_at + before[k] * sizeof(V) - sizeof(V);
            V x[E::vw];
#pragma unroll
            for (int i = 0; i < E::vw; i++) {
                value_at += (flags[k][i / 4] >> (8 * (i % 4)) & 1) * sizeof(V);
                V v[1];
                load_shared(v, value_at);
                x[i] = v[0];
            }
            if (at >= lead && at + E::vw <= end) {
                store_wide(vectors + at, x);
            } else {
#pragma unroll
                for (int i = 0; i < E::vw; i++)
                    if (at + i >= lead && at + i < end) vectors[at + i] = x[i];
            }
        }
        __syncwarp();
    }
}

// rle_decode_pass writes the elements from number from on to out[0, size), as far
// as there are so many, and stores the lengths' saturated sum in *total.
template <class V, class L>
__device__ __forceinline__ void rle_decode_pass(const V *values, const L *lengths, uint64_t runs, V *out, uint64_t from, uint64_t size, uint64_t *total,
                                                DecodeState *state) {
    using Add = SaturatingSum<uint64_t>;
    constexpr uint64_t chunk = chunk_bytes / sizeof(V);
    alignas(128) extern __shared__ unsigned char dynamic_shared[];
    __shared__ uint64_t totals[decode_parts];
    __shared__ uint64_t ticket, tile_prefix, listed;
    const unsigned lane = threadIdx.x % warp_size, part = threadIdx.x / warp_size;
    auto &shared = reinterpret_cast<Expansion<V, L> *>(dynamic_shared)[part];
    const uint64_t tiles = ceil_div<uint64_t>(runs, decode_pass_tile<L>), end = from + size;
    const LargeParts large(state, tiles);
    LookBack<Add> look_back(TileTotals<uint64_t>{reinterpret_cast<uint64_t *>(state + 1), Pass{}.mark()}, 0);

    bool sharing = false;  // chunks of large parts
    uint64_t large_parts = 0, chunks = 0, c = uint64_t(blockIdx.x) * decode_parts + part;
    for (;;) {
        // What of part p, which begins at begin, lies in [lo, hi) is written.
        uint64_t p, begin, lo, hi;
        unsigned held;
        bool whole = false;
        Lengths<L> x;
        const auto load = [&] {
            const uint64_t first = p * decode_part<L>;
            held = first < runs ? unsigned(minimum<uint64_t>(decode_part<L>, runs - first)) : 0;
            x.load(lengths + first, held, lane);
            return x.sum();
        };
        if (!sharing) {
            if (threadIdx.x == 0) ticket = atomic_add(&state->ticket, uint64_t(1));
            __syncthreads();
            const uint64_t tile = ticket;
            if (tile >= tiles) {
                if (threadIdx.x == 0) {
                    while (load_relaxed(&state->placed) < tiles * decode_parts) {}
                    fence_acq_rel();
                    listed = load_relaxed(&state->large);
                }
                __syncthreads();
                large_parts = listed >> 32;
                chunks = uint32_t(listed);
                sharing = true;
                continue;
            }
            p = tile * decode_parts + part;
            const uint64_t sum = load();
            prefetch<V, L>(values + p * decode_part<L>, held, lane);
            if (lane == 0) totals[part] = sum;
            __syncthreads();
            if (part == 0) {
                uint64_t tile_total = sum;
                for (int q = 1; q < decode_parts; q++) tile_total = Add::combine(tile_total, totals[q]);
                if (lane == 0) look_back.totals.publish(tile, tile_total);
                const uint64_t prefix = look_back.prefix(tile, lane);
                if (lane == 0) tile_prefix = prefix;
            }
            __syncthreads();
            begin = tile_prefix;
            for (unsigned q = 0; q < part; q++) begin = Add::combine(begin, totals[q]);
            const uint64_t stop = Add::combine(begin, sum);
            if (tile == tiles - 1 && part == decode_parts - 1 && lane == 0) *total = stop;
            lo = maximum(begin, from);
            hi = minimum(stop, end);
            whole = lo == begin && hi == stop;
            const bool is_large = lo < hi && hi - lo > chunk;
            if (lane == 0) {
                if (is_large) {
                    const uint64_t at = atomic_add(&state->large, (uint64_t(1) << 32) + ceil_div(hi - lo, chunk));
                    large.first_chunk[at >> 32] = uint32_t(at);
                    large.part[at >> 32] = p;
                    large.begin[at >> 32] = begin;
                    fence_acq_rel();
                }
                atomic_add(&state->placed, uint64_t(1));
            }
            if (lo >= hi || is_large) continue;
        } else {
            if (c >= chunks) return;
            const uint64_t e = warp_upper_bound(large.first_chunk, large_parts, c, lane) - 1;
            p = large.part[e];
            begin = large.begin[e];
            lo = maximum(begin, from) + (c - large.first_chunk[e]) * chunk;
            hi = minimum(minimum(lo + chunk, end), Add::combine(begin, load()));
            c += uint64_t(gridDim.x) * decode_parts;
        }
        Clipped<L> clipped;
        if (whole) {
            clipped.all(x);
        } else {
            clipped.clip(x, begin, lo, hi, lane);
        }
        expand(out + (lo - from), unsigned(hi - lo), values + p * decode_part<L>, held, clipped, shared, lane);
    }
}

}  // namespace ptxrun
