#pragma once

#include "bulk.cuh"
#include "rle_decode.cuh"

// Run-length decoding by bulk copies (sm_90). A block's warps have roles, as in
// scan_bulk: one loads the runs of tiles into stages; reducers sum up pieces and publish
// the tiles' totals; a placer waits for what precedes a tile and says where each part goes;
// writers, in groups of a warp a part, write the tiles in turn.
//
// What precedes the tiles is found by one warp of all, the scanner, in the block that
// comes first. A look-back by every block would load every total once a block, and takes
// its warp longer than the writers need: 690 GB/s of bytes for 800 at runs of 2, on an H200.

#if __CUDA_ARCH__ >= 900

namespace ptxrun {

// The shape: GB/s of output at a mean run of 2 on an H200 808, with 2 groups and 10 stages
// 679, with 3 parts, 4 groups and 12 stages 782, with larger windows and 6 stages 483
// (bench/NOTES.md).
constexpr int decode_bulk_parts = 4;
constexpr int decode_bulk_groups = 3;
constexpr int decode_bulk_stages = 9;
constexpr int decode_bulk_reducers = 3;
constexpr int decode_bulk_scanned = 4;  // totals that a lane of the scanner takes at once
constexpr int decode_bulk_shared = 227 << 10;  // all that there is for a block
constexpr int decode_bulk_chunk = 64 << 10;  // bytes
constexpr int decode_bulk_part_bytes = 96 << 10;
constexpr int decode_bulk_writers = decode_bulk_parts * decode_bulk_groups;
constexpr int decode_bulk_single = 3;  // a loader, a placer, a scanner
constexpr int decode_bulk_block = (decode_bulk_single + decode_bulk_reducers + decode_bulk_writers) * warp_size;
static_assert(decode_bulk_reducers <= decode_bulk_groups, "the loader ends for as many as there are groups");

// A part of much output is given to other warps by pieces, the runs of a step or a row.
template <class V, class L>
constexpr int decode_piece_rows = maximum<int>(1, decode_each<V> / vector_width<L>);
template <class V, class L>
constexpr int decode_piece = decode_piece_rows<V, L> * warp_size * vector_width<L>;
// A part is as many pieces as 5 KB hold.
template <class V, class L>
constexpr int decode_pieces = (5 << 10) / (decode_piece<V, L> * int(sizeof(V) + sizeof(L)));
template <class V, class L>
constexpr int decode_bulk_part = decode_pieces<V, L> * decode_piece<V, L>;
template <class V, class L>
constexpr int decode_bulk_tile = decode_bulk_parts * decode_bulk_part<V, L>;
// A window has 8 vectors of a lane if there is room for them.
template <class V, class L>
constexpr int decode_bulk_window = decode_bulk_stages * decode_bulk_tile<V, L> * int(sizeof(V) + sizeof(L)) + decode_bulk_writers * (8 * 512) + 3072 <= decode_bulk_shared ? 8 : 4;

template <class V, class L>
struct DecodeStages {
    static constexpr int part = decode_bulk_part<V, L>;
    alignas(128) unsigned char lengths[decode_bulk_stages][decode_bulk_parts][part * sizeof(L)];
    alignas(128) unsigned char values[decode_bulk_stages][decode_bulk_parts][part * sizeof(V)];
    alignas(16) unsigned char window[decode_bulk_writers][decode_bulk_window<V, L> * warp_size * 16];
    alignas(16) unsigned char edges[decode_bulk_writers][32];
    alignas(16) unsigned char ends[decode_bulk_stages][decode_bulk_parts * decode_pieces<V, L> + 1][8];  // of pieces in the tile, behind a 0
    alignas(16) unsigned char begin[decode_bulk_stages][decode_bulk_parts][8];  // where a part's output begins, and
    alignas(16) unsigned char size[decode_bulk_stages][decode_bulk_parts][4];   // how much it is, or 0 if it is not to be written at once
    uint64_t index[decode_bulk_stages];
    uint64_t first;  // the block's first ticket
    Barrier full[decode_bulk_stages];   // the runs are there
    Barrier found[decode_bulk_stages];  // the pieces' ends are there
    Barrier ready[decode_bulk_stages];  // their begins and sizes are there
    Barrier empty[decode_bulk_stages];  // the writers are done with it
};

// StagedRuns are so many in a stage, and a writer's window.
template <class V, class L, int count>
struct StagedRuns {
    static constexpr int runs = count, window_vectors = decode_bulk_window<V, L>;
    uint32_t window, edge_vectors, lengths, staged_values;

    __device__ __forceinline__ uint32_t values() const { return staged_values; }
    __device__ __forceinline__ uint32_t edges() const { return edge_vectors; }
    // load loads the lengths of consecutive runs from number first on, below 2^32.
    template <int each>
    __device__ __forceinline__ void load(uint32_t (&n)[each], unsigned first) const {
        constexpr int words = each * sizeof(L) / 4, vector = minimum(4, words);
#pragma unroll
        for (int i = 0; i < words; i += vector) {
            uint32_t w[vector];
            load_shared(w, lengths + first * unsigned(sizeof(L)) + 4 * i);
#pragma unroll
            for (int k = 0; k < vector; k += sizeof(L) / 4) n[(i + k) * 4 / sizeof(L)] = w[k];
        }
    }
    // store makes values and lengths those of held runs as far as they lie in
    // [lo, hi), less than 2^32; the first begins at begin. It returns how much that is.
    __device__ __forceinline__ unsigned store(const V *v, const L *n, unsigned held, uint64_t begin, uint64_t lo, uint64_t hi, unsigned lane) const {
        constexpr int vw = vector_width<L>, rows = runs / (warp_size * vw);
        Values<V, vw, rows> value;
        Lengths<L, rows> length;
        length.load(n, held, lane);
        value.load(v, held, lane);
        value.store(staged_values, lane);
        return length.clip(begin, lo, hi, lane, [=](int j, const uint32_t (&clipped)[vw]) {
            uint32_t w[4] = {};
#pragma unroll
            for (int i = 0; i < vw; i++) w[i * sizeof(L) / 4] = clipped[i];
            store_shared(lengths + (j * warp_size + lane) * 16, w);
        });
    }
};

// TilePlaces are the tiles' totals, which a scanner replaces by what precedes each of them.
struct TilePlaces {
    TileTotals<uint64_t> totals;

    __device__ __forceinline__ void publish(uint64_t tile, uint64_t total) const { store(tile, totals.mark, total); }
    // wait returns what precedes a tile.
    __device__ __forceinline__ uint64_t wait(uint64_t tile) const {
        uint64_t low, high;
        do load_relaxed(low, high, totals.status + tile * 2);
        while (!marked(low, high, totals.mark | 1));
        return high << 32 | uint32_t(low);
    }
    // scan is the scanner's role, a warp's: it takes the totals that are there, up to the
    // first that is not, each of a lane at once, until there are no more tiles. It returns
    // the sum of all.
    template <int each>
    __device__ __forceinline__ uint64_t scan(uint64_t tiles, unsigned lane) const {
        uint64_t prefix = 0;
        uint64_t low[each], high[each], next_low[each], next_high[each];
        const auto request = [&](uint64_t (&low)[each], uint64_t (&high)[each], uint64_t own) PTXRUN_INLINE {
#pragma unroll
            for (int k = 0; k < each; k++) {
                low[k] = high[k] = 0;
                if (own + k < tiles) load_relaxed(low[k], high[k], totals.status + (own + k) * 2);
            }
        };
        request(low, high, lane * each);
        for (uint64_t first = 0; first < tiles;) {
            const uint64_t own = first + lane * each;
            request(next_low, next_high, own + warp_size * each);  // what follows if all are there
            unsigned there = 0;
            bool before = true;
#pragma unroll
            for (int k = 0; k < each; k++) {
                before &= marked(low[k], high[k], totals.mark);
                there += before;
            }
            const unsigned gaps = __ballot_sync(full_warp, there < each);
            if ((gaps & ((1u << lane) - 1)) != 0) there = 0;
            uint64_t total[each], bits = 0;
#pragma unroll
            for (int k = 0; k < each; k++) {
                total[k] = k < int(there) ? high[k] << 32 | uint32_t(low[k]) : 0;
                bits |= total[k];
            }
            static_assert(each * warp_size <= 1 << 8, "totals below 2^24 add up to a word");
            if (!__any_sync(full_warp, bits >> 24 != 0) && prefix >> 63 == 0) {
                uint32_t begin[each], sum = 0;
#pragma unroll
                for (int k = 0; k < each; k++) {
                    begin[k] = sum;
                    sum += uint32_t(total[k]);
                }
                const uint32_t inclusive = sum_lanes(sum);
#pragma unroll
                for (int k = 0; k < each; k++) {
                    if (k < int(there)) store(own + k, totals.mark | 1, prefix + (inclusive - sum + begin[k]));
                }
                prefix += shuffle(inclusive, warp_size - 1);
            } else {
                using Add = SaturatingSum<uint64_t>;
                uint64_t sum = 0;
#pragma unroll
                for (int k = 0; k < each; k++) sum = Add::combine(sum, total[k]);
                const uint64_t inclusive = warp_scan<Add>(sum, lane), less = shuffle_up(inclusive, 1);
                uint64_t begin = lane > 0 ? Add::combine(prefix, less) : prefix;
#pragma unroll
                for (int k = 0; k < each; k++) {
                    if (k < int(there)) store(own + k, totals.mark | 1, begin);
                    begin = Add::combine(begin, total[k]);
                }
                prefix = Add::combine(prefix, shuffle(inclusive, warp_size - 1));
            }
            first += warp_reduce<Sum<uint32_t>>(there);
            if (gaps == 0) {
                copy_bytes(low, next_low, sizeof(low));
                copy_bytes(high, next_high, sizeof(high));
            } else {
                request(low, high, first + lane * each);
            }
        }
        return prefix;
    }

  private:
    static __device__ __forceinline__ bool marked(uint64_t low, uint64_t high, uint32_t mark) { return uint32_t(low >> 32) == mark && uint32_t(high >> 32) == mark; }
    __device__ __forceinline__ void store(uint64_t tile, uint32_t mark, uint64_t v) const {
        store_relaxed(totals.status + tile * 2, uint64_t(mark) << 32 | uint32_t(v), uint64_t(mark) << 32 | v >> 32);
    }
};

// DecodeTickets are those of a block. The block that comes first, with ticket 0, takes no
// more when others have come: it scans totals, for which they all wait.
struct DecodeTickets {
    DecodeState *state;
    uint64_t first;
    uint64_t taken = 0;

    __device__ __forceinline__ uint64_t take_ticket() {
        if (first == 0 && taken > 0 && load_relaxed(&state->ticket) > taken) return ~uint64_t(0);
        return taken++ == 0 ? first : atomic_add(&state->ticket, uint64_t(1));
    }
};

// rle_decode_bulk does what rle_decode_pass does, for values and lengths aligned to 16
// bytes. It needs dynamic shared memory for DecodeStages.
template <class V, class L>
__device__ __forceinline__ void rle_decode_bulk(const V *values, const L *lengths, uint64_t runs, V *out, uint64_t from, uint64_t size, uint64_t *total,
                                                DecodeState *state) {
    using Add = SaturatingSum<uint64_t>;
    using Stages = DecodeStages<V, L>;
    constexpr int part_runs = decode_bulk_part<V, L>, parts = decode_bulk_parts, count = decode_bulk_stages;
    constexpr int piece_runs = decode_piece<V, L>, part_pieces = decode_pieces<V, L>, pieces = parts * part_pieces;
    static_assert(pieces < warp_size, "a lane a piece, and one for the 0 before");
    constexpr uint64_t chunk = decode_bulk_chunk / sizeof(V), most = decode_bulk_part_bytes / sizeof(V);
    alignas(128) extern __shared__ unsigned char dynamic_shared[];
    auto &stages = *reinterpret_cast<Stages *>(dynamic_shared);
    static_assert(sizeof(Stages) <= decode_bulk_shared, "what the launch gives");
    const unsigned lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size;
    const uint64_t tiles = ceil_div<uint64_t>(runs, decode_bulk_tile<V, L>), end = from + size;
    const LargeParts large(state, tiles, pieces);
    const auto held_of_tile = [=](uint64_t tile) {
        return unsigned(minimum<uint64_t>(decode_bulk_tile<V, L>, runs - tile * decode_bulk_tile<V, L>));
    };

    if (threadIdx.x == 0) {
        for (int s = 0; s < count; s++) {
            stages.full[s].init(1);
            stages.found[s].init(warp_size);
            stages.ready[s].init(warp_size);
            stages.empty[s].init(parts * warp_size);
        }
        fence_barriers();
        stages.first = atomic_add(&state->ticket, uint64_t(1));
    }
    __syncthreads();
    const uint64_t first_ticket = stages.first;

    if (warp == 0) {
        if (lane > 0) return;
        // A tile that waits for a stage would keep all others without a place.
        load_tiles<count, decode_bulk_groups, false>(
            stages, DecodeTickets{state, first_ticket}, tiles,
            [&](int s, uint64_t tile) {
                const uint64_t first = tile * decode_bulk_tile<V, L>;
                const unsigned held = held_of_tile(tile);
                const unsigned length_bytes = fetch_rest(stages.lengths[s][0], lengths + first, held * sizeof(L));
                const unsigned value_bytes = size > 0 ? fetch_rest(stages.values[s][0], values + first, held * sizeof(V)) : 0;
                stages.full[s].announce(length_bytes + value_bytes);
                if (length_bytes > 0) bulk_load(stages.lengths[s], lengths + first, length_bytes, stages.full[s]);
                if (value_bytes > 0) bulk_load(stages.values[s], values + first, value_bytes, stages.full[s]);
            },
            [&](int s) { stages.full[s].arrive(); });
        return;
    }

    const auto ends_of = [&](unsigned s) { return shared_address(stages.ends) + s * unsigned(sizeof(stages.ends[0])); };
    const TilePlaces places{{reinterpret_cast<uint64_t *>(state + 1), Pass{}.mark()}};

    if (warp == 1) {
        uint64_t placed = 0;
        over_stages<count, 1>(stages, tiles, 0, [&](unsigned s, unsigned parity, uint64_t tile) PTXRUN_INLINE {
            const uint64_t prefix = size > 0 ? places.wait(tile) : 0;
            stages.found[s].wait(parity);
            // A lane a part.
            const auto place = [&](unsigned piece) { return Add::combine(prefix, get_shared<uint64_t>(ends_of(s) + piece * 8)); };
            const unsigned part = minimum<unsigned>(lane, parts - 1);
            const uint64_t begin = place(part * part_pieces), stop = place((part + 1) * part_pieces);
            const bool at_once = begin >= from && stop <= end && stop - begin <= most;
            if (lane < parts) {
                put_shared(shared_address(stages.begin[s]) + part * 8, begin);
                put_shared(shared_address(stages.size[s]) + part * 4, at_once ? uint32_t(stop - begin) : 0);
            }
            const unsigned others = __ballot_sync(full_warp, !at_once && begin < end && stop > from);
            if (others != 0) {
                // A lane a piece. The last chunk is of half to one and a half.
                const unsigned piece = minimum<unsigned>(lane, pieces - 1);
                const uint64_t begin = place(piece), lo = maximum(begin, from), hi = minimum(place(piece + 1), end);
                const bool other = lane < pieces && lo < hi && (others >> piece / part_pieces & 1) != 0;
                large.list(state, other ? uint32_t(maximum<uint64_t>((hi - lo + chunk / 2) / chunk, 1)) : 0, tile * pieces + lane, begin, lane);
            }
            stages.ready[s].arrive();
            placed++;
        });
        if (lane == 0 && placed > 0) {
            fence_acq_rel();
            atomic_add(&state->placed, placed);
        }
    } else if (warp == 2) {
        if (first_ticket == 0) {
            const uint64_t sum = places.scan<decode_bulk_scanned>(tiles, lane);
            if (lane == 0) *total = sum;
        }
    } else if (warp < decode_bulk_single + decode_bulk_reducers) {
        over_stages<count, decode_bulk_reducers>(stages, tiles, warp - decode_bulk_single, [&](unsigned s, unsigned, uint64_t tile) PTXRUN_INLINE {
            const unsigned held = held_of_tile(tile);
            const uint32_t at = shared_address(stages.lengths) + s * unsigned(sizeof(stages.lengths[0]));
            if (held < decode_bulk_tile<V, L>) {
                // Behind the last run are empty ones.
                const uint32_t values_at = shared_address(stages.values) + s * unsigned(sizeof(stages.values[0]));
                for (unsigned k = held + lane; k < decode_bulk_tile<V, L>; k += warp_size) {
                    put_shared(at + k * unsigned(sizeof(L)), L(0));
                    put_shared(values_at + k * unsigned(sizeof(V)), V(0));
                }
                __syncwarp();
            }
            uint64_t sum = 0;  // of the piece that has the lane's number
#pragma unroll
            for (unsigned p = 0; p < unsigned(parts); p++) {
                Lengths<L, part_runs / (warp_size * vector_width<L>)> x;
                x.load_shared(at + p * unsigned(sizeof(stages.lengths[0][0])), lane);
                uint64_t own[part_pieces];
                x.sums(own);
#pragma unroll
                for (unsigned k = 0; k < part_pieces; k++) {
                    if (lane == p * part_pieces + k) sum = own[k];
                }
            }
            const uint64_t inclusive = scan_sums(sum, lane);
            if (lane == pieces - 1) places.publish(tile, inclusive);
            if (lane < pieces) put_shared(ends_of(s) + (lane + 1) * 8, inclusive);
            if (lane == pieces) put_shared(ends_of(s), uint64_t(0));
            stages.found[s].arrive();
        });
    } else {
        const unsigned writer = warp - decode_bulk_single - decode_bulk_reducers, group = writer / parts, part = writer % parts;
        const uint32_t window = shared_address(stages.window) + writer * unsigned(sizeof(stages.window[0]));
        const uint32_t edges = shared_address(stages.edges) + writer * unsigned(sizeof(stages.edges[0]));
        const auto staged = [&](unsigned s) {
            const unsigned k = s * parts + part;
            return StagedRuns<V, L, part_runs>{window, edges, shared_address(stages.lengths) + k * unsigned(sizeof(stages.lengths[0][0])),
                                    shared_address(stages.values) + k * unsigned(sizeof(stages.values[0][0]))};
        };
#pragma unroll
        for (int k = 0; k < decode_bulk_window<V, L>; k++) {
            const uint32_t zero[4] = {};
            store_shared(window + (k * warp_size + lane) * 16, zero);
        }
        over_stages<count, decode_bulk_groups>(stages, tiles, group, [&](unsigned s, unsigned parity, uint64_t) PTXRUN_INLINE {
            stages.ready[s].wait(parity);
            const uint64_t begin = get_shared<uint64_t>(shared_address(stages.begin[s]) + part * 8);
            const uint32_t own = get_shared<uint32_t>(shared_address(stages.size[s]) + part * 4);
            if (own > 0) expand(out + (begin - from), own, staged(s), lane);
            stages.empty[s].arrive();
        });

        // The group's first stage is not filled again, and nobody else reads this part of it.
        uint64_t listed = 0;
        if (lane == 0) {
            while (load_relaxed(&state->placed) < tiles) {}
            fence_acq_rel();
            listed = load_relaxed(&state->large);
        }
        listed = shuffle(listed, 0);
        const auto own_part = staged(group);
        const StagedRuns<V, L, piece_runs> memory{window, edges, own_part.lengths, own_part.staged_values};
        const uint64_t entries = listed >> 32, chunks = uint32_t(listed);
        for (uint64_t c = uint64_t(writer) * gridDim.x + blockIdx.x; c < chunks; c += uint64_t(gridDim.x) * decode_bulk_writers) {
            const uint64_t e = warp_upper_bound(large.first_chunk, entries, c, lane) - 1;
            const uint64_t first = large.part[e] * piece_runs, begin = large.begin[e], first_chunk = large.first_chunk[e];
            const uint64_t next_chunk = e + 1 < entries ? large.first_chunk[e + 1] : chunks;
            const uint64_t lo = maximum(begin, from) + (c - first_chunk) * chunk, hi = c + 1 < next_chunk ? lo + chunk : end;
            const unsigned held = minimum<uint64_t>(piece_runs, runs - first);
            const unsigned own = memory.store(values + first, lengths + first, held, begin, lo, hi, lane);
            expand(out + (lo - from), own, memory, lane);
        }
    }
}

}  // namespace ptxrun

#endif
