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

// RunSummary sums up a stretch of elements: how many runs begin in it, and how many of
// its elements the last of them has; if none begins, all its elements.
template <class I>
struct RunSummary {
    I heads, open;

    RunSummary() = default;
    __device__ __forceinline__ RunSummary(I heads, I open) : heads(heads), open(open) {}
    template <class J>
    __device__ __forceinline__ RunSummary(const RunSummary<J> &o) : heads(o.heads), open(o.open) {}
};

template <class I>
struct JoinRuns {
    using Value = RunSummary<I>;
    static __device__ __forceinline__ Value identity() { return Value(0, 0); }
    static __device__ __forceinline__ Value combine(const Value &a, const Value &b) {
        return Value(a.heads + b.heads, b.heads != 0 ? b.open : a.open + b.open);
    }
};

#if __CUDA_ARCH__ >= 800
template <>
struct WarpReduce<JoinRuns<uint32_t>> {
    static __device__ __forceinline__ RunSummary<uint32_t> reduce(const RunSummary<uint32_t> &v) {
        const unsigned last = latest(__ballot_sync(full_warp, v.heads != 0));
        const uint32_t open = threadIdx.x % warp_size >= last ? v.open : 0;
        return RunSummary<uint32_t>(warp_reduce<Sum<uint32_t>>(v.heads), warp_reduce<Sum<uint32_t>>(open));
    }
};
#endif

using RunLookBack = LookBack<JoinRuns<uint32_t>, JoinRuns<uint64_t>>;

// A part's heads, as bits: where they are found, a lane has those of a vector of
// each row; where runs are stored, those of select_rows vectors that follow each
// other, two in a word, so that one scan over lanes numbers them.
template <class V>
struct HeadBits {
    static constexpr int vw = vector_width<V>;
    static constexpr int words = select_rows / 2;
    static_assert(select_rows % 2 == 0, "two rows in a word");
    using Group = uint16_t;  // a vector's
    alignas(4) Group group[select_rows * warp_size];

    __device__ __forceinline__ void set(const Keep &keep, unsigned lane) {
#pragma unroll
        for (int j = 0; j < select_rows; j++) group[j * warp_size + lane] = Group(keep.bits[j]);
    }
    __device__ __forceinline__ void get(uint32_t (&word)[words], unsigned lane) const {
#pragma unroll
        for (int i = 0; i < words; i++) {
            uint32_t w[1];
            load_shared(w, shared_address(group + select_rows * lane + 2 * i));
            word[i] = vw == 16 ? w[0] : (w[0] & 0xffff) | w[0] >> (16 - vw);
        }
    }
};

// runs_in sums up a part of held elements, of which keep are heads. All lanes get
// it.
template <class V>
__device__ __forceinline__ RunSummary<uint32_t> runs_in(const Keep &keep, unsigned held, unsigned lane) {
    constexpr int vw = vector_width<V>;
    unsigned heads = 0, top = 0, row = 0;  // the lane's last heads, in two rows from row on
#pragma unroll
    for (int j = 0; j < select_rows; j += 2) {
        const unsigned w = keep.bits[j] | keep.bits[j + 1] << vw;
        heads += __popc(w);
        if (w != 0) {
            top = w;
            row = j;
        }
    }
    const unsigned bit = 31 - __clz(top);
    unsigned last = ((row + bit / vw) * warp_size + lane) * vw + bit % vw + 1;  // elements up to the last head, it included
    if (top == 0) last = 0;
    heads = shuffle(warp_reduce<Sum<uint32_t>>(heads), 0);
    last = shuffle(warp_reduce<Max<uint32_t>>(last), 0);
    return RunSummary<uint32_t>(heads, heads != 0 ? held + 1 - last : held);
}

// HeadList is a warp's own shared memory, in which the places of a part's heads are
// brought together, 2 bytes each. Within 128 bytes slots of 8 bytes are exchanged,
// so that lanes that store many heads each do not meet in one bank.
template <class V>
struct HeadList {
    static constexpr unsigned bytes = (2 * select_part<V> + 8 + 127) / 128 * 128;
    static_assert(select_part<V> <= 1 << 16, "a place in a part is 16 bits");

    // exchanged is where the slot at an address is; the list begins at a multiple of 128.
    static __device__ __forceinline__ uint32_t exchanged(uint32_t a) { return a ^ (a >> 4 & 0x78); }

    // add stores a place, if keep is not zero, and advances a to the next slot.
    static __device__ __forceinline__ void add(unsigned keep, uint32_t &a, uint32_t place) {
        asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %1, 0;\n\t@p st.shared.u16 [%2], %3;\n\t@p add.u32 %0, %0, 2;\n\t}"
                     : "+r"(a) : "r"(keep), "r"(exchanged(a)), "r"(place) : "memory");
    }
    static __device__ __forceinline__ unsigned at(uint32_t a) {
        uint16_t place[1];
        load_shared(place, exchanged(a));
        return place[0];
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

    // store stores the runs of a part of held elements, whose heads are bits. before
    // sums up what precedes it; value_at returns an element of the part. last says
    // that no elements follow.
    template <class ValueAt>
    __device__ __forceinline__ void store(const HeadBits<V> &bits, unsigned held, const RunSummary<uint64_t> &before, bool last, ValueAt value_at, uint32_t scratch,
                                          unsigned lane) const {
        using Bits = HeadBits<V>;
        uint32_t word[Bits::words];
        bits.get(word, lane);
        unsigned own = 0;
#pragma unroll
        for (int i = 0; i < Bits::words; i++) own += __popc(word[i]);
        uint64_t heads = before.heads;
        uint64_t reach = before.open;  // the open run's length, were it to end where the part begins
        if (__any_sync(full_warp, own != 0)) {
            const unsigned inclusive = warp_scan<Sum<uint32_t>>(own, lane), size = shuffle(inclusive, warp_size - 1);
            if (heads <= capacity || too_long != nullptr) {
                const unsigned end = store_runs(word, inclusive - own, own, size, size * 4 > held, before, value_at, scratch, lane);
                reach = 0 - uint64_t(end);
            }
            heads += size;
        }
        if (last && lane == 0) {
            if (count != nullptr) *count = heads;
            if (heads > 0) finish(heads - 1, reach + held);
        }
    }

  private:
    // store_runs stores the size runs that begin in a part, of which this lane has
    // own, with number first in the part, and returns the last one's place.
    template <class ValueAt>
    __device__ __forceinline__ unsigned store_runs(const uint32_t (&word)[HeadBits<V>::words], unsigned first, unsigned own, unsigned size, bool dense,
                                                   const RunSummary<uint64_t> &before, const ValueAt &value_at, uint32_t scratch, unsigned lane) const {
        using List = HeadList<V>;
        constexpr int words = HeadBits<V>::words;
        constexpr unsigned each = 2 * vector_width<V>;  // elements of a word
        // Head k is in slot k + lead, so that four slots from a multiple of 4 on are
        // four lengths from a multiple of 4 on: that of the run before head k goes to
        // number heads - 1 + k.
        const uint64_t heads = before.heads;
        const unsigned lead = unsigned(heads - 1) & 3;
        const uint32_t list = scratch + 2 * lead;
        uint32_t a = list + 2 * first;
        const unsigned place = lane * words * each;
        if (dense) {
#pragma unroll
            for (int i = 0; i < words; i++) {
#pragma unroll
                for (unsigned b = 0; b < each; b++) List::add(word[i] & 1u << b, a, place + i * each + b);
            }
        } else {
            a += 2 * own;
#pragma unroll
            for (int i = words - 1; i >= 0; i--) {
#pragma unroll 1
                for (uint32_t bits = word[i]; bits != 0;) {
                    const unsigned b = 31 - __clz(bits);
                    bits ^= 1u << b;
                    a -= 2;
                    store_shared_if<2>(1, List::exchanged(a), place + i * each + b);
                }
            }
        }
        __syncwarp();
        const auto store_run = [=](unsigned k, bool value, bool length) {
            const unsigned at = List::at(list + 2 * k);
            const uint64_t run = heads + k;
            if (value && run < capacity) values[run] = value_at(at);
            if (length && k > 0 && run <= capacity) lengths[run - 1] = L(at - List::at(list + 2 * k - 2));
            if (k == 0 && heads > 0) finish(heads - 1, before.open + at);
        };
        // Fours of lengths of the runs before heads k to k + 3, and of values of heads
        // k - 1 to k + 2, from k = begin on, which is at least 1.
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
                const uint32_t from = list + 2 * (begin + 4 * f);
                const unsigned at = List::at(from - 2);
                uint16_t next[4];
                load_shared(next, List::exchanged(from));
                const V value[4] = {value_at(at), value_at(next[0]), value_at(next[1]), value_at(next[2])};
                const L length[4] = {L(next[0] - at), L(next[1] - next[0]), L(next[2] - next[1]), L(next[3] - next[2])};
                store_wide(values + run + 4 * f, value);
                store_wide(lengths + run + 4 * f, length);
            }
            // What is left before and behind, at most 8.
            const unsigned behind = begin + 4 * fours - 1, k = lane < begin ? lane : behind + (lane - begin);
            if (k < size) store_run(k, k < begin - 1 || k >= behind, k < begin || k > behind);
        }
        const unsigned end = List::at(list + 2 * size - 2);
        __syncwarp();
        return end;
    }
};

// EncodeScratch is a warp's own shared memory.
template <class V>
struct EncodeScratch {
    alignas(128) unsigned char list[maximum(HeadList<V>::bytes, unsigned(scratch_bytes + 112) / 128 * 128)];
    HeadBits<V> heads;
};

// rle_encode_pass finds a part's heads in registers; elements that begin runs are
// read again, from the cache. Without state there is one tile. It needs dynamic
// shared memory for an EncodeScratch a part.
template <class V, class L>
__device__ __forceinline__ void rle_encode_pass(const V *in, uint64_t n, const RunOutput<V, L> &output, const Pass &pass) {
    alignas(128) extern __shared__ unsigned char dynamic_shared[];
    __shared__ WarpTotals<RunSummary<uint32_t>, select_block> totals;
    __shared__ WarpTotals<RunSummary<uint64_t>, warp_size> tile_prefix;
    __shared__ uint64_t ticket;
    const unsigned lane = threadIdx.x % warp_size, part = threadIdx.x / warp_size;
    auto &scratch = reinterpret_cast<EncodeScratch<V> *>(dynamic_shared)[part];
    const uint32_t list = shared_address(scratch.list);
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
        Rows<V> x;
        input.load(x, keep, index, held, true, list, lane);
        scratch.heads.set(keep, lane);
        const RunSummary<uint32_t> own = runs_in<V>(keep, held, lane);
        if (lane == 0) totals.get()[part] = own;
        __syncthreads();
        if (part == 0) {
            RunSummary<uint32_t> total = own;
            for (int p = 1; p < select_parts; p++) total = JoinRuns<uint32_t>::combine(total, totals.get()[p]);
            if (lane == 0 && !pass.one_tile()) look_back.totals.publish(tile, total);
            const RunSummary<uint64_t> prefix = look_back.prefix(tile, lane);
            if (lane == 0) tile_prefix.get()[0] = prefix;
        }
        __syncthreads();
        RunSummary<uint64_t> before = tile_prefix.get()[0];
        for (unsigned p = 0; p < part; p++) before = JoinRuns<uint64_t>::combine(before, totals.get()[p]);
        const V *const from = in + index;
        output.store(scratch.heads, held, before, tile == tiles - 1 && part == select_parts - 1, [=](unsigned k) { return from[k]; }, list, lane);
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

// A stage's tile is preceded by the 16 bytes that precede it in memory.
constexpr int stage_lead = 16;

template <class V>
struct EncodeStages {
    alignas(128) unsigned char tile[encode_stages][stage_lead + select_parts * select_part_bytes];
    alignas(128) unsigned char scratch[select_parts][HeadList<V>::bytes];
    HeadBits<V> heads[encode_stages][select_parts];
    alignas(16) unsigned char prefix[encode_stages][sizeof(RunSummary<uint64_t>)];
    alignas(16) unsigned char before[encode_stages][select_parts][sizeof(RunSummary<uint32_t>)];  // what precedes a part in the tile
    uint64_t index[encode_stages];
    Barrier full[encode_stages];                      // the tile is there
    Barrier ready[encode_stages];                     // prefix, before and heads are there
    Barrier empty[encode_stages];                     // the writers are done with it
};

// rle_encode_bulk needs the input aligned to 16 bytes, and dynamic shared memory
// for EncodeStages.
template <class V, class L>
__device__ __forceinline__ void rle_encode_bulk(const V *in, uint64_t n, const RunOutput<V, L> &output, const Pass &pass) {
    alignas(128) extern __shared__ unsigned char dynamic_shared[];
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
        load_tiles<encode_stages, encode_reducers>(
            stages, pass, tiles,
            [&](int s, uint64_t tile) {
                const V *const from = in + tile * select_tile<V>;
                const unsigned lead = tile > 0 ? stage_lead : 0;
                unsigned char *const to = stages.tile[s] + stage_lead;
                const unsigned bytes = lead + fetch_rest(to, from, held_of(n, tile * select_tile<V>, select_tile<V>) * sizeof(V));
                stages.full[s].announce(bytes);
                if (bytes > 0) bulk_load(to - lead, reinterpret_cast<const unsigned char *>(from) - lead, bytes, stages.full[s]);
            },
            [&](int s) { stages.full[s].arrive(); });
        return;
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
            const RunSummary<uint64_t> prefix = look_back.prefix(tile, lane);
            if (lane == 0) {
                put_shared(stages.prefix[s], prefix);
                stages.ready[s].arrive();
            }
        } else if (reducer) {
            RunSummary<uint32_t> total = JoinRuns<uint32_t>::identity();
#pragma unroll 1
            for (int part = 0; part < select_parts; part++) {
                constexpr int vw = Rows<V>::vw;
                const uint64_t index = first + part * select_part<V>;
                const unsigned held = held_of(n, index, select_part<V>);
                const unsigned char *const from = elements + part * select_part_bytes;
                const bool whole = held == select_part<V>;
                Rows<V> x;
                Keep keep;
                V before[1] = {};
                if (index > 0 && held > 0) load_shared(before, from - sizeof(V));
                if (!whole) {
#pragma unroll
                    for (int j = 0; j < select_rows; j++) x.word[j][0] = x.word[j][1] = x.word[j][2] = x.word[j][3] = 0;
                }
#pragma unroll
                for (int j = 0; j < select_rows; j++) {
                    const unsigned k = j * warp_size + lane;
                    if (whole || k * vw < held) load_shared(x.word[j], from + k * 16);
                }
                differing(keep, x, before[0], index == 0, lane);
                if (!whole) {
#pragma unroll
                    for (int j = 0; j < select_rows; j++) keep.bits[j] &= all_before<vw>(held, j, lane);
                }
                stages.heads[s][part].set(keep, lane);
                if (lane == 0) put_shared(stages.before[s][part], total);
                total = JoinRuns<uint32_t>::combine(total, runs_in<V>(keep, held, lane));
            }
            if (lane == 0) look_back.totals.publish(tile, total);
            stages.ready[s].arrive();
        } else {
            const int part = warp - 2 - encode_reducers;
            const uint64_t index = first + part * select_part<V>;
            stages.ready[s].wait(parity);
            const RunSummary<uint64_t> before = get_shared<RunSummary<uint64_t>>(stages.prefix[s]);
            const RunSummary<uint32_t> inside = get_shared<RunSummary<uint32_t>>(stages.before[s][part]);
            const uint32_t from = shared_address(elements + part * select_part_bytes);
            const auto value_at = [=](unsigned k) {
                V v[1];
                load_shared(v, from + k * sizeof(V));
                return v[0];
            };
            output.store(stages.heads[s][part], held_of(n, index, select_part<V>), JoinRuns<uint64_t>::combine(before, inside), tile == tiles - 1 && part == select_parts - 1, value_at,
                         shared_address(stages.scratch[part]), lane);
            __syncwarp();
            if (lane == 0) stages.empty[s].arrive();
        }
    }
}

#endif

}  // namespace ptxrun
