#pragma once

#include "look_back.cuh"
#include "select.cuh"

// Run-length encoding in a single pass: every element is read once, every run's
// value and length written once. Tiles, parts and rows are those of compaction.
//
// A run that begins in one stretch of elements may end in a later one. So a
// stretch is summed up by how many runs begin in it and how many elements the
// last of them has there, and such sums are joined: what precedes a part by
// look-back says where its runs go and how long the one that is open is. A part's
// first head gives the length of the run before it; runs inside are as long as
// their heads are apart. Nothing is read twice to finish a run.

namespace ptxrun {

// Runs sums up a stretch of elements: how many runs begin in it, and how many of
// its elements the last of them has; if none begins, all its elements.
template <class I>
struct Runs {
    I heads, open;

    Runs() = default;
    __device__ __forceinline__ Runs(I heads, I open) : heads(heads), open(open) {}
    template <class J>
    __device__ __forceinline__ Runs(const Runs<J> &o) : heads(o.heads), open(o.open) {}
};

template <class I>
struct JoinRuns {
    using Value = Runs<I>;
    static __device__ __forceinline__ Value identity() { return Value(0, 0); }
    static __device__ __forceinline__ Value combine(const Value &a, const Value &b) {
        return Value(a.heads + b.heads, b.heads != 0 ? b.open : a.open + b.open);
    }
};

#if __CUDA_ARCH__ >= 800
template <>
struct WarpReduce<JoinRuns<uint32_t>> {
    static __device__ __forceinline__ Runs<uint32_t> reduce(const Runs<uint32_t> &v) {
        const unsigned last = latest(__ballot_sync(full_warp, v.heads != 0));
        const uint32_t open = threadIdx.x % warp_size >= last ? v.open : 0;
        return Runs<uint32_t>(warp_reduce<Sum<uint32_t>>(v.heads), warp_reduce<Sum<uint32_t>>(open));
    }
};
#endif

using RunLookBack = LookBack<JoinRuns<uint32_t>, JoinRuns<uint64_t>>;

// runs_in sums up a part of held elements, of which keep are heads. All lanes get
// it.
template <class V>
__device__ __forceinline__ Runs<uint32_t> runs_in(const Keep &keep, unsigned held, unsigned lane) {
    unsigned heads = 0, last = 0;  // elements up to the lane's last head, it included
#pragma unroll
    for (int j = 0; j < select_rows; j++) {
        heads += __popc(keep.bits[j]);
        if (keep.bits[j] != 0) last = (j * warp_size + lane) * Rows<V>::vw + 32 - __clz(keep.bits[j]);
    }
    heads = shuffle(warp_reduce<Sum<uint32_t>>(heads), 0);
    last = shuffle(warp_reduce<Max<uint32_t>>(last), 0);
    return Runs<uint32_t>(heads, heads != 0 ? held + 1 - last : held);
}

// HeadList is a warp's own shared memory, in which the places of a part's heads
// are brought together, some rows at a time. Within 128 bytes slots of 16 bytes are
// exchanged, so that lanes that store 16 heads each do not meet in one bank.
template <class V>
struct HeadList {
    static constexpr int rows = 2;
    static constexpr unsigned capacity = rows * warp_size * vector_width<V>;
    static constexpr unsigned bytes = (maximum(4 * capacity + 16, unsigned(scratch_bytes)) + 127) / 128 * 128;
    static_assert(select_rows % rows == 0, "whole groups of rows");

    // exchanged is where the slot at an address is; the list begins at a multiple of 128.
    static __device__ __forceinline__ uint32_t exchanged(uint32_t a) { return a ^ (a >> 3 & 0x70); }

    // add stores a place, if keep is not zero, and advances a to the next slot.
    static __device__ __forceinline__ void add(unsigned keep, uint32_t &a, uint32_t place) {
        asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %1, 0;\n\t@p st.shared.u32 [%2], %3;\n\t@p add.u32 %0, %0, 4;\n\t}"
                     : "+r"(a) : "r"(keep), "r"(exchanged(a)), "r"(place) : "memory");
    }
};

// RunOutput is where an encoding goes: the first capacity runs, and, if count is
// not null, how many there are. If too_long is not null, it is raised to the
// length of a run that L does not hold.
template <class V, class L>
struct RunOutput {
    V *values;
    L *lengths;
    uint64_t capacity;
    uint64_t *count, *too_long;

    __device__ __forceinline__ void finish(uint64_t run, uint64_t length) const {
        if (run < capacity) lengths[run] = L(length);
        if (sizeof(L) < 8 && too_long != nullptr && length > L(~L(0))) atomic_max(too_long, length);
    }

    // store stores the runs of a part of held elements, of which keep are heads.
    // before sums up what precedes it; value_at returns an element of the part.
    // last says that no elements follow.
    template <class ValueAt>
    __device__ __forceinline__ void store(const Keep &keep, unsigned held, const Runs<uint64_t> &before, bool last, ValueAt value_at, uint32_t scratch,
                                          unsigned lane) const {
        using List = HeadList<V>;
        Places places;
        places.template scan<Rows<V>::vw>(keep, lane);
        uint64_t heads = before.heads;
        uint64_t reach = before.open;  // the open run's length, were it to end where the part begins
        if (places.total <= List::capacity) {
            store_rows<0, select_rows>(keep, places, 0, places.total, held, heads, reach, value_at, scratch, lane);
        } else {
            store_groups<0>(keep, places, held, heads, reach, value_at, scratch, lane);
        }
        if (last && lane == 0) {
            if (count != nullptr) *count = heads;
            if (heads > 0) finish(heads - 1, reach + held);
        }
    }

  private:
    template <int first, class ValueAt>
    __device__ __forceinline__ void store_groups(const Keep &keep, const Places &places, unsigned held, uint64_t &heads, uint64_t &reach,
                                                 const ValueAt &value_at, uint32_t scratch, unsigned lane) const {
        constexpr int end = first + HeadList<V>::rows;
        const unsigned base = shuffle(places.at[first], 0);
        unsigned after = places.total;
        if constexpr (end < select_rows) after = shuffle(places.at[end < select_rows ? end : 0], 0);
        store_rows<first, end>(keep, places, base, after - base, held, heads, reach, value_at, scratch, lane);
        if constexpr (end < select_rows) store_groups<end>(keep, places, held, heads, reach, value_at, scratch, lane);
    }

    // store_rows stores the size runs that begin in some rows, base of the part's
    // heads being before them, and advances heads and reach.
    template <int first, int end, class ValueAt>
    __device__ __forceinline__ void store_rows(const Keep &keep, const Places &places, unsigned base, unsigned size, unsigned held, uint64_t &heads,
                                               uint64_t &reach, const ValueAt &value_at, uint32_t scratch, unsigned lane) const {
        using List = HeadList<V>;
        constexpr unsigned vw = Rows<V>::vw;
        if (size == 0) return;
        if (heads > capacity && too_long == nullptr) {
            heads += size;
            return;  // nothing is stored any more, and reach is not needed
        }
        // Head k is in slot k + lead, so that four slots from a multiple of 4 on are
        // four lengths from a multiple of 4 on: that of the run before head k goes to
        // number heads - 1 + k.
        const unsigned lead = unsigned(heads - 1) & 3;
        const uint32_t list = scratch + 4 * lead;
        const bool dense = size * 4 > held;
#pragma unroll
        for (int j = first; j < end; j++) {
            const unsigned place = (j * warp_size + lane) * vw;
            uint32_t a = list + 4 * (places.at[j] - base);
            if (dense) {
#pragma unroll
                for (unsigned i = 0; i < vw; i++) List::add(keep.bits[j] & 1u << i, a, place + i);
            } else {
                a += 4 * __popc(keep.bits[j]);
#pragma unroll 1
                for (unsigned bits = keep.bits[j]; bits != 0;) {
                    const unsigned last = 31 - __clz(bits);
                    bits ^= 1u << last;
                    a -= 4;
                    store_shared_if<4>(1, List::exchanged(a), place + last);
                }
            }
        }
        __syncwarp();
        const auto place_of = [=](unsigned k) {
            uint32_t at[1];
            load_shared(at, List::exchanged(list + 4 * k));
            return at[0];
        };
        const auto store_run = [=](unsigned k, bool value, bool length) {
            const unsigned at = place_of(k);
            const uint64_t run = heads + k;
            if (value && run < capacity) values[run] = value_at(at);
            if (length && k > 0 && run <= capacity) lengths[run - 1] = L(at - place_of(k - 1));
            if (k == 0 && heads > 0) finish(heads - 1, reach + at);
        };
        // Fours of lengths of the runs before heads k to k + 3, and of values of heads
        // k - 1 to k + 2, from k = begin on; begin is at least 1.
        const unsigned begin = 4 - lead;
        unsigned fours = 0;
        if (size > begin && heads + size <= capacity && is_aligned(values, minimum(16, 4 * int(sizeof(V)))) && is_aligned(lengths, 16)) fours = (size - begin) / 4;
        if (fours == 0) {
#pragma unroll 1
            for (unsigned k = lane; k < size; k += warp_size) store_run(k, true, true);
        } else {
            const uint64_t run = heads - 1 + begin;
#pragma unroll 1
            for (unsigned f = lane; f < fours; f += warp_size) {
                const unsigned before = place_of(begin + 4 * f - 1);
                uint32_t at[4];
                load_shared(at, List::exchanged(list + 4 * (begin + 4 * f)));
                const V value[4] = {value_at(before), value_at(at[0]), value_at(at[1]), value_at(at[2])};
                const L length[4] = {L(at[0] - before), L(at[1] - at[0]), L(at[2] - at[1]), L(at[3] - at[2])};
                store_wide(values + run + 4 * f, value);
                store_wide(lengths + run + 4 * f, length);
            }
            // What is left before and behind, at most 8.
            const unsigned behind = begin + 4 * fours - 1, k = lane < begin ? lane : behind + (lane - begin);
            if (k < size) store_run(k, k < begin - 1 || k >= behind, k < begin || k > behind);
        }
        heads += size;
        reach = 0 - uint64_t(place_of(size - 1));
        __syncwarp();
    }
};

// rle_encode_pass holds a part's heads in registers; elements that begin runs are
// read again, from the cache. Without state there is one tile.
template <class V, class L>
__device__ __forceinline__ void rle_encode_pass(const V *in, uint64_t n, const RunOutput<V, L> &output, const Pass &pass) {
    alignas(128) __shared__ unsigned char scratch_memory[select_parts][HeadList<V>::bytes];
    __shared__ WarpTotals<Runs<uint32_t>, select_block> totals;
    __shared__ WarpTotals<Runs<uint64_t>, warp_size> tile_prefix;
    __shared__ uint64_t ticket;
    const unsigned lane = threadIdx.x % warp_size, part = threadIdx.x / warp_size;
    const uint32_t scratch = shared_address(scratch_memory[part]);
    const uint64_t tiles = ceil_div<uint64_t>(n, select_tile<V>);
    const Input<V, ByNeighbour> input(in, {});
    RunLookBack look_back(pass, JoinRuns<uint64_t>::identity());

    for (uint64_t round = 0;; round++) {
        if (threadIdx.x == 0) ticket = pass.one_tile() ? round : pass.take_ticket();
        __syncthreads();
        const uint64_t tile = ticket;
        if (tile >= tiles) return;
        const uint64_t index = tile * select_tile<V> + part * select_part<V>;
        const unsigned held = held_of(n, index, select_part<V>);
        Keep keep;
        {
            Rows<V> x;
            input.load(x, keep, index, held, true, scratch, lane);
        }
        const Runs<uint32_t> own = runs_in<V>(keep, held, lane);
        if (lane == 0) totals.get()[part] = own;
        __syncthreads();
        if (part == 0) {
            Runs<uint32_t> total = own;
            for (int p = 1; p < select_parts; p++) total = JoinRuns<uint32_t>::combine(total, totals.get()[p]);
            if (lane == 0 && !pass.one_tile()) look_back.totals.publish(tile, total);
            const Runs<uint64_t> prefix = look_back.prefix(tile, lane);
            if (lane == 0) tile_prefix.get()[0] = prefix;
        }
        __syncthreads();
        Runs<uint64_t> before = tile_prefix.get()[0];
        for (unsigned p = 0; p < part; p++) before = JoinRuns<uint64_t>::combine(before, totals.get()[p]);
        const V *const from = in + index;
        output.store(keep, held, before, tile == tiles - 1 && part == select_parts - 1, [=](unsigned k) { return from[k]; }, scratch, lane);
    }
}

#if __CUDA_ARCH__ >= 900

// rle_encode_bulk divides a block's warps into roles, as scan_bulk does. Reducers
// find the heads and leave them as bits for the writers, which read no elements
// but those that begin runs.
constexpr int encode_stages = 6;
constexpr int encode_reducers = 3;
constexpr int encode_block = (2 + encode_reducers + select_parts) * warp_size;
static_assert(encode_stages % encode_reducers == 0, "a stage is always the same reducer's, or it could be a phase ahead");

// HeadBits are a part's heads in shared memory, rows packed into words.
template <class V>
struct HeadBits {
    static constexpr int vw = vector_width<V>, each = 32 / vw, words = (select_rows + each - 1) / each;
    uint32_t word[words][warp_size];

    __device__ __forceinline__ void set(const Keep &keep, unsigned lane) {
#pragma unroll
        for (int w = 0; w < words; w++) {
            uint32_t packed = 0;
#pragma unroll
            for (int j = w * each; j < minimum((w + 1) * each, select_rows); j++) packed |= keep.bits[j] << (j % each * vw);
            word[w][lane] = packed;
        }
    }
    __device__ __forceinline__ void get(Keep &keep, unsigned lane) const {
#pragma unroll
        for (int w = 0; w < words; w++) {
            const uint32_t packed = word[w][lane];
#pragma unroll
            for (int j = w * each; j < minimum((w + 1) * each, select_rows); j++) keep.bits[j] = packed >> (j % each * vw) & ((1u << vw) - 1);
        }
    }
};

// A stage's tile is preceded by the 16 bytes that precede it in memory.
constexpr int stage_lead = 16;

template <class V>
struct EncodeStages {
    alignas(128) unsigned char tile[encode_stages][stage_lead + select_parts * select_part_bytes];
    alignas(128) unsigned char scratch[select_parts][HeadList<V>::bytes];
    HeadBits<V> heads[encode_stages][select_parts];
    uint64_t index[encode_stages], prefix[encode_stages][2];
    uint32_t before[encode_stages][select_parts][2];  // what precedes a part in the tile
    Barrier full[encode_stages];                      // the tile is there
    Barrier ready[encode_stages];                     // prefix, before and heads are there
    Barrier empty[encode_stages];                     // the writers are done with it
};

// rle_encode_bulk needs the input aligned to 16 bytes, and dynamic shared memory
// for EncodeStages.
template <class V, class L>
__device__ __forceinline__ void rle_encode_bulk(const V *in, uint64_t n, const RunOutput<V, L> &output, const Pass &pass) {
    extern __shared__ unsigned char dynamic_shared[];
    auto &stages = *reinterpret_cast<EncodeStages<V> *>(dynamic_shared);
    static_assert(sizeof(stages) <= encode_stages * (stage_lead + select_parts * (select_part_bytes + sizeof(HeadBits<V>))) + select_parts * HeadList<V>::bytes + 2048,
                  "the launch gives 2 KiB beside tiles, heads and scratch");
    const unsigned lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size;
    const uint64_t tiles = ceil_div<uint64_t>(n, select_tile<V>);

    if (threadIdx.x == 0) {
        for (int s = 0; s < encode_stages; s++) {
            stages.full[s].init(1);
            stages.ready[s].init(1 + warp_size);
            stages.empty[s].init(select_parts);
        }
        fence_barriers();
    }
    __syncthreads();

    if (warp == 0) {
        if (lane > 0) return;
        uint64_t next = pass.take_ticket();
        int ends = 0;
        for (uint32_t i = 0;; i++) {
            const int s = i % encode_stages;
            const uint64_t tile = next;
            if (tile < tiles) next = pass.take_ticket();  // its latency passes with the wait
            if (i >= encode_stages) stages.empty[s].wait((i / encode_stages + 1) & 1);
            stages.index[s] = tile;
            if (tile >= tiles) {
                stages.full[s].arrive();
                if (++ends == encode_reducers) return;  // every reducer has to see the end
                continue;
            }
            const V *const from = in + tile * select_tile<V>;
            const unsigned lead = tile > 0 ? stage_lead : 0;
            unsigned char *const to = stages.tile[s] + stage_lead;
            const unsigned bytes = lead + fetch_rest(to, from, held_of(n, tile * select_tile<V>, select_tile<V>) * sizeof(V));
            stages.full[s].announce(bytes);
            if (bytes > 0) bulk_load(to - lead, reinterpret_cast<const unsigned char *>(from) - lead, bytes, stages.full[s]);
        }
    }

    // The other roles go over the stages; the parity changes with every round.
    const bool reducer = warp >= 2 && warp < 2 + encode_reducers;
    RunLookBack look_back(pass, JoinRuns<uint64_t>::identity());
    for (uint32_t i = reducer ? warp - 2 : 0;; i += reducer ? encode_reducers : 1) {
        const int s = i % encode_stages;
        const unsigned parity = i / encode_stages & 1;
        stages.full[s].wait(parity);
        const uint64_t tile = stages.index[s];
        if (tile >= tiles) return;
        const uint64_t first = tile * select_tile<V>;
        const unsigned char *const elements = stages.tile[s] + stage_lead;

        if (warp == 1) {
            const Runs<uint64_t> prefix = look_back.prefix(tile, lane);
            if (lane == 0) {
                copy_bytes(stages.prefix[s], &prefix, sizeof(prefix));
                stages.ready[s].arrive();
            }
        } else if (reducer) {
            Runs<uint32_t> total = JoinRuns<uint32_t>::identity();
#pragma unroll 1
            for (int part = 0; part < select_parts; part++) {
                constexpr int vw = Rows<V>::vw;
                const uint64_t index = first + part * select_part<V>;
                const unsigned held = held_of(n, index, select_part<V>);
                const unsigned char *const from = elements + part * select_part_bytes;
                Rows<V> x;
                Keep keep;
                V before[1] = {};
                if (index > 0 && held > 0) load_shared(before, from - sizeof(V));
#pragma unroll
                for (int j = 0; j < select_rows; j++) {
                    const unsigned k = j * warp_size + lane;
                    if (k * vw < held) {
                        load_shared(x.word[j], from + k * 16);
                    } else {
                        x.word[j][0] = x.word[j][1] = x.word[j][2] = x.word[j][3] = 0;
                    }
                }
                differing(keep, x, before[0], index == 0, lane);
                if (held < select_part<V>) {
#pragma unroll
                    for (int j = 0; j < select_rows; j++) keep.bits[j] &= all_before<vw>(held, j, lane);
                }
                stages.heads[s][part].set(keep, lane);
                if (lane == 0) copy_bytes(stages.before[s][part], &total, sizeof(total));
                total = JoinRuns<uint32_t>::combine(total, runs_in<V>(keep, held, lane));
            }
            if (lane == 0) look_back.totals.publish(tile, total);
            stages.ready[s].arrive();
        } else {
            const int part = warp - 2 - encode_reducers;
            const uint64_t index = first + part * select_part<V>;
            stages.ready[s].wait(parity);
            Runs<uint64_t> before;
            Runs<uint32_t> inside;
            copy_bytes(&before, stages.prefix[s], sizeof(before));
            copy_bytes(&inside, stages.before[s][part], sizeof(inside));
            Keep keep;
            stages.heads[s][part].get(keep, lane);
            const uint32_t from = shared_address(elements + part * select_part_bytes);
            const auto value_at = [=](unsigned k) {
                V v[1];
                load_shared(v, from + k * sizeof(V));
                return v[0];
            };
            output.store(keep, held_of(n, index, select_part<V>), JoinRuns<uint64_t>::combine(before, inside), tile == tiles - 1 && part == select_parts - 1, value_at,
                         shared_address(stages.scratch[part]), lane);
            __syncwarp();
            if (lane == 0) stages.empty[s].arrive();
        }
    }
}

#endif

}  // namespace ptxrun
