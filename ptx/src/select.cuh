#pragma once

#include "block.cuh"
#include "bulk.cuh"
#include "look_back.cuh"
#include "op.cuh"

// Compaction in a single pass: the elements that a criterion keeps go to the
// front of the output in their order. Every element is read once and every kept
// one written once. Blocks stay and take tiles by ticket, publish how many of a
// tile's elements they keep, and look back over the tiles before for where theirs
// go.
//
// A tile is select_parts parts, a warp's work each, of select_rows rows of 32
// vectors of 16 bytes. A warp brings what it keeps together in shared memory, so
// that it goes out in whole vectors.
//
// In place, one tile's output lies where elements of earlier tiles and of its own
// were, never later ones: no element moves up. It is stored after the look-back
// has seen those tiles' totals, and a total is published after the tile's
// elements are loaded, both with a fence between. One load is not covered: where
// neighbours are compared, a tile also reads the last element of the tile before,
// which may be stored by that tile itself; but only if nothing up to it is
// dropped, and parts that stay where they are are not stored.

namespace ptxrun {

constexpr int select_parts = 8;
constexpr int select_rows = 6;
constexpr int select_block = select_parts * warp_size;
constexpr int select_part_bytes = select_rows * warp_size * 16;
constexpr int select_stages_bytes = 196608;  // of select_bulk: as many stages as fit

template <class V>
constexpr int select_part = select_rows * warp_size * vector_width<V>;
template <class V>
constexpr int select_tile = select_parts * select_part<V>;

// Scratch is a warp's own shared memory: a part, at any distance from a 16-byte
// boundary.
constexpr int scratch_bytes = select_part_bytes + 16;

// Rows are a part's elements: a lane has a vector of each row.
template <class V>
struct Rows {
    static constexpr int vw = vector_width<V>;
    uint32_t word[select_rows][4];

    __device__ __forceinline__ V at(int j, int i) const {
        if constexpr (sizeof(V) == 8) {
            return V(word[j][2 * i]) | V(word[j][2 * i + 1]) << 32;
        } else {
            return V(word[j][i * sizeof(V) / 4] >> (8 * (i * sizeof(V) % 4)));
        }
    }
};

// Keep says which of a lane's elements are kept: bit i of row j, element i of its
// vector there.
struct Keep {
    unsigned bits[select_rows];
};

// all_before has a bit for each element of the lane's vector in row j that is one
// of the part's first held.
template <int vw>
__device__ __forceinline__ unsigned all_before(unsigned held, int j, unsigned lane) {
    const unsigned k = (j * warp_size + lane) * vw;
    return k < held ? (2u << (minimum<unsigned>(held - k, vw) - 1)) - 1 : 0;
}

// Criteria. ByFlag keeps elements whose flag is not zero.
struct ByFlag {
    const uint8_t *flags;
};

// ByValue keeps elements in the range from low over span, or, if negate is not
// zero, the others. fold is what the sign of an element adds to it by exclusive or,
// so that the bits of negative floats are in order; it is zero for integers.
// Arithmetic modulo the width does for signed and unsigned ones.
template <class V>
struct ByValue {
    V fold, low, span;
    uint32_t negate;

    __device__ __forceinline__ void operator()(Keep &keep, const Rows<V> &x) const {
#pragma unroll
        for (int j = 0; j < select_rows; j++) {
            unsigned bits = negate != 0 ? (1u << Rows<V>::vw) - 1 : 0;
#pragma unroll
            for (int i = 0; i < Rows<V>::vw; i++) {
                const V v = x.at(j, i);
                const V sign = V(0) - V(v >> (8 * sizeof(V) - 1));
                bits ^= unsigned(V((v ^ (sign & fold)) - low) <= span) << i;
            }
            keep.bits[j] = bits;
        }
    }
};

// ByNeighbour keeps elements that differ from the one before.
struct ByNeighbour {};

// nonzero_bytes of two words has bits 24 to 27 for the first and 28 to 31 for the
// second, and anything below: one product does for both.
__device__ __forceinline__ unsigned nonzero_bytes(uint32_t v, uint32_t w) {
    const uint32_t a = ((v & 0x7f7f7f7fu) + 0x7f7f7f7fu) | v, b = ((w & 0x7f7f7f7fu) + 0x7f7f7f7fu) | w;
    return ((a >> 4 & 0x08080808u) | (b & 0x80808080u)) * 0x00204081u;
}

// nonzero_halves is nonzero_bytes of 16 bits.
__device__ __forceinline__ unsigned nonzero_halves(uint32_t w) {
    const uint32_t high = (((w & 0x7fff7fffu) + 0x7fff7fffu) | w) & 0x80008000u;
    return (high | high << 15) >> 30;
}

// Last is what of a vector is compared with the next one: its last word, or its last
// element if that is wider.
template <class V>
using Last = decltype(V() | 0u);

template <class V>
__device__ __forceinline__ Last<V> last_of(const uint32_t (&w)[4]) {
    if constexpr (sizeof(V) == 8) {
        return V(w[2]) | V(w[3]) << 32;
    } else {
        return w[3];
    }
}

// differing_in has a bit for each element of a vector that differs from the one
// before, where previous ends in what stands before the vector. Narrow elements are
// compared a word at a time.
template <class V>
__device__ __forceinline__ unsigned differing_in(const uint32_t (&w)[4], Last<V> previous) {
    if constexpr (sizeof(V) == 8) {
        const V a = V(w[0]) | V(w[1]) << 32, b = last_of<V>(w);
        return unsigned(a != previous) | unsigned(b != a) << 1;
    } else {
        uint32_t changed[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            changed[i] = w[i] ^ (sizeof(V) == 4 ? previous : __byte_perm(previous, w[i], sizeof(V) == 1 ? 0x6543 : 0x5432));
            previous = w[i];
        }
        if constexpr (sizeof(V) == 1) {
            return __byte_perm(nonzero_bytes(changed[0], changed[1]), nonzero_bytes(changed[2], changed[3]) >> 24, 0x5543);
        } else {
            unsigned bits = 0;
#pragma unroll
            for (int i = 0; i < 4; i++) bits |= (sizeof(V) == 2 ? nonzero_halves(changed[i]) << (2 * i) : unsigned(changed[i] != 0) << i);
            return bits;
        }
    }
}

// differing compares a part's elements with their neighbours; before is what
// stands before the part, if it is not the first of all.
template <class V>
__device__ __forceinline__ void differing(Keep &keep, const Rows<V> &x, V before, bool first, unsigned lane) {
    Last<V> left = Last<V>(before) << 8 * (sizeof(Last<V>) - sizeof(V));
#pragma unroll
    for (int j = 0; j < select_rows; j++) {
        const Last<V> end = last_of<V>(x.word[j]), neighbour = shuffle_up(end, 1);
        keep.bits[j] = differing_in<V>(x.word[j], lane > 0 ? neighbour : left);
        left = shuffle(end, warp_size - 1);
    }
    if (first && lane == 0) keep.bits[0] |= 1;
}

template <int vw>
__device__ __forceinline__ unsigned nonzero(const uint8_t (&flags)[vw]) {
    uint32_t w[(vw + 3) / 4] = {};
    copy_bytes(w, flags, vw);
    unsigned bits = 0;
#pragma unroll
    for (int i = 0; i < (vw + 3) / 4; i++) bits |= nonzero_bytes(w[i]) << (4 * i);
    return bits;
}

// stage_part copies the first held of a part's elements to scratch, and zeros
// behind them, in accesses of an element: for parts not whole or not aligned.
template <int part, class T>
__device__ __forceinline__ void stage_part(uint32_t scratch, const T *from, unsigned held, unsigned lane) {
    __syncwarp();
#pragma unroll 1
    for (unsigned first = lane; first < part; first += select_rows * warp_size) {
        T v[select_rows] = {};
        if (held > 0) {
#pragma unroll
            for (int j = 0; j < select_rows; j++) v[j] = from[minimum(first + j * warp_size, held - 1)];
        }
#pragma unroll
        for (int j = 0; j < select_rows; j++) {
            const unsigned k = first + j * warp_size;
            if (k >= held) v[j] = 0;
            uint32_t w[sizeof(T) == 8 ? 2 : 1] = {};
            copy_bytes(w, &v[j], sizeof(T));
            store_shared_if<sizeof(T)>(1, scratch + k * sizeof(T), w[0], w[sizeof(T) / 8]);
        }
    }
    __syncwarp();
}

// load_rows loads a part, of which held elements are there; the rest is zeros.
template <class V>
__device__ __forceinline__ void load_rows(Rows<V> &x, const V *part, unsigned held, bool aligned, uint32_t scratch, unsigned lane) {
    if (aligned && held == select_part<V>) {
#pragma unroll
        for (int j = 0; j < select_rows; j++) load_wide(x.word[j], reinterpret_cast<const uint32_t *>(part) + (j * warp_size + lane) * 4);
        return;
    }
    stage_part<select_part<V>>(scratch, part, held, lane);
#pragma unroll
    for (int j = 0; j < select_rows; j++) load_shared(x.word[j], scratch + (j * warp_size + lane) * 16);
    __syncwarp();
}

// load_flags is load_rows for flags, of which vw go with a vector.
template <int vw>
__device__ __forceinline__ void load_flags(Keep &keep, const uint8_t *part, unsigned held, bool aligned, uint32_t scratch, unsigned lane) {
    constexpr int flags = select_rows * warp_size * vw;
    uint8_t f[select_rows][vw];
    if (aligned && held == flags) {
#pragma unroll
        for (int j = 0; j < select_rows; j++) load_wide(f[j], part + (j * warp_size + lane) * vw);
    } else {
        stage_part<flags>(scratch, part, held, lane);
#pragma unroll
        for (int j = 0; j < select_rows; j++) load_shared(f[j], scratch + (j * warp_size + lane) * vw);
        __syncwarp();
    }
#pragma unroll
    for (int j = 0; j < select_rows; j++) keep.bits[j] = nonzero(f[j]);
}

// Places are where the kept elements of each of a lane's vectors go in what the
// part keeps.
struct Places {
    unsigned at[select_rows];
    unsigned total;

    // Counts of several rows are scanned in one word.
    template <int vw>
    __device__ __forceinline__ void scan(const Keep &keep, unsigned lane) {
        constexpr int bits = vw * warp_size < 256 ? 8 : 16, each = 32 / bits;
        constexpr int words = (select_rows + each - 1) / each;
        total = 0;
#pragma unroll
        for (int k = 0; k < words; k++) {
            uint32_t own = 0;
#pragma unroll
            for (int j = k * each; j < minimum((k + 1) * each, select_rows); j++) own |= unsigned(__popc(keep.bits[j])) << (j % each * bits);
            const uint32_t inclusive = warp_scan<Sum<uint32_t>>(own, lane);
            const uint32_t before = inclusive - own, all = shuffle(inclusive, warp_size - 1);
#pragma unroll
            for (int j = k * each; j < minimum((k + 1) * each, select_rows); j++) {
                constexpr uint32_t mask = ~0u >> (32 - bits);
                at[j] = total + (before >> (j % each * bits) & mask);
                total += all >> (j % each * bits) & mask;
            }
        }
    }
};

// kept_in is how many elements of a part are kept; all lanes get it.
__device__ __forceinline__ unsigned kept_in(const Keep &keep) {
    unsigned sum = 0;
#pragma unroll
    for (int j = 0; j < select_rows; j++) sum += __popc(keep.bits[j]);
    return shuffle(warp_reduce<Sum<uint32_t>>(sum), 0);
}

// store_kept stores what the part keeps from out on, through scratch, where it
// lies at the same distance from a 16-byte boundary as in memory.
template <class V>
__device__ __forceinline__ void store_kept(V *out, const Rows<V> &x, const Keep &keep, const Places &places, uint32_t scratch, unsigned lane) {
    constexpr unsigned vw = Rows<V>::vw, size = sizeof(V);
    const unsigned lead = reinterpret_cast<uintptr_t>(out) / size % vw;
    const uint32_t first = scratch + lead * size;
#pragma unroll
    for (int j = 0; j < select_rows; j++) {
        uint32_t to = first + places.at[j] * size;
#pragma unroll
        for (int i = 0; i < int(vw); i++) {
            const unsigned kept = keep.bits[j] >> i & 1;
            if constexpr (size == 8) {
                store_shared_if<8>(kept, to, x.word[j][2 * i], x.word[j][2 * i + 1]);
            } else {
                store_shared_if<size>(kept, to, x.word[j][i * size / 4] >> (8 * (i * size % 4)));
            }
            to += kept * size;
        }
    }
    __syncwarp();
    // Elements before the first 16-byte boundary, then vectors, then the rest.
    const unsigned head = minimum(places.total, (vw - lead) % vw), vectors = (places.total - head) / vw;
    const auto copy_one = [=](unsigned k) {
        V v[1];
        load_shared(v, first + k * size);
        out[k] = v[0];
    };
    if (lane < head) copy_one(lane);
    for (unsigned k = lane; k < vectors; k += warp_size) {
        uint32_t w[4];
        load_shared(w, first + head * size + k * 16);
        store_wide(reinterpret_cast<uint32_t *>(out + head) + k * 4, w);
    }
    const unsigned done = head + vectors * vw;
    if (lane < places.total - done) copy_one(done + lane);
    __syncwarp();
}

// What happens to the count and to elements that are not kept.
enum SelectMode : uint32_t {
    select_count,      // the kernel stores the count; out holds any number
    select_if_fits,    // *count is there; nothing is stored if it is above capacity
    select_partition,  // *count is there; the others go behind the kept ones, in order
};

// Output is where a kernel's elements go.
template <class V>
struct Output {
    V *out;
    uint64_t *count;
    uint64_t capacity;
    uint32_t mode;

    __device__ __forceinline__ bool fits() const { return mode != select_if_fits || *count <= capacity; }

    // store stores a part of the input: held elements from number index on, of
    // which x holds this lane's, with before kept ones before them. in is the
    // input, or null.
    __device__ __forceinline__ void store(const V *in, uint64_t index, unsigned held, uint64_t before, const Rows<V> &x, Keep keep, Places places,
                                          uint32_t scratch, unsigned lane) const {
        if (out == in && before == index && places.total == held) return;
        V *to = out + before;
#pragma unroll 1
        for (bool rest = false;; rest = true) {
            store_kept(to, x, keep, places, scratch, lane);
            if (rest || mode != select_partition) return;
            to = out + *count + (index - before);
            places.total = held - places.total;
#pragma unroll
            for (int j = 0; j < select_rows; j++) {
                places.at[j] = (j * warp_size + lane) * Rows<V>::vw - places.at[j];
                keep.bits[j] = all_before<Rows<V>::vw>(held, j, lane) & ~keep.bits[j];
            }
        }
    }
};

// Input is where the elements come from: memory, or, where only their numbers are
// wanted, nowhere.
template <class V, class Criterion>
struct Input {
    static constexpr int vw = Rows<V>::vw;
    static constexpr bool by_flag = is_same<Criterion, ByFlag>, by_neighbour = is_same<Criterion, ByNeighbour>;
    const V *in;  // null: the elements are their numbers
    Criterion criterion;
    bool aligned;

    __device__ __forceinline__ Input(const V *in, const Criterion &c) : in(in), criterion(c), aligned(is_aligned(in, 16)) {
        if constexpr (by_flag) aligned = aligned && is_aligned(c.flags, vw);
    }

    // load loads a part, of which held elements from number index on are there, and
    // decides on them.
    __device__ __forceinline__ void load(Rows<V> &x, Keep &keep, uint64_t index, unsigned held, bool values, uint32_t scratch, unsigned lane) const {
        if (values) load_rows(x, in + index, held, aligned, scratch, lane);
        if constexpr (by_flag) {
            load_flags<vw>(keep, criterion.flags + index, held, aligned, scratch, lane);
            return;
        } else if constexpr (by_neighbour) {
            V before = 0;
            if (held > 0 && index > 0) before = in[index - 1];
            differing(keep, x, before, index == 0, lane);
        } else {
            criterion(keep, x);
        }
        if (held < select_part<V>) {
#pragma unroll
            for (int j = 0; j < select_rows; j++) keep.bits[j] &= all_before<vw>(held, j, lane);
        }
    }
};

// number makes x the numbers of a part's elements, the first of which is index.
template <class V>
__device__ __forceinline__ void number(Rows<V> &x, uint64_t index, unsigned lane) {
    constexpr int vw = Rows<V>::vw;
#pragma unroll
    for (int j = 0; j < select_rows; j++) {
#pragma unroll
        for (int i = 0; i < vw; i++) {
            const V v = V(index + (j * warp_size + lane) * vw + i);
            copy_bytes(&x.word[j][i * sizeof(V) / 4], &v, sizeof(V));
        }
    }
}

// held_of is how many of n elements lie in the size from number first on.
__device__ __forceinline__ unsigned held_of(uint64_t n, uint64_t first, unsigned size) {
    return first < n ? minimum<uint64_t>(size, n - first) : 0;
}

using CountLookBack = LookBack<Sum<uint32_t>, Sum<uint64_t>>;

// select_pass holds a tile in registers, a warp a part. Several blocks a
// multiprocessor, one waiting while others load, keep the memory busy. Without
// state there is one tile. out may be in.
template <bool values, class V, class Criterion>
__device__ __forceinline__ void select_pass(const Input<V, Criterion> &input, uint64_t n, const Output<V> &output, const Pass &pass) {
    alignas(16) __shared__ unsigned char scratch_memory[select_parts][scratch_bytes];
    __shared__ uint32_t totals[select_parts];
    __shared__ uint64_t ticket, tile_prefix;
    const unsigned lane = threadIdx.x % warp_size, part = threadIdx.x / warp_size;
    const uint32_t scratch = shared_address(scratch_memory[part]);
    const uint64_t tiles = ceil_div<uint64_t>(n, select_tile<V>);
    if (!output.fits()) return;
    const bool in_place = input.in == output.out;
    CountLookBack look_back(pass, 0);

    for (uint64_t round = 0;; round++) {
        if (threadIdx.x == 0) ticket = pass.one_tile() ? round : pass.take_ticket();
        __syncthreads();
        const uint64_t tile = ticket;
        if (tile >= tiles) return;
        const uint64_t index = tile * select_tile<V> + part * select_part<V>;
        const unsigned held = held_of(n, index, select_part<V>);

        Rows<V> x;
        Keep keep;
        Places places;
        input.load(x, keep, index, held, values, scratch, lane);
        places.template scan<Rows<V>::vw>(keep, lane);
        if (lane == 0) totals[part] = places.total;
        __syncthreads();
        if (part == 0) {
            uint32_t total = 0;
            for (int p = 0; p < select_parts; p++) total += totals[p];
            if (lane == 0 && !pass.one_tile()) {
                if (in_place) fence_acq_rel();
                look_back.totals.publish(tile, total);
            }
            const uint64_t prefix = look_back.prefix(tile, lane);
            if (in_place) fence_acq_rel();
            if (lane == 0) tile_prefix = prefix;
        }
        __syncthreads();
        uint64_t before = tile_prefix;
        for (unsigned p = 0; p < part; p++) before += totals[p];
        if (!values) number(x, index, lane);
        output.store(input.in, index, held, before, x, keep, places, scratch, lane);
        if (output.mode == select_count && tile == tiles - 1 && part == select_parts - 1 && lane == 0) *output.count = before + places.total;
    }
}

// select_counted adds how many elements are kept to *count. Any grid will do.
template <class V, class Criterion>
__device__ __forceinline__ void select_counted(const Input<V, Criterion> &input, uint64_t n, uint64_t *count) {
    alignas(16) __shared__ unsigned char scratch_memory[select_parts][scratch_bytes];
    const unsigned lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size;
    const uint32_t scratch = shared_address(scratch_memory[warp]);
    uint64_t kept = 0;
    const uint64_t stride = uint64_t(gridDim.x) * select_tile<V>;
    for (uint64_t index = uint64_t(blockIdx.x) * select_tile<V> + warp * select_part<V>; index < n; index += stride) {
        Rows<V> x;
        Keep keep;
        input.load(x, keep, index, held_of(n, index, select_part<V>), !Input<V, Criterion>::by_flag, scratch, lane);
        kept += kept_in(keep);
    }
    if (lane == 0 && kept > 0) atomic_add(count, kept);
}

#if __CUDA_ARCH__ >= 900

// select_bulk divides a block's warps into roles, as scan_bulk does: one takes
// tickets and issues bulk copies of whole tiles into a ring of stages in shared
// memory; reducers, a tile each in turn, count and publish what it keeps; one
// looks back; and writers, a part each, bring together and store it.
template <class V, class Criterion>
struct SelectShape {
    static constexpr int flag_bytes = Input<V, Criterion>::by_flag ? select_tile<V> : 0;
    static constexpr int stages = select_stages_bytes / (select_parts * select_part_bytes + flag_bytes);
    // A stage is always the same reducer's, or it could be a phase ahead.
    static constexpr int reducers = stages % 4 == 0 ? 4 : stages % 3 == 0 ? 3 : stages % 2 == 0 ? 2 : 1;
    static constexpr int block = (2 + reducers + select_parts) * warp_size;
};

template <class V, class Criterion>
struct SelectStages {
    using Shape = SelectShape<V, Criterion>;
    static constexpr int stages = Shape::stages;
    alignas(128) unsigned char tile[stages][select_parts * select_part_bytes];
    alignas(16) unsigned char flags[stages][Shape::flag_bytes + 16];
    alignas(16) unsigned char scratch[select_parts][scratch_bytes];
    alignas(16) unsigned char previous[stages][8];  // what stands before the tile
    uint64_t index[stages], prefix[stages];
    uint32_t before[stages][select_parts];  // kept by a part's predecessors in the tile
    Barrier full[stages];                   // the tile is there
    Barrier ready[stages];                  // prefix and before are there
    Barrier empty[stages];                  // the tile is in the writers' registers

    // load is Input::load from a stage.
    __device__ __forceinline__ void load(Rows<V> &x, Keep &keep, const Criterion &criterion, int s, int part, uint64_t index, unsigned held, bool values,
                                         unsigned lane) const {
        constexpr int vw = Rows<V>::vw;
        const unsigned char *const from = tile[s] + part * select_part_bytes;
        const bool whole = held == select_part<V>;
        if (values || !Input<V, Criterion>::by_flag) {
#pragma unroll
            for (int j = 0; j < select_rows; j++) {
                const unsigned k = j * warp_size + lane;
                if (whole || k * vw < held) {
                    load_shared(x.word[j], from + k * 16);
                } else {
                    x.word[j][0] = x.word[j][1] = x.word[j][2] = x.word[j][3] = 0;
                }
            }
        }
        if constexpr (Input<V, Criterion>::by_flag) {
#pragma unroll
            for (int j = 0; j < select_rows; j++) {
                const unsigned k = (j * warp_size + lane) * vw;
                uint8_t f[vw] = {};
                if (whole || k < held) load_shared(f, flags[s] + part * select_part<V> + k);
                keep.bits[j] = nonzero(f);
            }
            return;
        } else if constexpr (Input<V, Criterion>::by_neighbour) {
            V before[1] = {};
            if (part == 0) {
                load_shared(before, previous[s]);
            } else if (held > 0) {
                load_shared(before, from - sizeof(V));
            }
            differing(keep, x, before[0], index == 0, lane);
        } else {
            criterion(keep, x);
        }
        if (!whole) {
#pragma unroll
            for (int j = 0; j < select_rows; j++) keep.bits[j] &= all_before<vw>(held, j, lane);
        }
    }
};

// select_bulk needs the input aligned to 16 bytes, and dynamic shared memory for
// SelectStages. out may be in.
template <class V, class Criterion>
__device__ __forceinline__ void select_bulk(const Input<V, Criterion> &input, uint64_t n, const Output<V> &output, const Pass &pass) {
    using Shape = SelectShape<V, Criterion>;
    using In = Input<V, Criterion>;
    alignas(128) extern __shared__ unsigned char dynamic_shared[];
    auto &stages = *reinterpret_cast<SelectStages<V, Criterion> *>(dynamic_shared);
    static_assert(sizeof(stages) <= Shape::stages * (select_parts * select_part_bytes + Shape::flag_bytes) + select_parts * scratch_bytes + 2048,
                  "the launch gives 2 KiB beside the tiles and scratch");
    const unsigned lane = threadIdx.x % warp_size, warp = threadIdx.x / warp_size;
    const uint64_t tiles = ceil_div<uint64_t>(n, select_tile<V>);
    if (!output.fits()) return;
    const bool in_place = input.in == output.out;

    if (threadIdx.x == 0) {
        for (int s = 0; s < Shape::stages; s++) {
            stages.full[s].init(1 + In::by_neighbour);
            stages.ready[s].init(2 * warp_size);
            stages.empty[s].init(select_parts * warp_size);
        }
        fence_barriers();
    }
    __syncthreads();

    if (warp == 0) {
        if (lane > 0) return;
        load_tiles<Shape::stages, Shape::reducers>(
            stages, pass, tiles,
            [&](int s, uint64_t tile) {
                const uint64_t first = tile * select_tile<V>;
                const unsigned held = held_of(n, first, select_tile<V>);
                const unsigned bytes = fetch_rest(stages.tile[s], input.in + first, held * sizeof(V));
                unsigned flag_bytes = 0;
                if constexpr (In::by_flag) flag_bytes = fetch_rest(stages.flags[s], input.criterion.flags + first, held);
                stages.full[s].announce(bytes + flag_bytes);
                if (bytes > 0) bulk_load(stages.tile[s], input.in + first, bytes, stages.full[s]);
                if constexpr (In::by_flag) {
                    if (flag_bytes > 0) bulk_load(stages.flags[s], input.criterion.flags + first, flag_bytes, stages.full[s]);
                }
                if constexpr (In::by_neighbour) {
                    const V previous = first > 0 ? input.in[first - 1] : V(0);
                    copy_bytes(stages.previous[s], &previous, sizeof(V));
                    stages.full[s].arrive();
                }
            },
            [&](int s) {
                stages.full[s].arrive();
                if (In::by_neighbour) stages.full[s].arrive();
            });
        return;
    }

    if (warp == 1) {
        CountLookBack look_back(pass, 0);
        over_stages<Shape::stages, 1>(stages, tiles, 0, [&](unsigned s, unsigned, uint64_t tile) PTXRUN_INLINE {
            const uint64_t prefix = look_back.prefix(tile, lane);
            if (in_place) {
                fence_acq_rel();
                __syncwarp();
            }
            if (lane == 0) stages.prefix[s] = prefix;
            stages.ready[s].arrive();
        });
    } else if (warp < 2 + Shape::reducers) {
        const TileTotals<uint32_t> totals{pass.status(), pass.mark()};
        over_stages<Shape::stages, Shape::reducers>(stages, tiles, warp - 2, [&](unsigned s, unsigned, uint64_t tile) PTXRUN_INLINE {
            unsigned total = 0;
#pragma unroll 1
            for (int part = 0; part < select_parts; part++) {
                Rows<V> x;
                Keep keep;
                const uint64_t index = tile * select_tile<V> + part * select_part<V>;
                stages.load(x, keep, input.criterion, s, part, index, held_of(n, index, select_part<V>), false, lane);
                if (lane == 0) stages.before[s][part] = total;
                total += kept_in(keep);
            }
            if (lane == 0) {
                if (in_place) fence_acq_rel();
                totals.publish(tile, total);
            }
            stages.ready[s].arrive();
        });
    } else {
        const int part = warp - 2 - Shape::reducers;
        over_stages<Shape::stages, 1>(stages, tiles, 0, [&](unsigned s, unsigned parity, uint64_t tile) PTXRUN_INLINE {
            const uint64_t index = tile * select_tile<V> + part * select_part<V>;
            const unsigned held = held_of(n, index, select_part<V>);
            Rows<V> x;
            Keep keep;
            Places places;
            stages.load(x, keep, input.criterion, s, part, index, held, true, lane);
            places.template scan<Rows<V>::vw>(keep, lane);
            stages.ready[s].wait(parity);
            const uint64_t before = stages.prefix[s] + stages.before[s][part];
            stages.empty[s].arrive();
            output.store(input.in, index, held, before, x, keep, places, shared_address(stages.scratch[part]), lane);
            if (output.mode == select_count && tile == tiles - 1 && part == select_parts - 1 && lane == 0) *output.count = before + places.total;
        });
    }
}

#endif

}  // namespace ptxrun
