#pragma once

#include "look_back.cuh"
#include "select.cuh"

// Run-length encoding in a single pass: every element is read once, every run's
// value and length written once. Tiles, parts and rows are those of compaction; by
// bulk copies encoding has its own.
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

// join_lanes joins the lanes' stretches; all lanes get the sum.
__device__ __forceinline__ RunSummary<uint32_t> join_lanes(const RunSummary<uint32_t> &v) {
#if __CUDA_ARCH__ >= 800
    const unsigned last = latest(__ballot_sync(full_warp, v.heads != 0));
    const uint32_t open = threadIdx.x % warp_size >= last ? v.open : 0;
    return RunSummary<uint32_t>(warp_reduce<Sum<uint32_t>>(v.heads), warp_reduce<Sum<uint32_t>>(open));
#else
    return shuffle(warp_reduce<JoinRuns<uint32_t>>(v), 0);
#endif
}

// RunTotals are the totals of tiles, which have less than 2^16 elements: heads and
// open in the halves of a word, so that a total is one access.
struct RunTotals : TileTotals<uint32_t> {
    __device__ __forceinline__ RunTotals(const Pass &pass) : TileTotals<uint32_t>{pass.status(), pass.mark()} {}
    __device__ __forceinline__ void publish(uint64_t tile, const RunSummary<uint32_t> &total) const {
        TileTotals<uint32_t>::publish(tile, total.heads | total.open << 16);
    }
};

// RunLookBack is a LookBack over them, in 32 bits, as tickets are. A lane has two
// tiles of a group, loaded by one access: what a group costs is paid half as often.
//
// All roles wait for it. On an H200, GB/s of bytes at mean run lengths of 1, 2, 16, 256
// and 65536: 614, 969, 1846, 2855, 3126, with 4 groups ahead 613, 967, 1841, 2790, 2989;
// a tile a lane, 5 groups ahead, 615, 969, 1832, 2828, 3054, 6 groups (which spill)
// 610, 945, 1731, 2668, 3002.
struct RunLookBack {
    static constexpr uint32_t group = 2 * warp_size;
    static constexpr int ahead = 3;  // groups in flight: 132 blocks take about that many tiles in a turn
    const uint64_t *at;              // this lane's totals in the first group that is not passed
    uint32_t mark, first;            // its first tile
    RunSummary<uint64_t> passed;

    __device__ __forceinline__ RunLookBack(const Pass &pass, unsigned lane) : at(pass.status() + 2 * lane), mark(pass.mark()), first(0), passed(0, 0) {}

    // prefix sums up all tiles before tile, which is never less than in the call
    // before. All lanes call it and get it.
    __device__ __forceinline__ RunSummary<uint64_t> prefix(uint32_t tile, unsigned lane) {
        for (;;) {
            const uint32_t left = tile - first;
            uint64_t a[ahead], b[ahead];
#pragma unroll
            for (int k = 0; k < ahead; k++) {
                a[k] = b[k] = uint64_t(mark) << 32;
                if (k * group + 2 * lane < left) load_relaxed(a[k], b[k], at + k * group);
            }
#pragma unroll
            for (int k = 0; k < ahead; k++) {
                const bool both = k * group + 2 * lane + 1 < left;
                while (uint32_t(a[k] >> 32) != mark || (both && uint32_t(b[k] >> 32) != mark)) load_relaxed(a[k], b[k], at + k * group);
                const RunSummary<uint32_t> own = JoinRuns<uint32_t>::combine(unpacked(uint32_t(a[k])), unpacked(both ? uint32_t(b[k]) : 0));
                const RunSummary<uint64_t> sum = JoinRuns<uint64_t>::combine(passed, join_lanes(own));
                if (left < (k + 1) * group) {
                    pass(k);
                    return sum;
                }
                passed = sum;
            }
            pass(ahead);
        }
    }

  private:
    static __device__ __forceinline__ RunSummary<uint32_t> unpacked(uint32_t total) { return RunSummary<uint32_t>(total & 0xffff, total >> 16); }
    __device__ __forceinline__ void pass(int groups) {
        first += groups * group;
        at += groups * group;
    }
};

// Heads are those among the elements of a part that a lane has, which follow each
// other: each of them in a word's low bits.
template <int elements, int each>
struct Heads {
    static constexpr int words = ceil_div(elements, each);
    static constexpr int part = elements * warp_size;
    uint32_t word[words];

    __device__ __forceinline__ unsigned count() const {
        unsigned sum = 0;
#pragma unroll
        for (int i = 0; i < words; i++) sum += __popc(word[i]);
        return sum;
    }

    // limit takes those away that are not among the first held elements.
    __device__ __forceinline__ void limit(unsigned held) {
#pragma unroll
        for (unsigned i = 0; i < words; i++) word[i] &= held > each * i ? ~0u >> (32 - minimum<unsigned>(held - each * i, each)) : 0;
    }

    // runs sums up a part of held elements. Lane 0 gets it.
    __device__ __forceinline__ RunSummary<uint32_t> runs(unsigned held, unsigned lane) const {
        unsigned last = 0;  // elements up to the last head, it included
#pragma unroll
        for (int i = 0; i < words; i++) {
            if (word[i] != 0) last = lane * elements + i * each + 32 - __clz(word[i]);
        }
        const unsigned sum = warp_reduce<Sum<uint32_t>>(count());
        last = warp_reduce<Max<uint32_t>>(last);
        return RunSummary<uint32_t>(sum, sum != 0 ? held + 1 - last : held);
    }
};

// HeadBits are a warp's own shared memory, through which heads found in rows of
// vectors become those of select_rows vectors that follow each other, two in a word.
template <class V>
struct HeadBits {
    static constexpr int vw = vector_width<V>;
    static_assert(select_rows % 2 == 0, "two rows in a word");
    using Group = uint16_t;  // a vector's
    alignas(4) Group group[select_rows * warp_size];

    __device__ __forceinline__ Heads<select_rows * vw, 2 * vw> exchange(const Keep &keep, unsigned lane) {
#pragma unroll
        for (int j = 0; j < select_rows; j++) group[j * warp_size + lane] = Group(keep.bits[j]);
        __syncwarp();
        Heads<select_rows * vw, 2 * vw> heads;
#pragma unroll
        for (int i = 0; i < heads.words; i++) {
            uint32_t w[1];
            load_shared(w, shared_address(group + select_rows * lane + 2 * i));
            heads.word[i] = vw == 16 ? w[0] : (w[0] & 0xffff) | w[0] >> (16 - vw);
        }
        return heads;
    }
};

// bit_number is the number of the highest bit of w, any if there is none. Compilers
// find arithmetic for it out, and branch on zero.
__device__ __forceinline__ uint32_t bit_number(uint32_t w) {
    uint32_t b;
    asm("bfind.u32 %0, %1;" : "=r"(b) : "r"(w));
    return b;
}

// HeadList is a warp's own shared memory, in which the places of a part's heads are
// brought together, 2 bytes each. Within 128 bytes slots of 8 bytes are exchanged,
// so that lanes that store many heads each do not meet in one bank.
template <int part>
struct HeadList {
    static constexpr unsigned bytes = (2 * part + 8 + 127) / 128 * 128;
    static_assert(part <= 1 << 16, "a place in a part is 16 bits");

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

    // add_all stores the places of a lane's heads from slot a on. Where heads are
    // dense, every element is looked at; else words give up their heads side by side,
    // as finding one takes long.
    template <int elements, int each>
    static __device__ __forceinline__ void add_all(Heads<elements, each> heads, uint32_t a, bool dense, unsigned lane) {
        constexpr int words = heads.words;
        const unsigned place = lane * elements;
        if (dense) {
#pragma unroll
            for (int k = 0; k < elements; k++) add(heads.word[k / each] & 1u << k % each, a, place + k);
            return;
        }
        uint32_t slot[words];
        unsigned rounds = 0;
#pragma unroll
        for (int i = 0; i < words; i++) {
            const unsigned own = __popc(heads.word[i]);
            slot[i] = a;
            a += 2 * own;
            rounds = maximum(rounds, own);
        }
#pragma unroll 1
        for (; rounds > 0; rounds--) {
#pragma unroll
            for (int i = 0; i < words; i++) {
                const uint32_t lowest = heads.word[i] & (0 - heads.word[i]);
                store_shared_if<2>(lowest, exchanged(slot[i]), place + i * each + bit_number(lowest));
                heads.word[i] ^= lowest;
                slot[i] += 2;
            }
        }
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

    // store stores the runs of a part of held elements. before sums up what precedes
    // it; value_at returns an element of the part. last says that no elements follow.
    template <class H, class ValueAt>
    __device__ __forceinline__ void store(const H &heads, unsigned held, const RunSummary<uint64_t> &before, bool last, ValueAt value_at, uint32_t scratch,
                                          unsigned lane) const {
        const unsigned own = heads.count();
        uint64_t runs = before.heads;
        uint64_t reach = before.open;  // the open run's length, were it to end where the part begins
        if (__any_sync(full_warp, own != 0)) {
            const unsigned inclusive = warp_scan<Sum<uint32_t>>(own, lane), size = shuffle(inclusive, warp_size - 1);
            if (runs <= capacity || too_long != nullptr) reach = 0 - uint64_t(store_runs(heads, inclusive - own, size, size * 4 > held, before, value_at, scratch, lane));
            runs += size;
        }
        if (last && lane == 0) {
            if (count != nullptr) *count = runs;
            if (runs > 0) finish(runs - 1, reach + held);
        }
    }

  private:
    // store_runs stores the size runs that begin in a part, of which this lane has
    // those from number first in the part on, and returns the last one's place.
    template <class H, class ValueAt>
    __device__ __forceinline__ unsigned store_runs(const H &lane_heads, unsigned first, unsigned size, bool dense, const RunSummary<uint64_t> &before,
                                                   const ValueAt &value_at, uint32_t scratch, unsigned lane) const {
        using List = HeadList<H::part>;
        // Head k is in slot k + lead, so that four slots from a multiple of 4 on are
        // four lengths from a multiple of 4 on: that of the run before head k goes to
        // number heads - 1 + k.
        const uint64_t heads = before.heads;
        const unsigned lead = unsigned(heads - 1) & 3;
        const uint32_t list = scratch + 2 * lead;
        List::add_all(lane_heads, list + 2 * first, dense, lane);
        __syncwarp();
        const unsigned room = heads < capacity ? minimum<uint64_t>(capacity - heads, H::part) : 0;  // for heads of this part
        const auto store_run = [=](unsigned k, bool value, bool length) {
            const unsigned at = List::at(list + 2 * k);
            if (value && k < room) values[heads + k] = value_at(at);
            if (length && k > 0 && k <= room) lengths[heads + k - 1] = L(at - List::at(list + 2 * k - 2));
            if (k == 0 && heads > 0) finish(heads - 1, before.open + at);
        };
        // Fours of lengths of the runs before heads k to k + 3, and of values of heads
        // k - 1 to k + 2, from k = begin on, which is at least 1. Few runs are done
        // sooner one by one.
        const unsigned begin = 4 - lead;
        unsigned fours = 0;
        if (size > 2 * warp_size && size <= room && is_aligned(values, minimum(16, 4 * int(sizeof(V)))) && is_aligned(lengths, 16)) fours = (size - begin) / 4;
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
    alignas(128) unsigned char list[maximum(HeadList<select_part<V>>::bytes, unsigned(scratch_bytes + 112) / 128 * 128)];
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
    RunLookBack look_back(pass, lane);
    static_assert(select_tile<V> < 1 << 16, "a tile's total is a word");

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
        const auto heads = scratch.heads.exchange(keep, lane);
        const RunSummary<uint32_t> own = heads.runs(held, lane);
        if (lane == 0) totals.get()[part] = own;
        __syncthreads();
        if (part == 0) {
            RunSummary<uint32_t> total = own;
            for (int p = 1; p < select_parts; p++) total = JoinRuns<uint32_t>::combine(total, totals.get()[p]);
            if (lane == 0 && !pass.one_tile()) RunTotals(pass).publish(tile, total);
            const RunSummary<uint64_t> prefix = look_back.prefix(tile, lane);
            if (lane == 0) tile_prefix.get()[0] = prefix;
        }
        __syncthreads();
        RunSummary<uint64_t> before = tile_prefix.get()[0];
        for (unsigned p = 0; p < part; p++) before = JoinRuns<uint64_t>::combine(before, totals.get()[p]);
        const V *const from = in + index;
        output.store(heads, held, before, tile == tiles - 1 && part == select_parts - 1, [=](unsigned k) { return from[k]; }, list, lane);
    }
}

#if __CUDA_ARCH__ >= 900

// rle_encode_bulk divides a block's warps into roles, as scan_bulk does. Reducers
// find the heads and leave them as bits for the writers, which read no elements
// but those that begin runs. They share every tile, so that it keeps its stage for a
// short time; one of them, in turn, sums up the tile.
//
// A lane's vectors of a part follow each other: only the first has its neighbour in
// another lane's, heads need no exchange, and as their number is odd, lanes that load
// theirs from shared memory do not meet in a bank.
constexpr int encode_parts = 8;
constexpr int encode_vectors = 7;
constexpr int encode_stages = 5;
constexpr int encode_reducers = 4;
constexpr int encode_block = (2 + encode_reducers + encode_parts) * warp_size;
static_assert(encode_parts % encode_reducers == 0, "reducers have as many parts each");

constexpr int encode_part_bytes = encode_vectors * warp_size * 16;
template <class V>
constexpr int encode_lane = encode_vectors * vector_width<V>;
template <class V>
constexpr int encode_part = warp_size * encode_lane<V>;
template <class V>
constexpr int encode_tile = encode_parts * encode_part<V>;
template <class V>
using LaneHeads = Heads<encode_lane<V>, 32>;

// A stage's tile is preceded by the 16 bytes that precede it in memory.
constexpr int stage_lead = 16;

template <class V>
struct EncodeStages {
    alignas(128) unsigned char tile[encode_stages][stage_lead + encode_parts * encode_part_bytes];
    alignas(128) unsigned char scratch[encode_parts][HeadList<encode_part<V>>::bytes];
    uint32_t heads[encode_stages][encode_parts][LaneHeads<V>::words][warp_size];
    alignas(16) unsigned char prefix[encode_stages][sizeof(RunSummary<uint64_t>)];
    alignas(16) unsigned char before[encode_stages][encode_parts][sizeof(RunSummary<uint32_t>)];  // a part's sum, then what precedes it in the tile
    uint64_t index[encode_stages];
    Barrier full[encode_stages];   // the tile is there
    Barrier found[encode_stages];  // heads and the parts' sums are there
    Barrier ready[encode_stages];  // prefix and before are there
    Barrier empty[encode_stages];  // the writers are done with it
};

// LaneVectors are a lane's of a part, and what is before them.
template <class V>
struct LaneVectors {
    static constexpr unsigned vw = vector_width<V>;
    uint32_t word[encode_vectors][4];
    Last<V> before[1];

    // load loads them from an address in shared memory.
    __device__ __forceinline__ void load(uint32_t from) {
        load_shared(before, from - sizeof(before));
#pragma unroll
        for (int j = 0; j < encode_vectors; j++) load_shared(word[j], from + j * 16);
    }
    // load_held does where held elements are there, and nothing before the first of all.
    __device__ __forceinline__ void load_held(uint32_t from, unsigned held, bool first) {
        before[0] = 0;
        if (!first && held > 0) load_shared(before, from - sizeof(before));
#pragma unroll
        for (unsigned j = 0; j < encode_vectors; j++) {
            word[j][0] = word[j][1] = word[j][2] = word[j][3] = 0;
            if (j * vw < held) load_shared(word[j], from + j * 16);
        }
    }
    __device__ __forceinline__ LaneHeads<V> heads() const {
        LaneHeads<V> heads = {};
        Last<V> previous = before[0];
#pragma unroll
        for (int j = 0; j < encode_vectors; j++) {
            heads.word[j * vw / 32] |= differing_in<V>(word[j], previous) << j * vw % 32;
            previous = last_of<V>(word[j]);
        }
        return heads;
    }
};

// rle_encode_bulk needs the input aligned to 16 bytes, and dynamic shared memory
// for EncodeStages.
template <class V, class L>
__device__ __forceinline__ void rle_encode_bulk(const V *in, uint64_t n, const RunOutput<V, L> &output, const Pass &pass) {
    alignas(128) extern __shared__ unsigned char dynamic_shared[];
    auto &stages = *reinterpret_cast<EncodeStages<V> *>(dynamic_shared);
    constexpr int words = LaneHeads<V>::words;
    static_assert(sizeof(stages) <= encode_stages * (stage_lead + encode_parts * (encode_part_bytes + words * warp_size * 4)) +
                                        encode_parts * HeadList<encode_part<V>>::bytes + 2048,
                  "the launch gives 2 KiB beside tiles, heads and scratch");
    const unsigned lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size;
    const uint64_t tiles = ceil_div<uint64_t>(n, encode_tile<V>);

    if (threadIdx.x == 0) {
        for (int s = 0; s < encode_stages; s++) {
            stages.full[s].init(1);
            stages.found[s].init(encode_reducers * warp_size);
            stages.ready[s].init(2 * warp_size);
            stages.empty[s].init(encode_parts * warp_size);
        }
        fence_barriers();
    }
    __syncthreads();

    if (warp == 0) {
        if (lane > 0) return;
        load_tiles<encode_stages, 1>(
            stages, pass, tiles,
            [&](int s, uint64_t tile) {
                const V *const from = in + tile * encode_tile<V>;
                const unsigned lead = tile > 0 ? stage_lead : 0;
                unsigned char *const to = stages.tile[s] + stage_lead;
                const unsigned bytes = lead + fetch_rest(to, from, held_of(n, tile * encode_tile<V>, encode_tile<V>) * sizeof(V));
                stages.full[s].announce(bytes);
                if (bytes > 0) bulk_load(to - lead, reinterpret_cast<const unsigned char *>(from) - lead, bytes, stages.full[s]);
            },
            [&](int s) { stages.full[s].arrive(); });
        return;
    }

    // What a role takes of a stage: where its elements, heads and sums are.
    const auto held_in_tile = [=](uint64_t tile) { return held_of(n, tile * encode_tile<V>, encode_tile<V>); };
    const auto held_in = [](unsigned held, unsigned first, unsigned size) { return first < held ? minimum(held - first, size) : 0; };
    const auto elements_of = [&](unsigned s) { return shared_address(stages.tile) + stage_lead + s * unsigned(sizeof(stages.tile[0])); };
    const auto bits_of_lane = [&](unsigned s) { return shared_address(stages.heads) + 4 * lane + s * unsigned(sizeof(stages.heads[0])); };
    const auto before_of = [&](unsigned s) { return shared_address(stages.before) + s * unsigned(sizeof(stages.before[0])); };

    if (warp == 1) {
        RunLookBack look_back(pass, lane);
        over_stages<encode_stages, 1>(stages, tiles, 0, [&](unsigned s, unsigned, uint64_t tile) PTXRUN_INLINE {
            const RunSummary<uint64_t> prefix = look_back.prefix(tile, lane);
            if (lane == 0) put_shared(stages.prefix[s], prefix);
            stages.ready[s].arrive();
        });
    } else if (warp < 2 + encode_reducers) {
        const unsigned reducer = warp - 2;
        static_assert(encode_tile<V> < 1 << 16, "a tile's total is a word");
        const RunTotals totals(pass);
        unsigned turn = 0;
        over_stages<encode_stages, 1>(stages, tiles, 0, [&](unsigned s, unsigned parity, uint64_t tile) PTXRUN_INLINE {
            constexpr int own = encode_parts / encode_reducers;
            const unsigned held = held_in_tile(tile);
            const uint32_t bits = bits_of_lane(s), before = before_of(s);
            const bool whole = tile > 0 && held == encode_tile<V>;
            LaneVectors<V> x[own];
            LaneHeads<V> heads[own];
            const auto place = [=](int k) { return (reducer + k * encode_reducers) * encode_part<V> + lane * encode_lane<V>; };
            const uint32_t first = elements_of(s) + reducer * encode_part_bytes + lane * (encode_vectors * 16);
            constexpr uint32_t step = encode_reducers * encode_part_bytes;
            if (whole) {
#pragma unroll
                for (int k = 0; k < own; k++) x[k].load(first + k * step);
            } else {
#pragma unroll
                for (int k = 0; k < own; k++) x[k].load_held(first + k * step, held_in(held, place(k), encode_lane<V>), tile == 0 && place(k) == 0);
            }
#pragma unroll
            for (int k = 0; k < own; k++) heads[k] = x[k].heads();
            if (!whole) {
                if (tile == 0 && place(0) == 0) heads[0].word[0] |= 1;
#pragma unroll
                for (int k = 0; k < own; k++) heads[k].limit(held_in(held, place(k), encode_lane<V>));
            }
#pragma unroll
            for (int k = 0; k < own; k++) {
                const unsigned p = reducer + k * encode_reducers;
#pragma unroll
                for (int w = 0; w < words; w++) put_shared(bits + p * sizeof(stages.heads[0][0]) + w * 4 * warp_size, heads[k].word[w]);
                const RunSummary<uint32_t> sum = heads[k].runs(held_in(held, p * encode_part<V>, encode_part<V>), lane);
                if (lane == 0) put_shared(before + p * sizeof(sum), sum);
            }
            stages.found[s].arrive();
            if (turn == reducer) {
                stages.found[s].wait(parity);
                if (lane == 0) {
                    RunSummary<uint32_t> sum[encode_parts], total = JoinRuns<uint32_t>::identity();
#pragma unroll
                    for (int p = 0; p < encode_parts; p++) sum[p] = get_shared<RunSummary<uint32_t>>(before + p * sizeof(total));
#pragma unroll
                    for (int p = 0; p < encode_parts; p++) {
                        put_shared(before + p * sizeof(total), total);
                        total = JoinRuns<uint32_t>::combine(total, sum[p]);
                    }
                    totals.publish(tile, total);
                }
                stages.ready[s].arrive();
            }
            if (++turn == encode_reducers) turn = 0;
        });
    } else {
        const unsigned part = warp - 2 - encode_reducers;
        const uint32_t scratch = shared_address(stages.scratch) + part * sizeof(stages.scratch[0]);
        over_stages<encode_stages, 1>(stages, tiles, 0, [&](unsigned s, unsigned parity, uint64_t tile) PTXRUN_INLINE {
            stages.ready[s].wait(parity);
            LaneHeads<V> heads;
#pragma unroll
            for (int w = 0; w < words; w++) heads.word[w] = get_shared<uint32_t>(bits_of_lane(s) + part * sizeof(stages.heads[0][0]) + w * 4 * warp_size);
            const RunSummary<uint64_t> prefix = get_shared<RunSummary<uint64_t>>(stages.prefix[s]);
            const RunSummary<uint32_t> inside = get_shared<RunSummary<uint32_t>>(before_of(s) + part * sizeof(inside));
            const uint32_t elements = elements_of(s) + part * encode_part_bytes;
            const auto value_at = [=](unsigned k) { return get_shared<V>(elements + k * sizeof(V)); };
            output.store(heads, held_in(held_in_tile(tile), part * encode_part<V>, encode_part<V>), JoinRuns<uint64_t>::combine(prefix, inside),
                         tile == tiles - 1 && part == encode_parts - 1, value_at, scratch, lane);
            stages.empty[s].arrive();
        });
    }
}

#endif

}  // namespace ptxrun
