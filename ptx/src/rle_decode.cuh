#pragma once

#include "block.cuh"
#include "look_back.cuh"
#include "op.cuh"
#include "search.cuh"
#include "shared.cuh"

// Run-length decoding in a single pass over the lengths: what precedes a tile of
// runs, by look-back, says where its elements go, and they are written at once.
//
// A tile is decode_parts parts, a warp's work each, of rows of 32 vectors of 16 bytes
// of lengths. A part of more output than part_bytes, or of which a piece is wanted, is
// written by all blocks, once every tile has its place: it is cut into chunks, a warp's
// work each. So no distribution of lengths leaves most of the device idle, and parts of
// short runs are read once.
//
// An element is the XOR of all changes up to it, where a run's change is its value
// XOR the value before. A warp stores changes where runs begin, among zeros, in
// shared memory and scans them: words of several elements at a time, and with no
// look-up, however long the runs.

namespace ptxrun {

// A part's runs wait in shared memory for their place, lengths in 16 bits: registers
// hold them only on their way there, so that 24 warps run on a multiprocessor. A block
// takes at most 64 KB, what the smallest multiprocessors have.
constexpr int decode_parts = 8;
constexpr int decode_pass_block = decode_parts * warp_size;
constexpr int decode_blocks = 3;  // a multiprocessor
constexpr int decode_rows_most = 8;
constexpr int decode_ahead = 2;  // totals a thread has on their way: so many blocks run on 132 multiprocessors
constexpr int decode_window = 8;  // vectors, a lane's, of the output that a warp has in shared memory
constexpr int chunk_bytes = 32 << 10;
constexpr int part_bytes = 48 << 10;
static_assert(chunk_bytes <= part_bytes && part_bytes < 1 << 16, "lengths are held in 16 bits");

template <class V>
constexpr int decode_rows = sizeof(V) == 1 ? decode_rows_most : minimum<int>(decode_rows_most / 2, 16 / sizeof(V));
template <class V>
constexpr int decode_each = minimum<int>(8, 16 / sizeof(V));  // runs of a lane, in a step
template <class V, class L>
constexpr int decode_part = decode_rows<V> * warp_size * vector_width<L>;
template <class V, class L>
constexpr int decode_pass_tile = decode_parts * decode_part<V, L>;

// PartMemory is a warp's in shared memory.
template <class V, class L>
struct PartMemory {
    static constexpr int window_vectors = decode_window, window_bytes = window_vectors * warp_size * 16;
    static constexpr int lengths_bytes = decode_part<V, L> * 2;
    static constexpr int values_bytes = decode_part<V, L> * sizeof(V);
    static constexpr int bytes = window_bytes + lengths_bytes + values_bytes + 32;
    static constexpr int runs = decode_part<V, L>;
    uint32_t window;  // zero between parts

    __device__ __forceinline__ uint32_t lengths() const { return window + window_bytes; }
    __device__ __forceinline__ uint32_t values() const { return lengths() + lengths_bytes; }
    // edges are the first and the last vector of a part, where they are others' as well.
    __device__ __forceinline__ uint32_t edges() const { return values() + values_bytes; }
    // load loads the lengths of consecutive runs from number first on.
    template <int count>
    __device__ __forceinline__ void load(uint32_t (&n)[count], unsigned first) const {
        uint32_t pair[count / 2];
        load_shared(pair, lengths() + first * 2);
#pragma unroll
        for (int i = 0; i < count; i++) n[i] = i % 2 == 0 ? pair[i / 2] & 0xffff : pair[i / 2] >> 16;
    }
};

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

    __device__ __forceinline__ LargeParts(DecodeState *state, uint64_t tiles, unsigned parts) {
        first_chunk = reinterpret_cast<uint64_t *>(state + 1) + tiles * TileTotals<uint64_t>::words;
        part = first_chunk + tiles * parts;
        begin = part + tiles * parts;
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

// sum_lanes and xor_lanes are warp_scan of words, where the shuffle itself says which
// lanes have others before.
#define PTXRUN_SCAN_LANES(name, instruction) \
    __device__ __forceinline__ uint32_t name(uint32_t v) { \
        _Pragma("unroll") for (int delta = 1; delta < int(warp_size); delta *= 2) { \
            asm volatile("{\n\t.reg .pred p;\n\t.reg .b32 before;\n\t" \
                         "shfl.sync.up.b32 before|p, %0, %1, 0, 0xffffffff;\n\t@p " instruction " %0, before, %0;\n\t}" \
                         : "+r"(v) : "n"(delta)); \
        } \
        return v; \
    }
PTXRUN_SCAN_LANES(sum_lanes, "add.u32")
PTXRUN_SCAN_LANES(xor_lanes, "xor.b32")
#undef PTXRUN_SCAN_LANES
__device__ __forceinline__ uint64_t xor_lanes(uint64_t v) {
    return uint64_t(xor_lanes(uint32_t(v >> 32))) << 32 | xor_lanes(uint32_t(v));
}

// warp_sum is the lanes' saturated sum, which all of them get.
__device__ __forceinline__ uint64_t warp_sum(uint64_t v) {
    if (!__any_sync(full_warp, v >> 27 != 0)) return shuffle(warp_reduce<Sum<uint32_t>>(uint32_t(v)), 0);
    return shuffle(warp_reduce<SaturatingSum<uint64_t>>(v), 0);
}

// scan_sums is their saturated sum up to each lane.
__device__ __forceinline__ uint64_t scan_sums(uint64_t v, unsigned lane) {
    if (!__any_sync(full_warp, v >> 27 != 0)) return sum_lanes(uint32_t(v));
    return warp_scan<SaturatingSum<uint64_t>>(v, lane);
}

// Lengths are a lane's lengths of a part, a vector of each row, on their way to shared
// memory.
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
    // load_shared does from shared memory.
    __device__ __forceinline__ void load_shared(uint32_t part, unsigned lane) {
#pragma unroll
        for (int j = 0; j < rows; j++) ptxrun::load_shared(x[j], part + (j * warp_size + lane) * 16);
    }
    // sums are those of as many rows each, saturated; all lanes get them.
    template <int pieces>
    __device__ __forceinline__ void sums(uint64_t (&sum)[pieces]) const {
        static_assert(rows * vw * warp_size <= 1 << 10 && rows % pieces == 0, "a part's lengths below 2^22 add up to a word");
        L bits = 0;
        uint32_t word[pieces] = {};
#pragma unroll
        for (int j = 0; j < rows; j++) {
#pragma unroll
            for (int i = 0; i < vw; i++) {
                bits |= x[j][i];
                word[j * pieces / rows] += uint32_t(x[j][i]);
            }
        }
        const bool words = !__any_sync(full_warp, bits >> 22 != 0);
#pragma unroll
        for (int p = 0; p < pieces; p++) {
            if (words) {
                sum[p] = shuffle(warp_reduce<Sum<uint32_t>>(word[p]), 0);
                continue;
            }
            uint64_t all = 0;
#pragma unroll
            for (int j = p * rows / pieces; j < (p + 1) * rows / pieces; j++) {
#pragma unroll
                for (int i = 0; i < vw; i++) all = SaturatingSum<uint64_t>::combine(all, x[j][i]);
            }
            sum[p] = warp_sum(all);
        }
    }
    __device__ __forceinline__ uint64_t sum() const {
        uint64_t all[1];
        sums(all);
        return all[0];
    }
    // store stores the lengths; those beyond 16 bits are of no use.
    __device__ __forceinline__ void store(uint32_t a, unsigned lane) const {
#pragma unroll
        for (int j = 0; j < rows; j++) {
            uint32_t n[vw];
#pragma unroll
            for (int i = 0; i < vw; i++) n[i] = uint32_t(x[j][i]);
            store_row(a, j, n, lane);
        }
    }
    // clip calls store(row, lengths) with the lengths of what of the runs, the first of
    // which begins at begin, lies in [lo, hi), less than 2^32, and returns how much
    // that is.
    template <class Store>
    __device__ __forceinline__ unsigned clip(uint64_t begin, uint64_t lo, uint64_t hi, unsigned lane, Store store) const {
        using Add = SaturatingSum<uint64_t>;
#pragma unroll
        for (int j = 0; j < rows; j++) {
            uint64_t own = 0;
#pragma unroll
            for (int i = 0; i < vw; i++) own = Add::combine(own, x[j][i]);
            const uint64_t end = Add::combine(begin, warp_sum(own));
            uint32_t n[vw] = {};
            if (begin < hi && end > lo) {
                const uint64_t before = shuffle_up(warp_scan<Add>(own, lane), 1);
                uint64_t from = lane > 0 ? Add::combine(begin, before) : begin;
#pragma unroll
                for (int i = 0; i < vw; i++) {
                    const uint64_t to = Add::combine(from, x[j][i]);
                    const uint64_t first = maximum(from, lo), stop = minimum(to, hi);
                    n[i] = first < stop ? uint32_t(stop - first) : 0;
                    from = to;
                }
            }
            store(j, n);
            begin = end;
        }
        return unsigned(minimum(begin, hi) - lo);
    }

    static __device__ __forceinline__ void store_row(uint32_t a, int j, const uint32_t (&n)[vw], unsigned lane) {
        uint32_t w[vw / 2];
#pragma unroll
        for (int i = 0; i < vw; i += 2) w[i / 2] = __byte_perm(n[i], n[i + 1], 0x5410);
        store_shared_if<vw * 2>(1, a + (j * warp_size + lane) * vw * 2, w[0], w[vw / 2 - 1]);
    }
};

// SumBack is LookBack for sums, which need no order: each of so many threads adds up the
// totals of every threads-th tile, ahead of them at once, so that all that other blocks
// take in a turn are on their way.
template <int threads, int ahead>
struct SumBack {
    using Add = SaturatingSum<uint64_t>;
    TileTotals<uint64_t> totals;
    uint64_t next;  // this thread's tile; at first its number

    // pass returns the sum of the totals of this thread's tiles before tile that it has
    // not passed before.
    __device__ __forceinline__ uint64_t pass(uint64_t tile) {
        uint64_t sum = 0;
        while (next < tile) {
            TileTotals<uint64_t>::Pending p[ahead];
#pragma unroll
            for (int k = 0; k < ahead; k++) {
                if (next + k * threads < tile) p[k].request(totals, next + k * threads);
            }
            const uint64_t first = next;
#pragma unroll
            for (int k = 0; k < ahead; k++) {
                if (first + k * threads < tile) {
                    sum = Add::combine(sum, p[k].wait());
                    next += threads;
                }
            }
        }
        return sum;
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

// store_bits stores a value, store_bits_if does if keep is not zero.
template <class V>
__device__ __forceinline__ void store_bits(uint32_t a, Bits<V> v) {
    store_shared_bits<sizeof(V)>(a, uint32_t(v), uint32_t(uint64_t(v) >> 32));
}
template <class V>
__device__ __forceinline__ void store_bits_if(unsigned keep, uint32_t a, Bits<V> v) {
    store_shared_if<sizeof(V)>(keep, a, uint32_t(v), uint32_t(uint64_t(v) >> 32));
}

// Values are a lane's values of a part, vw of each row like its lengths, on their way to
// shared memory.
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
    __device__ __forceinline__ void store(uint32_t a, unsigned lane) const {
#pragma unroll
        for (int j = 0; j < rows; j++) {
            const uint32_t at = a + (j * warp_size + lane) * bytes;
            if constexpr (bytes <= 8) {
                store_shared_if<bytes>(1, at, word[j][0], word[j][(bytes + 3) / 4 - 1]);
            } else {
#pragma unroll
                for (int i = 0; i < bytes / 4; i += 4) {
                    const uint32_t w[4] = {word[j][i], word[j][i + 1], word[j][i + 2], word[j][i + 3]};
                    store_shared(at + 4 * i, w);
                }
            }
        }
    }
};

// Elements are a vector of the output, at first changes.
template <class V>
struct Elements {
    static constexpr int in_word = 4 / sizeof(V);  // 0 where an element is two
    uint32_t word[4];

    // scan_words makes each element the XOR of those of its word up to it. Where no word
    // has two changes, it is a multiplication, in which nothing is carried.
    template <bool tight>
    __device__ __forceinline__ void scan_words() {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if constexpr (!tight) {
                word[i] *= in_word == 4 ? 0x01010101u : 0x00010001u;
            } else {
                if constexpr (in_word == 4) word[i] ^= word[i] << 8;
                word[i] ^= word[i] << 16;
            }
        }
    }
    // last is the XOR of all, in an element's highest bits.
    __device__ __forceinline__ Bits<V> last() const {
        if constexpr (sizeof(V) == 8) {
            return uint64_t(word[3] ^ word[1]) << 32 | (word[2] ^ word[0]);
        } else {
            return word[0] ^ word[1] ^ word[2] ^ word[3];
        }
    }
    // chain continues the scans of words, before which is value k of v, of those that a
    // word has.
    __device__ __forceinline__ void chain(Bits<V> v, int k = 0) {
        if constexpr (sizeof(V) == 8) {
            word[0] ^= uint32_t(v);
            word[1] ^= uint32_t(v >> 32);
            word[2] ^= word[0];
            word[3] ^= word[1];
        } else {
            uint32_t before = sizeof(V) == 4 ? v : __byte_perm(v, 0, sizeof(V) == 1 ? 0x1111 * k : 0x1010 + 0x2222 * k);
#pragma unroll
            for (int i = 0; i < 4; i++) {
                word[i] ^= before;
                before = sizeof(V) == 4 ? word[i] : __byte_perm(word[i], 0, sizeof(V) == 1 ? 0x3333 : 0x3232);
            }
        }
    }
};

// make_changes makes the values in word XOR the ones before them; last is before the
// first.
template <class V, int words>
__device__ __forceinline__ void make_changes(uint32_t (&word)[words], Bits<V> last) {
    if constexpr (sizeof(V) == 8) {
#pragma unroll
        for (int q = words - 1; q >= 2; q--) word[q] ^= word[q - 2];
        word[0] ^= uint32_t(last);
        word[1] ^= uint32_t(last >> 32);
    } else {
#pragma unroll
        for (int q = words - 1; q >= 0; q--) {
            const uint32_t before = q > 0 ? word[q - 1] : last << (32 - 8 * sizeof(V));
            word[q] ^= sizeof(V) == 4 ? before : __byte_perm(before, word[q], sizeof(V) == 1 ? 0x6543 : 0x5432);
        }
    }
}

template <bool v>
struct Constant {
    __device__ constexpr operator bool() const { return v; }
};

// Window is the part of the output that a warp has in shared memory: changes among
// zeros. Places count from vectors, which is at a 16-byte boundary of memory and lies lead
// elements before the output; it ends at end.
template <class V, int vectors_held>
struct Window {
    static constexpr unsigned vw = vector_width<V>, row = warp_size * vw, width = vectors_held * row;
    uint32_t memory, edges;
    V *vectors;
    unsigned lead, end;
    unsigned begin = 0;  // a multiple of vw
    bool begun = false;  // runs begin in the window, and
    bool tight = false;  // more than one perhaps in a word
    Bits<V> value = 0;   // of the last run that begins before the window

    // Narrow values of several vectors are scanned in one word.
    static constexpr int together = sizeof(V) < 4 ? 4 / sizeof(V) : 1;
    static_assert(vectors_held % together == 0, "whole words of vectors");

    // flush writes the window, more than which is left of the output, and goes on to the
    // next.
    __device__ __forceinline__ void flush(unsigned lane) {
        __syncwarp();
#pragma unroll
        for (int j = 0; j < vectors_held; j += together) write<true>(j, lane);
        __syncwarp();
        begin += width;
        begun = tight = false;
    }
    // flush_last writes the last window.
    __device__ __forceinline__ void flush_last(unsigned lane) {
        __syncwarp();
#pragma unroll
        for (int j = 0; j < vectors_held; j += together) {
            if (begin + j * row >= end) break;
            if (begin + (j + together) * row <= end) {
                write<true>(j, lane);
            } else {
                write<false>(j, lane);
            }
        }
        __syncwarp();
    }
    // write writes a lane's vectors from number j on; inside says that the output does
    // not end in them.
    template <bool inside>
    __device__ __forceinline__ void write(int j, unsigned lane) {
        constexpr int bits = 8 * sizeof(V);
        const auto behind = [=](int k) { return !inside && begin + (j + k) * row >= end; };
        Elements<V> x[together];
#pragma unroll
        for (int k = 0; k < together; k++) {
            x[k] = {};
            if (behind(k)) continue;
            const uint32_t a = memory + ((j + k) * warp_size + lane) * 16, zero[4] = {};
            load_shared(x[k].word, a);
            store_shared(a, zero);
        }
        if constexpr (Elements<V>::in_word > 1) {
            if (tight) {
#pragma unroll
                for (int k = 0; k < together; k++) x[k].template scan_words<true>();
            } else {
#pragma unroll
                for (int k = 0; k < together; k++) x[k].template scan_words<false>();
            }
        }
        Bits<V> own = 0;
#pragma unroll
        for (int k = 0; k < together; k++) {
            const Bits<V> last = x[k].last();
            if constexpr (together == 1) {
                own = last;
            } else if constexpr (together == 2) {
                own = k == 0 ? last >> 16 : __byte_perm(own, last, 0x7610);
            } else {
                own = k == 0 ? last >> 24 : __byte_perm(own, last, k == 1 ? 0x3270 : k == 2 ? 0x3710 : 0x7210);
            }
        }
        Bits<V> base = xor_lanes(own), all = shuffle(base, warp_size - 1);
        base ^= own;
        if constexpr (together == 1) {
            base ^= value;
            value ^= all;
        } else {
#pragma unroll
            for (int shift = bits; shift < 32; shift *= 2) all ^= all << shift;
            base ^= all << bits ^ __byte_perm(value, 0, bits == 8 ? 0x0000 : 0x1010);
            value ^= all >> (32 - bits);
        }
#pragma unroll
        for (int k = 0; k < together; k++) {
            if (behind(k)) break;
            const unsigned place = begin + (j + k) * row + lane * vw;
            x[k].chain(base, k);
            if ((inside && j + k > 0) || (place >= lead && (inside || place + vw <= end))) {
                store_wide(reinterpret_cast<uint32_t *>(vectors + place), x[k].word);
            } else if (inside || place < end) {
                store_shared(edges + (place < lead ? 0 : 16), x[k].word);
            }
        }
    }
    // fill writes value up to the vector of place next, where none of the runs begins.
    __device__ __forceinline__ void fill(unsigned next, unsigned lane) {
        next -= next % vw;
        Elements<V> x = {};
        x.chain(value);
        V *to = vectors + begin + lane * vw;
        const auto store = [&](int j) { store_wide(reinterpret_cast<uint32_t *>(to + j * int(row)), x.word); };
        unsigned place = begin + lane * vw;
        for (; place + 3 * row < next; place += 4 * row, to += 4 * row) {
#pragma unroll
            for (int j = 0; j < 4; j++) store(j);
        }
        for (; place < next; place += row, to += row) store(0);
        begin = next;
    }
    // finish writes the rest. The first and the last vector may be others' as well: of
    // those a lane writes an element.
    __device__ __forceinline__ void finish(unsigned lane) {
        flush_last(lane);
        const unsigned half = lane % 16, tail = end % vw;
        const bool head = lane < 16;
        if (half < vw && (head ? lead > 0 && half >= lead && half < end : half < tail && (lead == 0 || end > vw))) {
            V v[1];
            load_shared(v, edges + (head ? 0 : 16) + half * unsigned(sizeof(V)));
            vectors[(head ? 0 : end - tail) + half] = v[0];
        }
        __syncwarp();
    }
};

// expand writes the runs in memory, a part's, to out[0, size), size > 0, by way of the
// memory's window.
template <class V, class Memory>
__device__ __forceinline__ void expand(V *out, unsigned size, const Memory &memory, unsigned lane) {
    constexpr unsigned runs = Memory::runs;
    constexpr int each = minimum<int>(decode_each<V>, runs / warp_size);
    const auto bytes = [](uint32_t element) { return element * unsigned(sizeof(V)); };

    const unsigned lead = reinterpret_cast<uintptr_t>(out) / sizeof(V) % vector_width<V>;
    Window<V, Memory::window_vectors> window{memory.window, memory.edges(), out - lead, lead, size + lead};
    constexpr unsigned width = window.width;
    Bits<V> before = 0;  // of the last run that begins before the step

    __syncwarp();
    unsigned begin = lead;  // of the step
#pragma unroll 1
    for (unsigned s = 0; s < runs; s += warp_size * each) {
        uint32_t n[each], word[each * sizeof(V) / 4];
        memory.load(n, s + lane * each);
        uint32_t sum = 0, least = ~0u;
#pragma unroll
        for (int i = 0; i < each; i++) {
            sum += n[i];
            least = minimum(least, n[i]);
        }
        const uint32_t inclusive = sum_lanes(sum);
        const unsigned stop = begin + shuffle(inclusive, warp_size - 1), first = begin + inclusive - sum;
        if (stop == begin) continue;
        const bool full = !__any_sync(full_warp, least == 0), tight = least < 4 / sizeof(V);
        load_shared(word, memory.values() + bytes(s + lane * each));
        const auto at = [&](int i) -> Bits<V> {
            if constexpr (sizeof(V) == 8) {
                return uint64_t(word[2 * i + 1]) << 32 | word[2 * i];
            } else {
                const int byte = i * sizeof(V);
                return word[byte / 4] >> (8 * (byte % 4));
            }
        };
        // word becomes the changes, from the run before that is not empty.
        if (full) {
            const Bits<V> own = at(each - 1), near = shuffle_up(own, 1);
            make_changes<V>(word, lane > 0 ? near : before);
            before = shuffle(own, warp_size - 1);
        } else {
            Bits<V> own = 0;  // of the lane's last run that is not empty
#pragma unroll
            for (int i = 0; i < each; i++) own = n[i] != 0 ? at(i) : own;
            const unsigned with = __ballot_sync(full_warp, sum != 0), less = with & ((1u << lane) - 1);
            const Bits<V> near = shuffle(own, latest(less));
            Bits<V> last = less != 0 ? near : before;
            before = shuffle(own, latest(with));
            V change[each];
#pragma unroll
            for (int i = 0; i < each; i++) {
                change[i] = V(at(i) ^ last);
                last = n[i] != 0 ? at(i) : last;
            }
            copy_bytes(word, change, sizeof(word));
        }
        for (;;) {
            unsigned place = first - window.begin;
            if (full && begin >= window.begin && stop <= window.begin + width) {
#pragma unroll
                for (int i = 0; i < each; i++) {
                    store_bits<V>(memory.window + bytes(place), at(i));
                    place += n[i];
                }
                window.begun = window.tight = true;
            } else {
                bool any = false;
                const auto store = [&](auto empties) PTXRUN_INLINE {
#pragma unroll
                    for (int i = 0; i < each; i++) {
                        const bool here = place < width && (!empties || n[i] != 0);
                        store_bits_if<V>(here, memory.window + bytes(place), at(i));
                        any |= here;
                        place += n[i];
                    }
                };
                if (full) {
                    store(Constant<false>());
                } else {
                    store(Constant<true>());
                }
                window.begun |= __any_sync(full_warp, any) != 0;
                if constexpr (Elements<V>::in_word > 1) window.tight |= __any_sync(full_warp, any && tight) != 0;
            }
            if (stop <= window.begin + width) break;
            if (window.begun) {
                window.flush(lane);
                continue;
            }
            // Up to the next run, or the step's end, there is but one value.
            unsigned next = stop;
            place = first;
#pragma unroll
            for (int i = 0; i < each; i++) {
                if (place >= window.begin && n[i] != 0) next = minimum(next, place);
                place += n[i];
            }
            window.fill(shuffle(warp_reduce<Min<uint32_t>>(next), 0), lane);
        }
        begin = stop;
    }
    window.finish(lane);
}

// rle_decode_pass writes the elements from number from on to out[0, size), as far
// as there are so many, and stores the lengths' saturated sum in *total. It needs
// dynamic shared memory for decode_parts PartMemorys.
template <class V, class L>
__device__ __forceinline__ void rle_decode_pass(const V *values, const L *lengths, uint64_t runs, V *out, uint64_t from, uint64_t size, uint64_t *total,
                                                DecodeState *state) {
    using Add = SaturatingSum<uint64_t>;
    using Memory = PartMemory<V, L>;
    constexpr int rows = decode_rows<V>, part_runs = decode_part<V, L>;
    constexpr uint64_t chunk = chunk_bytes / sizeof(V), most = part_bytes / sizeof(V);
    alignas(16) extern __shared__ unsigned char dynamic_shared[];
    __shared__ uint64_t sums[decode_parts], passed[decode_parts], begins[decode_parts];
    __shared__ uint64_t ticket, listed;
    const unsigned lane = threadIdx.x % warp_size, part = threadIdx.x / warp_size;
    const Memory memory{shared_address(dynamic_shared) + part * Memory::bytes};
    const uint64_t tiles = ceil_div<uint64_t>(runs, decode_pass_tile<V, L>), end = from + size;
    const LargeParts large(state, tiles, decode_parts);
    SumBack<decode_pass_block, decode_ahead> look_back{{reinterpret_cast<uint64_t *>(state + 1), Pass{}.mark()}, threadIdx.x};
    uint64_t prefix = 0;  // of the tile, in the first warp

#pragma unroll
    for (int k = 0; k < Memory::window_vectors; k++) {
        const uint32_t zero[4] = {};
        store_shared(memory.window + (k * warp_size + lane) * 16, zero);
    }
    const auto held = [=](uint64_t first) { return first < runs ? unsigned(minimum<uint64_t>(part_runs, runs - first)) : 0; };
    for (;;) {
        if (threadIdx.x == 0) ticket = atomic_add(&state->ticket, uint64_t(1));
        __syncthreads();
        const uint64_t tile = ticket, first = (tile * decode_parts + part) * part_runs;
        if (tile >= tiles) break;
        uint64_t sum;
        {
            Lengths<L, rows> x;
            Values<V, vector_width<L>, rows> v;
            x.load(lengths + first, held(first), lane);
            if (size > 0) v.load(values + first, held(first), lane);
            x.store(memory.lengths(), lane);
            sum = x.sum();
            if (size > 0) v.store(memory.values(), lane);
        }
        if (lane == 0) sums[part] = sum;
        __syncthreads();
        if (part == 0) {
            const uint64_t all = warp_sum(lane < decode_parts ? sums[lane] : 0);
            if (lane == 0) look_back.totals.publish(tile, all);
        }
        const uint64_t behind = warp_sum(look_back.pass(tile));
        if (lane == 0) passed[part] = behind;
        __syncthreads();
        const auto at_once = [=](uint64_t b, uint64_t e) { return b >= from && e <= end && e - b <= most; };
        if (part == 0) {
            // A lane a part.
            prefix = Add::combine(prefix, warp_sum(lane < decode_parts ? passed[lane] : 0));
            const uint64_t inclusive = warp_scan<Add>(lane < decode_parts ? sums[lane] : 0, lane), less = shuffle_up(inclusive, 1);
            const uint64_t begin = lane > 0 ? Add::combine(prefix, less) : prefix, stop = Add::combine(prefix, inclusive);
            const uint64_t lo = maximum(begin, from), hi = minimum(stop, end);
            if (lane < decode_parts) begins[lane] = begin;
            large.list(state, lo < hi && !at_once(begin, stop) ? uint32_t(ceil_div(hi - lo, chunk)) : 0, tile * decode_parts + lane, begin, lane);
            if (lane == 0) atomic_add(&state->placed, uint64_t(1));
            if (tile == tiles - 1 && lane == warp_size - 1) *total = stop;
        }
        __syncthreads();
        const uint64_t begin = begins[part];
        if (sum > 0 && at_once(begin, Add::combine(begin, sum))) expand(out + (begin - from), unsigned(sum), memory, lane);
    }

    if (threadIdx.x == 0) {
        while (load_relaxed(&state->placed) < tiles) {}
        fence_acq_rel();
        listed = load_relaxed(&state->large);
    }
    __syncthreads();
    const uint64_t parts = listed >> 32, chunks = uint32_t(listed);
    for (uint64_t c = uint64_t(blockIdx.x) * decode_parts + part; c < chunks; c += uint64_t(gridDim.x) * decode_parts) {
        const uint64_t e = warp_upper_bound(large.first_chunk, parts, c, lane) - 1;
        const uint64_t first = large.part[e] * part_runs, begin = large.begin[e];
        const uint64_t lo = maximum(begin, from) + (c - large.first_chunk[e]) * chunk;
        Lengths<L, rows> x;
        Values<V, vector_width<L>, rows> v;
        x.load(lengths + first, held(first), lane);
        v.load(values + first, held(first), lane);
        v.store(memory.values(), lane);
        const auto store = [=](int j, const auto &n) { x.store_row(memory.lengths(), j, n, lane); };
        expand(out + (lo - from), x.clip(begin, lo, minimum(lo + chunk, end), lane, store), memory, lane);
    }
}

}  // namespace ptxrun
