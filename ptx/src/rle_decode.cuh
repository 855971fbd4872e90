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
    // sum is the part's, saturated; all lanes get it. 32-bit lengths cannot overflow.
    __device__ __forceinline__ uint64_t sum() const {
        if constexpr (sizeof(L) < 8) {
            return sum_by<Sum<uint64_t>>();
        } else {
            return sum_by<SaturatingSum<uint64_t>>();
        }
    }

  private:
    template <class Op>
    __device__ __forceinline__ uint64_t sum_by() const {
        uint64_t s = 0;
#pragma unroll
        for (int j = 0; j < pass_rows; j++) {
#pragma unroll
            for (int i = 0; i < vw; i++) s = Op::combine(s, x[j][i]);
        }
        return shuffle(warp_reduce<Op>(s), 0);
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
// window of the output begin runs, which of its vectors are mixed, and the values
// of the runs that have elements.
template <class V, class L>
struct Expansion {
    static constexpr int vw = vector_width<V>;
    static constexpr int vectors = 6;  // a lane's in a window
    static constexpr unsigned window = vectors * warp_size * vw;
    alignas(16) uint8_t begins[window];
    alignas(16) uint32_t mixed[warp_size];
    alignas(16) unsigned char values[decode_part<L> * sizeof(V)];
};

// Elements are a vector of the output, made of values in shared memory.
template <class V>
struct Elements {
    static constexpr int vw = vector_width<V>;
    uint32_t word[4];

    static __device__ __forceinline__ uint32_t pair(uint32_t low, uint32_t high, int bytes) {
        return __byte_perm(low, high, bytes == 1 ? 0x0040 : 0x5410);
    }
    // fetch returns the value at an address in the low bits.
    static __device__ __forceinline__ uint32_t fetch(uint32_t a) {
        uint32_t w;
        if constexpr (sizeof(V) == 1) {
            asm volatile("ld.shared.u8 %0, [%1];" : "=r"(w) : "r"(a) : "memory");
        } else if constexpr (sizeof(V) == 2) {
            asm volatile("ld.shared.u16 %0, [%1];" : "=r"(w) : "r"(a) : "memory");
        } else {
            asm volatile("ld.shared.u32 %0, [%1];" : "=r"(w) : "r"(a) : "memory");
        }
        return w;
    }
    // one is a vector of one value.
    __device__ __forceinline__ void one(uint32_t a) {
        if constexpr (sizeof(V) == 8) {
            word[0] = word[2] = fetch(a);
            word[1] = word[3] = fetch(a + 4);
        } else {
            uint32_t w = fetch(a);
            if constexpr (sizeof(V) == 1) w = pair(w, w, 1);
            if constexpr (sizeof(V) <= 2) w = pair(w, w, 2);
            word[0] = word[1] = word[2] = word[3] = w;
        }
    }
    // runs is a vector in which runs begin: flags has a byte an element, 1 where one
    // does. a is the address of the value before the first of them.
    __device__ __forceinline__ void runs(const uint32_t (&flags)[(vw + 3) / 4], uint32_t a) {
        uint32_t w[vw * sizeof(V) / 4 + (sizeof(V) < 4 ? vw - 4 : 0)];
#pragma unroll
        for (int i = 0; i < vw; i++) {
            a += (flags[i / 4] >> (8 * (i % 4)) & 1) * sizeof(V);
            if constexpr (sizeof(V) == 8) {
                w[2 * i] = fetch(a);
                w[2 * i + 1] = fetch(a + 4);
            } else {
                w[i] = fetch(a);
            }
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if constexpr (sizeof(V) == 1) {
                word[i] = pair(pair(w[4 * i], w[4 * i + 1], 1), pair(w[4 * i + 2], w[4 * i + 3], 1), 2);
            } else if constexpr (sizeof(V) == 2) {
                word[i] = pair(w[2 * i], w[2 * i + 1], 2);
            } else {
                word[i] = w[i];
            }
        }
    }
    // store stores what of the vector at element at lies in [begin, end).
    __device__ __forceinline__ void store(V *vectors, unsigned at, unsigned begin, unsigned end) const {
        if (at >= begin && at + vw <= end) {
            store_wide(reinterpret_cast<uint32_t *>(vectors + at), word);
            return;
        }
        V x[vw];
        copy_bytes(x, word, 16);
#pragma unroll
        for (int i = 0; i < vw; i++)
            if (at + i >= begin && at + i < end) vectors[at + i] = x[i];
    }
};

// load_begins loads the flags of a vector.
template <int vw>
__device__ __forceinline__ void load_begins(uint32_t (&flags)[(vw + 3) / 4], uint32_t a) {
    uint8_t f[vw];
    load_shared(f, a);
    flags[0] = 0;
    copy_bytes(flags, f, vw);
}

// expand writes a part's runs, of the given lengths, to out[0, size). values are
// those of the part, held of them.
template <class V, class L>
__device__ __forceinline__ void expand(V *out, unsigned size, const V *values, unsigned held, const Clipped<L> &lengths, Expansion<V, L> &shared, unsigned lane) {
    using E = Expansion<V, L>;
    constexpr int lw = vector_width<L>;
    const uint32_t begins_at = shared_address(shared.begins), values_at = shared_address(shared.values), mixed_at = shared_address(shared.mixed);

    // place is where a run begins, plus its number among those that have elements
    // times 2^16.
    uint32_t place[pass_rows][lw], row[pass_rows + 1];
    row[0] = 0;
    const auto counted = [](uint32_t length) { return length + (minimum(length, 1u) << 16); };
#pragma unroll
    for (int j = 0; j < pass_rows; j++) {
        uint32_t own = 0;
#pragma unroll
        for (int i = 0; i < lw; i++) own += counted(lengths.x[j][i]);
        const uint32_t inclusive = warp_scan<Sum<uint32_t>>(own, lane);
        uint32_t next = row[j] + inclusive - own;
        row[j + 1] = row[j] + shuffle(inclusive, warp_size - 1);
#pragma unroll
        for (int i = 0; i < lw; i++) {
            place[j][i] = next;
            next += counted(lengths.x[j][i]);
        }
    }

    // Vectors lie at 16-byte boundaries of memory; the first begins lead elements
    // before out.
    const unsigned lead = reinterpret_cast<uintptr_t>(out) / sizeof(V) % E::vw, end = size + lead;
    V *const vectors = out - lead;
    const bool all = row[pass_rows] >> 16 == decode_part<L> && is_aligned(values, minimum(16, int(lw * sizeof(V))));  // no run is empty
    __syncwarp();
#pragma unroll
    for (int j = 0; j < pass_rows; j++) {
        const unsigned first = (j * warp_size + lane) * lw;
        V v[lw];
        if (all) {
            load_wide(v, values + first);
            const uint32_t to = values_at + first * sizeof(V);
            uint32_t w[(lw * sizeof(V) + 3) / 4] = {};
            copy_bytes(w, v, sizeof(v));
            if constexpr (sizeof(v) == 2) {
                store_shared_if<2>(1, to, w[0]);
            } else if constexpr (sizeof(v) == 32) {
                store_shared(to, {w[0], w[1], w[2], w[3]});
                store_shared(to + 16, {w[4], w[5], w[6], w[7]});
            } else {
                store_shared(to, w);
            }
        } else {
#pragma unroll
            for (int i = 0; i < lw; i++) {
                v[i] = first + i < held ? values[first + i] : V(0);
                uint32_t w[sizeof(V) == 8 ? 2 : 1] = {};
                copy_bytes(w, &v[i], sizeof(V));
                store_shared_if<sizeof(V)>(lengths.x[j][i], values_at + (place[j][i] >> 16) * sizeof(V), w[0], w[sizeof(V) / 8]);
            }
        }
        // From here on where it begins alone, and nowhere if it is empty.
#pragma unroll
        for (int i = 0; i < lw; i++) place[j][i] = lengths.x[j][i] != 0 ? (place[j][i] & 0xffff) + lead : ~0u;
    }

    uint32_t value = values_at - sizeof(V);  // of the last run that begins before the window
    for (unsigned window = 0; window < end; window += E::window) {
        const auto behind = [=](int k) { return window + k * warp_size * E::vw >= end; };  // all lanes' vectors k
#pragma unroll
        for (int k = 0; k < E::vectors; k++) {
            if (behind(k)) break;
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
                const unsigned at = place[j][i] - window;
                store_shared_if<1>(at < E::window, begins_at + at, 1);
            }
        }
        __syncwarp();
        // Counts of two vectors are scanned in one word.
        uint32_t before[E::vectors] = {};
        unsigned with = 0;  // bit k: runs begin in vector k
        unsigned many = 0;  // vectors in which runs begin
#pragma unroll
        for (int k = 0; k < E::vectors; k += 2) {
            if (behind(k)) break;
            uint32_t own = 0;
#pragma unroll
            for (int h = 0; h < 2; h++) {
                if (behind(k + h)) continue;
                uint32_t flags[(E::vw + 3) / 4], sum = 0;
                load_begins<E::vw>(flags, begins_at + ((k + h) * warp_size + lane) * E::vw);
#pragma unroll
                for (int w = 0; w < (E::vw + 3) / 4; w++) sum += flags[w];
                own |= (sum * 0x01010101u >> 24) << (16 * h);
                with |= unsigned(sum != 0) << (k + h);
                many += __popc(__ballot_sync(full_warp, sum != 0));
            }
            const uint32_t inclusive = warp_scan<Sum<uint32_t>>(own, lane), sum = shuffle(inclusive, warp_size - 1), less = inclusive - own;
            before[k] = value + (less & 0xffff) * sizeof(V);
            before[k + 1] = value + ((sum & 0xffff) + (less >> 16)) * sizeof(V);
            value += ((sum & 0xffff) + (sum >> 16)) * sizeof(V);
        }
        // Vectors in which runs begin cost more. A few are brought together, a lane
        // each.
        const bool few = many <= warp_size;
        unsigned listed = 0;
#pragma unroll
        for (int k = 0; k < E::vectors; k++) {
            if (behind(k)) break;
            const unsigned at = window + (k * warp_size + lane) * E::vw;
            const bool mixed = with >> k & 1;
            Elements<V> x;
            if (few) {
                const unsigned lanes = __ballot_sync(full_warp, mixed);
                store_shared_if<4>(mixed, mixed_at + 4 * (listed + __popc(lanes & ((1u << lane) - 1))), (before[k] - values_at + sizeof(V)) << 8 | k * warp_size | lane);
                listed += __popc(lanes);
                if (mixed || at >= end) continue;
                x.one(before[k]);
            } else {
                if (at >= end) continue;
                uint32_t flags[(E::vw + 3) / 4];
                load_begins<E::vw>(flags, begins_at + (at - window));
                x.runs(flags, before[k]);
            }
            x.store(vectors, at, lead, end);
        }
        __syncwarp();
        if (few && lane < listed) {
            uint32_t entry[1], flags[(E::vw + 3) / 4];
            load_shared(entry, mixed_at + 4 * lane);
            const unsigned at = (entry[0] & 0xff) * E::vw;
            load_begins<E::vw>(flags, begins_at + at);
            Elements<V> x;
            x.runs(flags, values_at + (entry[0] >> 8) - sizeof(V));
            x.store(vectors, window + at, lead, end);
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
