#pragma once

#include "block.cuh"
#include "look_back.cuh"
#include "op.cuh"
#include "search.cuh"
#include "shared.cuh"

// Run-length decoding in a single pass over the lengths: what precedes a tile of
// runs, by look-back, says where its elements go, and they are written at once.
//
// A tile is decode_parts parts, a warp's work each, of decode_rows rows of 32
// vectors of 16 bytes of lengths. A part of more output than part_bytes is written by
// all blocks, once every tile has its place: it is cut into chunks, a warp's work
// each. So no distribution of lengths leaves most of the device idle, and parts of
// short runs are read once.
//
// An element is the XOR of all changes up to it, where a run's change is its value
// XOR the value before. A warp stores changes where runs begin, among zeros, in
// shared memory and scans them: words of several elements at a time, and with no
// look-up, however long the runs.

namespace ptxrun {

// Lengths and values of a part are held in registers, 40 to 48 of 80: two blocks a
// multiprocessor are 24 warps, which have 24 · 5 KB of runs of bytes on their way.
constexpr int decode_parts = 12;
constexpr int decode_pass_block = decode_parts * warp_size;
constexpr int decode_blocks = 2;  // a multiprocessor
constexpr int decode_narrow_rows = 8;
constexpr int decode_wide_rows = 4;
constexpr int decode_ahead = 9;   // groups of 32 tiles looked back at: so many blocks run on 132 multiprocessors
constexpr int chunk_bytes = 32 << 10;
constexpr int part_bytes = 48 << 10;
constexpr int window_vectors = 6;  // a lane's, of the output that a warp has in shared memory
constexpr int window_bytes = window_vectors * warp_size * 16;

template <class V>
constexpr int decode_rows = sizeof(V) <= 2 ? decode_narrow_rows : decode_wide_rows;
template <class V, class L>
constexpr int decode_part = decode_rows<V> * warp_size * vector_width<L>;
template <class V, class L>
constexpr int decode_pass_tile = decode_parts * decode_part<V, L>;

// DecodeState is the workspace, zero at the start: after the tiles' totals come the
// large parts. The three arrays are as long as there are parts.
struct alignas(256) DecodeState {
    uint64_t ticket;
    uint64_t placed;  // tiles whose large parts are listed
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
    // list adds the parts that lanes have, of chunks each, or 0, to those of state.
    // The warp calls it together; who has seen state->placed grow after it, and a
    // fence, sees them.
    __device__ __forceinline__ void list(DecodeState *state, uint32_t chunks, uint64_t p, uint64_t begins, unsigned lane) const {
        const unsigned lanes = __ballot_sync(full_warp, chunks > 0);
        if (lanes == 0) return;
        const uint32_t inclusive = warp_scan<Sum<uint32_t>>(chunks, lane);
        uint64_t at = 0;
        if (lane == warp_size - 1) at = atomic_add(&state->large, (uint64_t(__popc(lanes)) << 32) + inclusive);
        at = shuffle(at, warp_size - 1);
        if (chunks > 0) {
            const uint64_t e = (at >> 32) + __popc(lanes & ((1u << lane) - 1));
            first_chunk[e] = uint32_t(at) + inclusive - chunks;
            part[e] = p;
            begin[e] = begins;
        }
        fence_acq_rel();
        __syncwarp();
    }
};

// Lengths are a lane's lengths of a part: a vector of each row.
template <class L, int rows>
struct Lengths {
    static constexpr int vw = vector_width<L>;
    L x[rows][vw];

    // load loads a part of held runs; the rest is zero.
    __device__ __forceinline__ void load(const L *part, unsigned held, unsigned lane) {
        const bool whole = held == rows * warp_size * vw && is_aligned(part, 16);
#pragma unroll
        for (int j = 0; j < rows; j++) {
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
        for (int j = 0; j < rows; j++) {
#pragma unroll
            for (int i = 0; i < vw; i++) s = Op::combine(s, x[j][i]);
        }
        return shuffle(warp_reduce<Op>(s), 0);
    }
};

// Clipped are the lengths of what of a part's runs lies in [lo, hi), at most
// part_bytes; the first run begins at begin.
template <class L, int rows>
struct Clipped {
    static constexpr int vw = vector_width<L>;
    uint32_t x[rows][vw];

    __device__ __forceinline__ void all(const Lengths<L, rows> &lengths) {
#pragma unroll
        for (int j = 0; j < rows; j++) {
#pragma unroll
            for (int i = 0; i < vw; i++) x[j][i] = uint32_t(lengths.x[j][i]);
        }
    }
    __device__ __forceinline__ void clip(const Lengths<L, rows> &lengths, uint64_t begin, uint64_t lo, uint64_t hi, unsigned lane) {
        using Add = SaturatingSum<uint64_t>;
#pragma unroll
        for (int j = 0; j < rows; j++) {
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

// SumBack is LookBack for sums, which need no order: a lane adds up the totals of
// every 32nd tile, and all that other blocks take in a turn are on their way at once.
struct SumBack {
    using Add = SaturatingSum<uint64_t>;
    TileTotals<uint64_t> totals;
    uint64_t passed;  // this lane's sum of the groups before group
    uint64_t group;   // of 32 tiles

    // prefix returns the sum of the totals of all tiles before tile, which is never
    // less than in the call before. All lanes call it and get it.
    __device__ __forceinline__ uint64_t prefix(uint64_t tile, unsigned lane) {
        TileTotals<uint64_t>::Pending p[decode_ahead];
        for (;;) {
#pragma unroll
            for (int k = 0; k < decode_ahead; k++) {
                const uint64_t t = (group + k) * warp_size + lane;
                if (t < tile) p[k].request(totals, t);
            }
#pragma unroll
            for (int k = 0; k < decode_ahead; k++) {
                const uint64_t sum = group * warp_size + lane < tile ? Add::combine(passed, p[k].wait()) : passed;
                if (group == tile / warp_size) return shuffle(warp_reduce<Add>(sum), 0);
                passed = sum;
                group++;
            }
        }
    }
};

// Bits are those of a value; above its width they say nothing.
template <int bytes>
struct BitsOf {
    using Type = uint32_t;
};
template <>
struct BitsOf<8> {
    using Type = uint64_t;
};
template <class V>
using Bits = typename BitsOf<sizeof(V)>::Type;

// store_bits_if stores a value if keep is not zero.
template <class V>
__device__ __forceinline__ void store_bits_if(unsigned keep, uint32_t a, Bits<V> v) {
    store_shared_if<sizeof(V)>(keep, a, uint32_t(v), uint32_t(uint64_t(v) >> 32));
}

// Values are a lane's values of a part: vw of each row, like its lengths.
template <class V, int vw, int rows>
struct Values {
    static constexpr int bytes = vw * sizeof(V);
    static_assert(bytes > 1, "2 bytes or whole words");
    uint32_t word[rows][(bytes + 3) / 4];

    // load loads those of a part of held runs; the rest is zero.
    __device__ __forceinline__ void load(const V *part, unsigned held, unsigned lane) {
        const bool whole = held == rows * warp_size * vw && is_aligned(part, minimum(16, bytes));
#pragma unroll
        for (int j = 0; j < rows; j++) {
            const unsigned k = (j * warp_size + lane) * vw;
            if (whole) {
                if constexpr (bytes < 4) {
                    word[j][0] = *reinterpret_cast<const uint16_t *>(part + k);
                } else {
                    load_wide(word[j], reinterpret_cast<const uint32_t *>(part + k));
                }
            } else {
                V v[vw];
#pragma unroll
                for (int i = 0; i < vw; i++) v[i] = k + i < held ? part[k + i] : V(0);
                word[j][0] = 0;
                copy_bytes(word[j], v, bytes);
            }
        }
    }
    __device__ __forceinline__ Bits<V> at(int j, int i) const {
        if constexpr (sizeof(V) == 8) {
            return uint64_t(word[j][2 * i + 1]) << 32 | word[j][2 * i];
        } else {
            const int byte = i * sizeof(V);
            return word[j][byte / 4] >> (8 * (byte % 4));
        }
    }
};

// Elements are a vector of the output.
template <class V>
struct Elements {
    uint32_t word[4];

    // scan makes each element the XOR of those up to it.
    __device__ __forceinline__ void scan() {
        if constexpr (sizeof(V) == 8) {
            word[2] ^= word[0];
            word[3] ^= word[1];
        } else {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                if constexpr (sizeof(V) == 1) word[i] ^= word[i] << 8;
                if constexpr (sizeof(V) <= 2) word[i] ^= word[i] << 16;
                if (i > 0) word[i] ^= __byte_perm(word[i - 1], 0, sizeof(V) == 1 ? 0x3333 : sizeof(V) == 2 ? 0x3232 : 0x3210);
            }
        }
    }
    __device__ __forceinline__ Bits<V> last() const {
        if constexpr (sizeof(V) == 8) {
            return uint64_t(word[3]) << 32 | word[2];
        } else {
            return word[3] >> (32 - 8 * sizeof(V));
        }
    }
    // combine XORs v to each element.
    __device__ __forceinline__ void combine(Bits<V> v) {
        uint32_t low = uint32_t(v), high = low;
        if constexpr (sizeof(V) == 8) high = uint32_t(v >> 32);
        if constexpr (sizeof(V) <= 2) low = high = __byte_perm(low, 0, sizeof(V) == 1 ? 0x0000 : 0x1010);
#pragma unroll
        for (int i = 0; i < 4; i++) word[i] ^= i % 2 == 0 ? low : high;
    }
};

// expand writes a part's runs, of the given lengths, to out[0, size), by way of a
// window in the warp's shared memory.
template <class V, class L, int rows>
__device__ __forceinline__ void expand(V *out, unsigned size, const Values<V, vector_width<L>, rows> &values, const Clipped<L, rows> &lengths, uint32_t shared,
                                       unsigned lane) {
    constexpr int lw = vector_width<L>;
    constexpr unsigned vw = vector_width<V>, row = warp_size * vw, width = window_vectors * row;
    const auto bytes = [](uint32_t element) { return element * unsigned(sizeof(V)); };

    // Vectors lie at 16-byte boundaries of memory; the first begins lead elements
    // before out. Places count from there.
    const unsigned lead = reinterpret_cast<uintptr_t>(out) / sizeof(V) % vw, end = size + lead;
    V *const vectors = out - lead;
    uint32_t place[rows][lw], begins[rows + 1];  // of runs, if they are not empty, and of rows
    uint32_t shortest = lengths.x[0][0];
    begins[0] = lead;
#pragma unroll
    for (int j = 0; j < rows; j += 2) {
        // Two rows are scanned in one word.
        static_assert(rows % 2 == 0 && part_bytes < 1 << 16, "two rows' elements fit in a word");
        uint32_t own = 0;
#pragma unroll
        for (int i = 0; i < lw; i++) own += lengths.x[j][i] + (lengths.x[j + 1][i] << 16);
        const uint32_t inclusive = warp_scan<Sum<uint32_t>>(own, lane), sum = shuffle(inclusive, warp_size - 1);
        uint32_t less = inclusive - own;
#pragma unroll
        for (int h = j; h < j + 2; h++) {
            begins[h + 1] = begins[h] + (h == j ? sum & 0xffff : sum >> 16);
            uint32_t next = begins[h] + (h == j ? less & 0xffff : less >> 16);
#pragma unroll
            for (int i = 0; i < lw; i++) {
                const uint32_t length = lengths.x[h][i];
                place[h][i] = length != 0 ? next : ~0u;
                next += length;
                shortest = minimum(shortest, length);
            }
        }
    }
    const bool full = !__any_sync(full_warp, shortest == 0);  // no run is empty

    Bits<V> value = 0;  // of the last run that begins before the window
    for (unsigned window = 0; window < end; window += width) {
        const auto behind = [=](int k) { return window + k * row >= end; };  // all lanes' vectors k
        bool begun = false;  // runs begin in the window
        Bits<V> before = value;
#pragma unroll
        for (int j = 0; j < rows; j++) {
            if (begins[j] >= window + width || begins[j + 1] <= window) continue;
            const bool all = full && begins[j] >= window && begins[j + 1] <= window + width;
            Bits<V> own = values.at(j, lw - 1);  // of this lane's last run that begins here
            unsigned with = full_warp;           // the lanes that have one
            if (!all) {
                bool any = false;
#pragma unroll
                for (int i = 0; i < lw; i++) {
                    const bool here = place[j][i] - window < width;
                    own = here ? values.at(j, i) : own;
                    any |= here;
                }
                with = __ballot_sync(full_warp, any);
                if (with == 0) continue;
            }
            if (!begun) {
#pragma unroll
                for (int k = 0; k < window_vectors; k++) {
                    if (behind(k)) break;
                    const uint32_t zero[4] = {};
                    store_shared(shared + bytes(k * row + lane * vw), zero);
                }
                __syncwarp();
                begun = true;
            }
            const unsigned less = with & ((1u << lane) - 1);
            const Bits<V> near = shuffle(own, latest(less));
            Bits<V> last = less != 0 ? near : before;
            before = shuffle(own, latest(with));
            if (all) {
#pragma unroll
                for (int i = 0; i < lw; i++) {
                    store_bits_if<V>(1, shared + bytes(place[j][i] - window), values.at(j, i) ^ last);
                    last = values.at(j, i);
                }
            } else {
#pragma unroll
                for (int i = 0; i < lw; i++) {
                    const uint32_t at = place[j][i] - window;
                    store_bits_if<V>(at < width, shared + bytes(at), values.at(j, i) ^ last);
                    last = at < width ? values.at(j, i) : last;
                }
            }
        }
        __syncwarp();
        const auto store = [&](const Elements<V> &x, unsigned at) {
            if (window + at >= lead && window + at + vw <= end) {
                store_wide(reinterpret_cast<uint32_t *>(vectors + window + at), x.word);
            } else {
                store_shared(shared + bytes(at), x.word);
            }
        };
        if (begun) {
#pragma unroll
            for (int k = 0; k < window_vectors; k++) {
                if (behind(k)) break;
                const unsigned at = k * row + lane * vw;
                Elements<V> x;
                load_shared(x.word, shared + bytes(at));
                Bits<V> base = value;
                if (__any_sync(full_warp, (x.word[0] | x.word[1] | x.word[2] | x.word[3]) != 0)) {
                    x.scan();
                    const Bits<V> own = x.last(), inclusive = warp_scan<Xor<Bits<V>>>(own, lane);
                    base ^= inclusive ^ own;
                    value ^= shuffle(inclusive, warp_size - 1);
                }
                x.combine(base);
                store(x, at);
            }
        } else {
            Elements<V> x = {};
            x.combine(value);
#pragma unroll
            for (int k = 0; k < window_vectors; k++) {
                if (behind(k)) break;
                store(x, k * row + lane * vw);
            }
        }
        __syncwarp();
        // Of the first and the last vector a part may be others': a lane an element.
        if (window == 0 || window + width >= end) {
            const unsigned half = lane % 16, base = lane < 16 ? 0 : end - end % vw, at = base + half;
            const bool mine = lane < 16 ? window == 0 && (lead > 0 || end < vw) : base > 0 && base - window < width;
            if (mine && half < vw && at >= lead && at < end) {
                V v[1];
                load_shared(v, shared + bytes(at - window));
                vectors[at] = v[0];
            }
            __syncwarp();
        }
    }
}

// rle_decode_pass writes the elements from number from on to out[0, size), as far
// as there are so many, and stores the lengths' saturated sum in *total.
template <class V, class L>
__device__ __forceinline__ void rle_decode_pass(const V *values, const L *lengths, uint64_t runs, V *out, uint64_t from, uint64_t size, uint64_t *total,
                                                DecodeState *state) {
    using Add = SaturatingSum<uint64_t>;
    constexpr int rows = decode_rows<V>, part_runs = decode_part<V, L>;
    constexpr uint64_t chunk = chunk_bytes / sizeof(V), most = part_bytes / sizeof(V);
    alignas(16) __shared__ unsigned char windows[decode_parts][window_bytes];
    __shared__ uint64_t sums[decode_parts], begins[decode_parts];
    __shared__ uint64_t ticket, listed;
    const unsigned lane = threadIdx.x % warp_size, part = threadIdx.x / warp_size;
    const uint64_t tiles = ceil_div<uint64_t>(runs, decode_pass_tile<V, L>), end = from + size;
    const LargeParts large(state, tiles);
    SumBack look_back{{reinterpret_cast<uint64_t *>(state + 1), Pass{}.mark()}, 0, 0};

    bool sharing = false;  // chunks of large parts
    uint64_t large_parts = 0, chunks = 0, c = uint64_t(blockIdx.x) * decode_parts + part;
    for (;;) {
        // What of part p, which begins at begin, lies in [lo, hi) is written.
        uint64_t p, begin, lo, hi;
        bool whole = false;
        Lengths<L, rows> x;
        Values<V, vector_width<L>, rows> v;
        if (!sharing) {
            if (threadIdx.x == 0) ticket = atomic_add(&state->ticket, uint64_t(1));
            __syncthreads();
            if (ticket >= tiles) {
                if (threadIdx.x == 0) {
                    while (load_relaxed(&state->placed) < tiles) {}
                    fence_acq_rel();
                    listed = load_relaxed(&state->large);
                }
                __syncthreads();
                large_parts = listed >> 32;
                chunks = uint32_t(listed);
                sharing = true;
            }
        }
        if (!sharing) {
            p = ticket * decode_parts + part;
        } else {
            if (c >= chunks) return;
            const uint64_t e = warp_upper_bound(large.first_chunk, large_parts, c, lane) - 1;
            p = large.part[e];
            begin = large.begin[e];
            lo = maximum(begin, from) + (c - large.first_chunk[e]) * chunk;
            c += uint64_t(gridDim.x) * decode_parts;
        }
        const uint64_t first = p * part_runs;
        const unsigned held = first < runs ? unsigned(minimum<uint64_t>(part_runs, runs - first)) : 0;
        x.load(lengths + first, held, lane);
        v.load(values + first, size > 0 ? held : 0, lane);
        const uint64_t sum = x.sum();
        if (!sharing) {
            const uint64_t tile = ticket;
            if (lane == 0) sums[part] = sum;
            __syncthreads();
            if (part == 0) {
                // A lane a part.
                const uint64_t inclusive = warp_scan<Add>(lane < decode_parts ? sums[lane] : 0, lane), less = shuffle_up(inclusive, 1);
                if (lane == warp_size - 1) look_back.totals.publish(tile, inclusive);
                const uint64_t prefix = look_back.prefix(tile, lane);
                begin = lane > 0 ? Add::combine(prefix, less) : prefix;
                const uint64_t stop = Add::combine(prefix, inclusive);
                if (lane < decode_parts) begins[lane] = begin;
                if (tile == tiles - 1 && lane == warp_size - 1) *total = stop;
                lo = maximum(begin, from);
                hi = minimum(stop, end);
                large.list(state, lo < hi && hi - lo > most ? uint32_t(ceil_div(hi - lo, chunk)) : 0, tile * decode_parts + lane, begin, lane);
                if (lane == 0) atomic_add(&state->placed, uint64_t(1));
            }
            __syncthreads();
            begin = begins[part];
            const uint64_t stop = Add::combine(begin, sum);
            lo = maximum(begin, from);
            hi = minimum(stop, end);
            whole = lo == begin && hi == stop;
            if (lo >= hi || hi - lo > most) continue;
        } else {
            hi = minimum(minimum(lo + chunk, end), Add::combine(begin, sum));
        }
        Clipped<L, rows> clipped;
        if (whole) {
            clipped.all(x);
        } else {
            clipped.clip(x, begin, lo, hi, lane);
        }
        expand(out + (lo - from), unsigned(hi - lo), v, clipped, shared_address(windows[part]), lane);
    }
}

}  // namespace ptxrun
