#pragma once

#include "block.cuh"
#include "shared.cuh"

// Longest common subsequences by the bit-parallel recurrence of Crochemore,
// Iliopoulos, Pinzon and Reid (2001) in Hyyrö's form (2004). Rows of the table are
// a's letters, columns b's. A column is a bit a row: V(i) is 1 where the length
// does not grow from row i-1 to row i. From one column to the next
//
//	U = V & M;  S = V + U;  V = S | (V & ~M)
//
// where M has a bit where the row's letter is the column's. The carry out of any
// row is the growth of the length from the column before to this one, in that
// row: lengths are numbers of carries. A row whose letter occurs nowhere passes
// its carry on and changes nothing, so rows and columns can be padded.
//
// A warp is a band of rows, 32 to a lane. Lane l works l steps behind lane 0 on the
// same columns, so that the carries of half a step's columns pass to the next lane
// in one word, while it computes the other half. Alone, a warp is as fast as the
// chain from column to column: all else is loaded ahead, or done by a second warp.

namespace ptxrun {

// A lane is a step behind the lane before, and the first a step behind its chunk. The
// shuffle of half a step's carries takes as long as two columns. Where bands wait for
// each other, steps are half as long, and so is what a band is behind the one before.
constexpr int lcs_columns = 8;       // that a lane takes in a step
constexpr int lcs_pass_columns = 4;  // in lcs_pass
constexpr int lcs_chunk = 32;        // columns whose carries are one word
constexpr int lcs_ring = 512;        // columns whose match words' addresses are held

// store_relaxed_if is store_relaxed without a branch.
__device__ __forceinline__ void store_relaxed_if(unsigned keep, uint64_t *p, uint64_t v) {
    asm volatile("{\n\t.reg .pred k;\n\tsetp.ne.u32 k, %0, 0;\n\t@k st.relaxed.gpu.global.u64 [%1], %2;\n\t}"
                 :
                 : "r"(keep), "l"(p), "l"(v)
                 : "memory");
}

// warp_slot is which of its multiprocessor's places the warp has.
__device__ __forceinline__ unsigned warp_slot() {
    unsigned slot;
    asm volatile("mov.u32 %0, %%warpid;" : "=r"(slot));
    return slot;
}

// shared_cas_zero stores v in *p if that is 0, and returns what it was.
__device__ __forceinline__ uint32_t shared_cas_zero(uint32_t *p, uint32_t v) {
    uint32_t old;
    asm volatile("atom.relaxed.cta.shared.cas.b32 %0, [%1], 0, %2;" : "=r"(old) : "r"(shared_address(p)), "r"(v) : "memory");
    return old;
}

__device__ __forceinline__ void shared_or(uint32_t *p, uint32_t v) {
    asm volatile("red.relaxed.cta.shared.or.b32 [%0], %1;" : : "r"(shared_address(p)), "r"(v) : "memory");
}

// LCSRead is a sequence of count letters and padding to size, read from the
// front, or with the padding in front from the back.
template <class T>
struct LCSRead {
    const T *letters;
    uint64_t count, size;
    bool reverse;

    // letter returns where the one at place i of the reading is, or null.
    __device__ __forceinline__ const T *letter(uint64_t i) const {
        const uint64_t at = reverse ? size - 1 - i : i;
        return i < size && at < count ? letters + at : nullptr;
    }
};

// LCSColumn is a lane's column of a chunk on its way: its letter, whether it is
// there, and whether its step is marked. What is loaded is not looked at before
// the column is needed.
template <class T>
struct LCSColumn {
    T letter;
    bool here;

    __device__ __forceinline__ bool there(unsigned) const { return here; }
    __device__ __forceinline__ bool mark(unsigned) const { return false; }
};

// LCSColumns is a lane's columns of the chunks of a sequence, from the front or from
// the back.
template <class T>
struct LCSColumns {
    const T *at;
    int64_t left, stride;

    __device__ __forceinline__ LCSColumns(const T *letters, uint64_t count, bool reverse, unsigned lane)
        : at(letters + (reverse ? int64_t(count) - 1 - lane : lane)), left(int64_t(count) - lane), stride(reverse ? -lcs_chunk : lcs_chunk) {}

    __device__ __forceinline__ LCSColumn<T> operator()() {
        LCSColumn<T> c = {T(0), left > 0};
        if (c.here) c.letter = *at;
        at += stride;
        left -= lcs_chunk;
        return c;
    }
};

// LCSAlphabet numbers the letters of a band: code returns 0 for those that do not
// occur. Bytes have a table, wider letters a hash table of the band's rows, a
// letter's code being one more than the row that stands for it.
template <class T>
struct LCSAlphabet {
    static constexpr int lanes = 16;  // a table of match words is half as large for half the rows
    static constexpr int rows = lanes * 32;
    static constexpr int codes = rows + 1;
    static constexpr unsigned slots = 4 * rows;
    static constexpr int bucket = 4;  // slots that are looked at together

    T letters[rows];
    alignas(16) uint32_t slot[slots];  // 0, or a row and one, below 16 bits of its letter's hash

    __device__ __forceinline__ static uint32_t hash(T letter) {
        uint32_t h = uint32_t(letter);
        if constexpr (sizeof(T) == 8) h ^= uint32_t(letter >> 32) * 0x85ebca6bu;
        return h * 0x9e3779b1u;
    }
    __device__ __forceinline__ static unsigned place(uint32_t h) { return h >> 21 & ~(bucket - 1u); }
    __device__ __forceinline__ static uint32_t tag(uint32_t h) { return h << 11 & 0xffff0000u; }
    static_assert(slots == 1 << (32 - 21), "there are as many places as slots");

    // holds is whether a slot's row has the letter.
    __device__ __forceinline__ bool holds(uint32_t s, uint32_t h, T letter) const {
        return (s ^ tag(h)) < 0x10000 && letters[(s & 0xffff) - 1] == letter;
    }

    // build returns how many codes there are. All lanes call it; the letters of the
    // rows in valid's bits are there.
    __device__ __forceinline__ unsigned build(const uint32_t *valid, unsigned lane) {
        for (unsigned i = lane; i < slots; i += warp_size) slot[i] = 0;
        __syncwarp();
        for (unsigned i = lane; i < rows; i += warp_size) {
            if (!(valid[i / 32] >> lane & 1)) continue;
            const uint32_t h = hash(letters[i]);
            for (unsigned k = place(h);; k = (k + 1) % slots) {
                const uint32_t old = shared_cas_zero(slot + k, tag(h) | (i + 1));
                if (old == 0 || holds(old, h, letters[i])) break;
            }
        }
        return codes;
    }
    // code looks only at the first letter of a bucket whose tag is right, and at the
    // others if that is another: most often one look is enough.
    __device__ __forceinline__ unsigned code(T letter) const {
        const uint32_t h = hash(letter);
        for (unsigned k = place(h);; k = (k + bucket) % slots) {
            uint32_t s[bucket], found = 0;
            load_shared(s, slot + k);
#pragma unroll
            for (int i = bucket - 1; i >= 0; i--) {  // slots that are 0 come last
                if ((s[i] ^ tag(h)) < 0x10000) found = s[i];
            }
            if (found != 0) {
                if (letters[(found & 0xffff) - 1] == letter) return found & 0xffff;
                for (int i = 0; i < bucket; i++) {
                    if (s[i] != 0 && holds(s[i], h, letter)) return s[i] & 0xffff;
                }
            }
            if (s[bucket - 1] == 0) return 0;
        }
    }
};

template <>
struct LCSAlphabet<uint8_t> {
    static constexpr int lanes = 32;
    static constexpr int rows = lanes * 32;
    static constexpr int codes = 257;

    uint8_t letters[rows];
    uint32_t present[8];
    uint16_t number[256];

    __device__ __forceinline__ unsigned build(const uint32_t *valid, unsigned lane) {
        if (lane < 8) present[lane] = 0;
        __syncwarp();
        for (unsigned i = lane; i < rows; i += warp_size) {
            if (valid[i / 32] >> lane & 1) shared_or(present + letters[i] / 32, 1u << letters[i] % 32);
        }
        __syncwarp();
        unsigned before = 1, count = 1;
        for (unsigned w = 0; w < 8; w++) {
            const uint32_t bits = present[w];
            if (w < lane / 4) before += __popc(bits);
            count += __popc(bits);
        }
        const uint32_t bits = present[lane / 4];
        for (unsigned k = lane % 4 * 8; k < lane % 4 * 8 + 8; k++) {
            const bool here = bits >> k & 1;
            number[lane / 4 * 32 + k] = here ? before + __popc(bits & ((1u << k) - 1)) : 0;
        }
        return count;
    }
    __device__ __forceinline__ unsigned code(uint8_t letter) const { return number[letter]; }
};

// LCSBand is a band of rows in a block's shared memory. The table of match words
// lies behind it: as many codes as the launch has memory for, a word a lane, and
// the lanes that a narrow band leaves out read behind that. A lane takes columns in a
// step.
template <class T, int columns = lcs_columns>
struct alignas(16) LCSBand {
    using Alphabet = LCSAlphabet<T>;
    static constexpr int lanes = Alphabet::lanes, rows = Alphabet::rows;
    static constexpr int steps = lcs_chunk / columns;
    static constexpr int delay = lanes / steps;  // chunks from the first lane to the last
    static_assert(lanes % steps == 0 && steps >= 2, "the last lane ends a chunk at a known step");
    static_assert(lanes * columns + 4 * lcs_chunk <= lcs_ring, "no address is overwritten before its last use");
    static_assert(columns % 4 == 0, "a step's addresses are whole vectors");

    // A ring for each vector of a step, whose first chunk is there again behind its end, so
    // that a lane's steps of a chunk lie one behind the other.
    static constexpr int vectors = columns / 4;
    static constexpr int ring = lcs_ring / vectors, ring_chunk = lcs_chunk / vectors;

    alignas(16) uint32_t addresses[vectors * (ring + ring_chunk)];  // of columns' match words, the first lane's; odd where a step is marked
    uint32_t incoming[4], outgoing[4];                              // words of carries between warps, by chunk
    uint32_t valid[lanes];                                          // the rows that have a letter
    Alphabet alphabet;

    __device__ __forceinline__ uint32_t *match() { return reinterpret_cast<uint32_t *>(this + 1); }

    // prepare makes the match words of rows whose letters are at letter(i), or
    // nowhere if that is null.
    template <class Letter>
    __device__ __forceinline__ void prepare(Letter letter, unsigned lane) {
        __syncwarp();
        for (unsigned i = lane; i < vectors * (ring + ring_chunk); i += warp_size) addresses[i] = shared_address(match());
        constexpr int together = 8;  // loads on their way
        for (unsigned first = 0; first < lanes; first += together) {
            const T *at[together];
            T x[together] = {};
#pragma unroll
            for (int k = 0; k < together; k++) {
                at[k] = letter((first + k) * 32 + lane);
                if (at[k] != nullptr) x[k] = *at[k];
            }
#pragma unroll
            for (int k = 0; k < together; k++) {
                alphabet.letters[(first + k) * 32 + lane] = x[k];
                const uint32_t there = __ballot_sync(full_warp, at[k] != nullptr);
                if (lane == 0) valid[first + k] = there;
            }
        }
        __syncwarp();
        const unsigned count = alphabet.build(valid, lane);
        for (unsigned i = lane; i < count * lanes + (warp_size - lanes); i += warp_size) match()[i] = 0;
        __syncwarp();
        if (lane < lanes) {
            const uint32_t rows_here = valid[lane];
            for (unsigned i = 0; i < 32; i++) {
                if (rows_here >> i & 1) shared_or(match() + alphabet.code(alphabet.letters[lane * 32 + i]) * lanes + lane, 1u << i);
            }
        }
        __syncwarp();
    }

    // prepare for rows from first on of a sequence.
    __device__ __forceinline__ void prepare(const LCSRead<T> &a, uint64_t first, unsigned lane) {
        prepare([&](unsigned i) { return a.letter(first + i); }, lane);
    }

    // place is where the address for a column of the first chunk is. A step's vectors lie
    // apart, so that lanes, a step from each other, read from different banks.
    static __device__ __forceinline__ uint32_t place(uint32_t column) {
        return column / 4 % vectors * (ring + ring_chunk) + column / columns * 4 + column % 4;
    }

    // fill is for lane's column of a chunk.
    template <class Column>
    __device__ __forceinline__ void fill(uint64_t chunk, const Column &c, unsigned lane) {
        const uint32_t code = c.there(lane) ? alphabet.code(c.letter) : 0;
        const uint32_t address = (shared_address(match()) + code * (lanes * 4)) | c.mark(lane);
        const uint32_t at = uint32_t(chunk) % (lcs_ring / lcs_chunk);
        uint32_t *const to = addresses + place(lane) + at * ring_chunk;
        *to = address;
        if (at == 0) to[ring] = address;
    }

    // Rows is 32 rows on their way over the columns. What a step needs is loaded
    // during the one before, and where from during the one before that, so that
    // nothing but the recurrence is waited for.
    struct Rows {
        uint32_t v;
        uint32_t in;              // carries into the first row of the chunk before, or 0
        uint32_t out, arrived;    // carries, the last column's at the bottom: this lane's, and what the lane before sent last
        uint32_t takes;           // times arrived are those that come from the lane before
        uint32_t match[columns];  // of the step to come
        uint32_t next[columns];   // addresses, of the step after it
        bool mark;                // of the step to come
    };

    // address_of is where the addresses of a step's first columns are; those of the steps
    // behind it, up to a chunk, follow.
    __device__ __forceinline__ uint32_t address_of(uint32_t step) const {
        return shared_address(addresses) + step * 4 % ring * 4;
    }

    static __device__ __forceinline__ void load_addresses(Rows &r, uint32_t at) {
#pragma unroll
        for (int i = 0; i < vectors; i++) {
            uint32_t x[4];
            load_shared(x, at + i * (ring + ring_chunk) * 4);
#pragma unroll
            for (int k = 0; k < 4; k++) r.next[i * 4 + k] = x[k];
        }
    }

    template <bool marks>
    static __device__ __forceinline__ void load_match(Rows &r, unsigned lane) {
        if constexpr (marks) {
            r.mark = r.next[0] & 1;
            r.next[0] &= ~1u;
        }
#pragma unroll
        for (int k = 0; k < columns; k++) {
            uint32_t m[1];
            load_shared(m, r.next[k] + lane * 4);
            r.match[k] = m[0];
        }
    }

    // begin is before the first chunk, whose addresses are there; the first step of any
    // lane is before it. takes is whether the lane before hands its carries on.
    __device__ __forceinline__ Rows begin(uint32_t v, bool takes, unsigned lane) const {
        Rows r = {};
        r.v = v;
        r.takes = takes ? 1u << (32 - columns / 2) : 0;
        load_addresses(r, address_of(0 - lane));
        return r;
    }

    // advance moves 32 rows to the next column. The carry in is the top bit of in, the
    // carry out comes in at the bottom of out. Only v is a chain of three instructions
    // from column to column.
    static __device__ __forceinline__ void advance(uint32_t &v, uint32_t &in, uint32_t &out, uint32_t m) {
        const uint32_t u = v & m;
        uint32_t sum;
        asm("add.cc.u32 %1, %1, %1;\n\t"
            "addc.cc.u32 %0, %3, %4;\n\t"
            "addc.u32 %2, %2, %2;"
            : "=&r"(sum), "+r"(in), "+r"(out) : "r"(v), "r"(u));
        v = sum | (v & ~m);
    }

    // advance_chunk moves rows on by a chunk of steps. The addresses of the next
    // chunk are there. Into the first row come in's carries, the first column's on
    // top; in is 0 for all lanes but the first. Afterwards the last lane's out is those
    // of the chunk delay chunks before. flow.step(step, v, carries, mark) is called by
    // each lane after a step, whose columns' values are in v.
    template <class Flow>
    __device__ __forceinline__ void advance_chunk(Rows &r, uint64_t chunk, uint32_t in, unsigned lane, Flow &flow) const {
        const uint32_t at = address_of(uint32_t(chunk) * steps + 1 - lane);
#pragma unroll
        for (int s = 0; s < steps; s++) {
            // Before its first step and after its last a lane's letters are padding
            // and its carries 0.
            const uint64_t step = chunk * steps + s - lane - 1;
            uint32_t m[columns], history[columns];
#pragma unroll
            for (int k = 0; k < columns; k++) m[k] = r.match[k];
            const bool mark = r.mark;
            load_match<Flow::marks>(r, lane);
            load_addresses(r, at + s * 16);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                // What the lane before had two halves ago: what it had one half ago is
                // on its way while this half is computed. Steps begin one before in's
                // first column.
                constexpr int columns_here = columns / 2;
                const uint32_t first = (s == 0 ? r.in : in) << ((s + steps - 1) % steps * columns + half * columns_here);
                const uint32_t underway = __shfl_up_sync(full_warp, r.out, 1);
                uint32_t carries = r.arrived * r.takes + first;
                r.arrived = underway;
#pragma unroll
                for (int k = 0; k < columns_here; k++) {
                    advance(r.v, carries, r.out, m[half * columns_here + k]);
                    history[half * columns_here + k] = r.v;
                }
            }
            flow.step(step, history, r.out & ((1u << columns) - 1), mark);
            if constexpr (Flow::marks) r.v = history[columns - 1];
        }
        r.in = in;
    }

    // sweep moves all rows, which are v, over chunks of columns. next() fetches lane's
    // column of the next chunk, as LCSColumn. A warp does it alone: no carries come in
    // or go out, but from lane to lane where the next takes them.
    template <class Next, class Flow>
    __device__ __forceinline__ void sweep(uint64_t chunks, Next next, uint32_t &v, bool takes, unsigned lane, Flow &flow) {
        fill(0, next(), lane);
        auto column = next();
        __syncwarp();
        Rows r = begin(v, takes, lane);
        for (uint64_t chunk = 0; chunk < chunks + delay; chunk++) {
            // What is loaded for the next chunk is not waited for.
            fill(chunk + 1, column, lane);
            column = next();
            __syncwarp();
            advance_chunk(r, chunk, 0, lane, flow);
        }
        v = r.v;
    }
};

// LCSFlow is a sweep whose values nobody wants.
struct LCSFlow {
    static constexpr bool marks = false;
    template <int columns>
    __device__ __forceinline__ void step(uint64_t, uint32_t (&)[columns], uint32_t, bool) {}
};

// LCSProblem is a part of a beside a part of b, whose table is gone through from
// the front, from the back, or from both, as far as bands are given. Every keep bands
// the carries out of the rows so far are kept: bits, a word of 32 columns, in order of
// the reading. Boundaries are counted by the bands above them, from either side, and
// those from a side lie stride words apart. Where a side ends before the other's edge,
// it ends at a boundary.
struct LCSProblem {
    uint64_t a, rows, b, columns;  // first letters and how many
    uint64_t units;                // bands of all problems before, both directions counted
    uint64_t front, back;          // bands gone through from the front, and from the back
    uint64_t keep;                 // bands between boundaries, 0 for none
    uint64_t kept_front, kept_back, stride;  // the words of the first boundary, and from one to the next
    uint64_t crossings;            // boundaries of all problems before
    uint64_t ring, slots;          // the first word of carries between bands, and how many bands' there are

    static __device__ __forceinline__ const LCSProblem *find(const LCSProblem *problems, uint64_t count, uint64_t unit, uint64_t LCSProblem::*before) {
        uint64_t lo = 0, hi = count;
        while (hi - lo > 1) {
            const uint64_t mid = lo + (hi - lo) / 2;
            if (problems[mid].*before <= unit) lo = mid;
            else hi = mid;
        }
        return problems + lo;
    }
};

constexpr int lcs_pass_block = 2 * warp_size;  // one computes, one feeds
constexpr int lcs_ahead = 2;                   // chunks whose letters and carries are on their way

// LCSInbox is the words that the band before hands on, in order: 32 carries and
// a flag, each whole or not there. Some are on their way while the one before is used.
struct LCSInbox {
    const uint64_t *at;
    uint64_t left;  // none come behind them, nor to the first band
    uint32_t flag;
    uint64_t words[lcs_ahead];

    // request is for the word that is so many behind the next.
    __device__ __forceinline__ void request(int k, unsigned behind) {
        words[k] = uint64_t(flag) << 32;
        if (left > behind) words[k] = load_relaxed(at + behind);
    }
    // receive takes the next word, whose turn among those on their way is k.
    __device__ __forceinline__ uint32_t receive(int k) {
        while (words[k] >> 32 != flag) words[k] = load_relaxed(at);
        const uint32_t carries = words[k];
        request(k, lcs_ahead);
        if (left > 0) left--;
        at++;
        return carries;
    }
};

// A block's two warps have two barriers, at each of which one waits for the other, who
// goes on: lcs_fed, that a chunk's carries are there and the letters of the next, and
// lcs_taken, that those carries have been taken, so that the next chunk may be said to
// be fed. At one barrier for both they would meet from two places of the program, which
// only one that is not aligned allows, around which a warp has to converge anew.
constexpr int lcs_fed = 1, lcs_taken = 2;

template <int barrier>
__device__ __forceinline__ void lcs_signal() {
    asm volatile("bar.arrive %0, %1;" : : "n"(barrier), "n"(lcs_pass_block) : "memory");
}
template <int barrier>
__device__ __forceinline__ void lcs_await() {
    asm volatile("bar.sync %0, %1;" : : "n"(barrier), "n"(lcs_pass_block) : "memory");
}

// LCSLast is where the carries out of a band's last row are counted, and kept at
// boundary, if that is not null.
template <class T, int columns>
struct LCSLast {
    const LCSBand<T, columns> &band;
    uint32_t *boundary;
    uint64_t length;

    // take is for what was computed in a chunk's turn.
    __device__ __forceinline__ void take(uint64_t turn) {
        if (turn < band.delay) return;
        const uint32_t carries = band.outgoing[turn % 4];
        if (boundary != nullptr) *boundary++ = __brev(carries);
        length += __popc(carries);
    }
};

// lcs_feed is a band's second warp. It fetches letters and the carries of the band
// before for the first, which is one or two turns behind, and takes those that come out
// of the last row, except of the last three turns.
template <class T, int columns>
__device__ __forceinline__ void lcs_feed(LCSBand<T, columns> &band, LCSColumns<T> next, LCSInbox inbox, LCSLast<T, columns> &last, uint64_t turns, unsigned lane) {
    LCSColumn<T> column[lcs_ahead];
#pragma unroll
    for (int k = 0; k < lcs_ahead; k++) inbox.request(k, k);
    band.fill(0, next(), lane);
#pragma unroll
    for (int k = 0; k < lcs_ahead; k++) column[k] = next();
    lcs_signal<lcs_fed>();
    for (uint64_t turn = 0; turn < turns;) {
#pragma unroll
        for (int k = 0; k < lcs_ahead; k++, turn++) {
            band.fill(turn + 1, column[k], lane);
            if (turn >= 3) last.take(turn - 3);
            const uint32_t in = inbox.receive(k);
            column[k] = next();  // behind what may wait for all loads
            if (lane == 0) band.incoming[turn % 4] = in;
            lcs_await<lcs_taken>();
            lcs_signal<lcs_fed>();
        }
    }
    lcs_await<lcs_taken>();
}

// lcs_compute is the first, which hands on words of 32 carries and flag at to, if that
// is not null.
template <class T, int columns>
__device__ __forceinline__ void lcs_compute(LCSBand<T, columns> &band, uint64_t *to, uint32_t flag, uint64_t chunks, uint64_t turns, unsigned lane) {
    constexpr int lanes = LCSBand<T, columns>::lanes, delay = LCSBand<T, columns>::delay;
    LCSFlow flow;
    lcs_await<lcs_fed>();
    auto rows = band.begin(~0u, lane > 0, lane);
    lcs_signal<lcs_taken>();
    for (uint64_t turn = 0; turn < turns; turn++) {
        lcs_await<lcs_fed>();
        const uint32_t in = band.incoming[turn % 4];
        lcs_signal<lcs_taken>();
        band.advance_chunk(rows, turn, lane == 0 ? in : 0, lane, flow);
        const bool last = lane == lanes - 1 && turn >= delay && turn < chunks + delay;
        store_relaxed_if(last && to != nullptr, to + (turn - delay), uint64_t(flag) << 32 | rows.out);
        store_shared_if<4>(last, shared_address(band.outgoing) + turn % 4 * 4, rows.out);
    }
}

// lcs_pass goes through the tables of all problems. lengths[p] becomes the length of the
// longest common subsequence of problem p's columns and its rows from the front, where
// there are any. A count of 0 is the one problem that the next five parameters describe,
// with one boundary at most.
//
// Bands are taken by ticket, so that a band's predecessor is done or running. The
// words that band k hands on are overwritten by those of band k+slots: with more
// slots than blocks, band k+1 has read them by then, because it and all bands
// after it would still be running otherwise.
template <class T>
__device__ __forceinline__ void lcs_pass(const T *a, const T *b, const LCSProblem *problems, uint64_t count, uint64_t only_rows,
                                         uint64_t only_columns, uint64_t only_front, uint64_t only_keep, uint64_t only_slots, uint64_t units, uint64_t *ring,
                                         uint32_t *kept, uint64_t *lengths, uint64_t *ticket) {
    using Band = LCSBand<T, lcs_pass_columns>;
    alignas(16) extern __shared__ unsigned char dynamic_shared[];
    __shared__ uint64_t taken;
    __shared__ unsigned computing_warp;
    Band &band = *reinterpret_cast<Band *>(dynamic_shared);
    const unsigned lane = threadIdx.x % warp_size;
    // A multiprocessor's warps take turns at its four schedulers. Were the first of
    // every block to compute, two schedulers would have all the work.
    if (threadIdx.x == 0) computing_warp = warp_slot() / 4 % 2;
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) taken = atomic_add(ticket, uint64_t(1));
        __syncthreads();
        const uint64_t unit = taken;
        if (unit >= units) return;
        const bool computes = __any_sync(full_warp, threadIdx.x / warp_size == computing_warp);
        const uint64_t only_stride = ceil_div<uint64_t>(only_columns, lcs_chunk);
        LCSProblem p = {0, only_rows, 0, only_columns, 0, only_front, units - only_front, only_keep, 0, only_stride, only_stride, 0, 0, only_slots};
        uint64_t problem = 0;
        if (count > 0) {
            problem = LCSProblem::find(problems, count, unit, &LCSProblem::units) - problems;
            p = problems[problem];
        }
        const uint64_t rows = p.rows, columns = p.columns, keep = p.keep, slots = p.slots;
        const uint64_t bands = ceil_div<uint64_t>(rows, Band::rows), chunks = ceil_div<uint64_t>(columns, lcs_chunk);
        const uint64_t local = unit - p.units;
        const uint64_t pairs = minimum(p.front, p.back);
        const bool reverse = local < 2 * pairs ? local % 2 : p.back > pairs;
        const uint64_t number = local < 2 * pairs ? local / 2 : local - pairs, end = reverse ? p.back : p.front;

        if (computes) band.prepare({a + p.a, rows, bands * Band::rows, reverse}, number * Band::rows, lane);
        __syncthreads();

        uint64_t *const words = ring + p.ring + (reverse && p.front > 0 ? slots * chunks : 0);
        const uint64_t above = reverse ? bands - number - 1 : number + 1;  // bands above the last row's lower edge
        uint32_t *boundary = nullptr;
        if (keep > 0 && above > 0 && above % keep == 0 && lane == 0)
            boundary = kept + (reverse ? p.kept_back : p.kept_front) + (above / keep - 1) * p.stride;
        LCSInbox inbox = {words, 0, 0, {}};
        if (number > 0) inbox = {words + (number - 1) % slots * chunks, chunks, uint32_t((number - 1) / slots + 1), {}};
        LCSLast<T, lcs_pass_columns> last = {band, boundary, 0};
        const uint64_t end_turn = chunks + Band::delay, turns = ceil_div<uint64_t>(end_turn, lcs_ahead) * lcs_ahead;
        if (computes) lcs_compute(band, number + 1 == end ? nullptr : words + number % slots * chunks, uint32_t(number / slots + 1), chunks, turns, lane);
        else lcs_feed(band, {b + p.b, columns, reverse, lane}, inbox, last, turns, lane);
        __syncthreads();
        if (computes) continue;
        for (uint64_t turn = turns - 3; turn < end_turn; turn++) last.take(turn);
        if (number + 1 == end && !reverse && lane == 0) lengths[problem] = last.length;
    }
}

// LCSPiece is a band of rows beside a part of b, of which every column is stored.
struct LCSPiece {
    uint64_t a, rows, b, columns;
    uint64_t values;  // the first word to store columns in, rows' lanes times columns rounded up to chunks
    uint64_t state;   // where rows start from, 0 for the top of the table; the next is where they end
    uint64_t walk;    // the walk's place in rows
    uint64_t mode;    // lcs_save, lcs_walk
};
constexpr unsigned lcs_save = 1, lcs_walk = 2;

// LCSStored is the flow of a band that is alone, whose columns are stored.
struct LCSStored : LCSFlow {
    uint32_t *to;
    uint64_t steps;
    __device__ __forceinline__ void step(uint64_t step, uint32_t (&v)[lcs_columns], uint32_t, bool) {
        if (step < steps) store_wide(to + step * lcs_columns, v);
    }
};

// lcs_trace goes over a piece's columns and then back: from row rows[walk] of its
// last column up where the row above is as long, else over the match, else left.
// What is matched is marked in bits of a and of b; rows[walk] becomes the row
// that is reached at the first column.
template <class T>
__device__ __forceinline__ void lcs_trace(const T *a, const T *b, const LCSPiece *pieces, uint32_t *values, uint32_t *states, uint64_t *rows,
                                          uint32_t *a_marks, uint32_t *b_marks) {
    using Band = LCSBand<T>;
    alignas(16) extern __shared__ unsigned char dynamic_shared[];
    Band &band = *reinterpret_cast<Band *>(dynamic_shared);
    const unsigned lane = threadIdx.x;
    const LCSPiece p = pieces[blockIdx.x];
    const uint64_t chunks = ceil_div<uint64_t>(p.columns, lcs_chunk), stride = chunks * lcs_chunk;
    uint32_t *const stored = values + p.values;
    const bool walks = p.mode & lcs_walk;

    band.prepare({a + p.a, p.rows, Band::rows, false}, 0, lane);
    uint32_t v = ~0u;
    if (p.state > 0 && lane < Band::lanes) v = states[p.state * Band::lanes + lane];
    LCSStored flow;
    flow.to = stored + lane * stride;
    flow.steps = walks && lane < Band::lanes ? chunks * Band::steps : 0;
    band.sweep(chunks, LCSColumns<T>(b + p.b, p.columns, false, lane), v, lane > 0, lane, flow);
    if (p.mode & lcs_save && lane < Band::lanes) states[(p.state + 1) * Band::lanes + lane] = v;
    if (!walks) return;
    __syncwarp();

    // Lane k holds column j-1-k, in the word of row i-1.
    uint64_t j = p.columns;
    unsigned i = rows[p.walk];
    while (i > 0 && j > 0) {
        const unsigned word = (i - 1) / 32;
        const bool here = lane < j, row_here = word * 32 + lane < p.rows;
        const uint32_t value = here ? stored[word * stride + j - 1 - lane] : 0;
        const T x = row_here ? a[p.a + word * 32 + lane] : T(0), y = here ? b[p.b + j - 1 - lane] : T(0);
        uint32_t a_here = 0, b_here = 0;
        unsigned passed = 0;  // columns
        while (i > word * 32 && passed < minimum<uint64_t>(warp_size, j)) {
            // Up to a row that is longer than the one above.
            const uint32_t grows = ~shuffle(value, passed) & ~0u >> (32 - (i - word * 32));
            if (grows == 0) {
                i = word * 32;
                break;
            }
            i = word * 32 + 32 - __clz(grows);
            // Left to its match: no row above is as long before.
            const T wanted = shuffle(x, i - 1 - word * 32);
            const unsigned same = __ballot_sync(full_warp, here && lane >= passed && y == wanted);
            if (same == 0) {
                passed = warp_size;
                break;
            }
            passed = 31 - __clz(same & -same);
            a_here |= 1u << (i - 1 - word * 32);
            b_here |= 0x80000000u >> passed;
            i--;
            passed++;
        }
        if (lane == 0) {
            if (a_here != 0) atomic_or(a_marks + p.a / 32 + word, a_here);
            // b_here's bit 0 is column j-32, which may lie before b where no bit is set.
            const int64_t from = int64_t(p.b + j) - 32;
            const uint64_t bits = uint64_t(b_here) << (from & 31);
            if (uint32_t(bits) != 0) atomic_or(b_marks + (from >> 5), uint32_t(bits));
            if (bits >> 32 != 0) atomic_or(b_marks + (from >> 5) + 1, uint32_t(bits >> 32));
        }
        j -= minimum<uint64_t>(passed, j);
    }
    if (lane == 0) rows[p.walk] = i;
}

// lcs_cross finds where the walk back crosses each boundary: the last column at
// which the lengths above, from the front, and below, from the back, add up to
// the most, which is the length of all. A block is a boundary. A count of 0 is one
// problem with columns. Crossings or lengths may be null.
constexpr int lcs_cross_block = 256;

__device__ __forceinline__ void lcs_cross(const LCSProblem *problems, uint64_t count, uint64_t only_columns, const uint32_t *kept,
                                          uint64_t *crossings, uint64_t *lengths) {
    struct Best {
        int64_t sum, most;  // of the steps so far; over all columns so far
        uint64_t at, below;  // below is the length from the first column on, of what is below
        __device__ __forceinline__ void join(const Best &next) {
            if (sum + next.most >= most) {
                most = sum + next.most;
                at = next.at;
            }
            sum += next.sum;
            below += next.below;
        }
    };
    __shared__ Best parts[lcs_cross_block];
    LCSProblem p = {};
    if (count > 0) {
        p = *LCSProblem::find(problems, count, blockIdx.x, &LCSProblem::crossings);
    } else {
        p.columns = only_columns;
        p.kept_back = ceil_div<uint64_t>(only_columns, lcs_chunk);
    }
    const uint64_t columns = p.columns, chunks = ceil_div<uint64_t>(columns, lcs_chunk);
    const uint64_t boundary = (blockIdx.x - p.crossings) * p.stride;
    const uint32_t *const front = kept + p.kept_front + boundary, *const back = kept + p.kept_back + boundary;

    constexpr int64_t least = -(int64_t(1) << 62);
    Best best = {0, least, 0, 0};
    const uint64_t share = ceil_div<uint64_t>(chunks, lcs_cross_block);
    for (uint64_t w = threadIdx.x * share; w < minimum(chunks, (threadIdx.x + 1) * share); w++) {
        // The backward carries of the same columns, the first at the bottom.
        const int64_t from = int64_t(columns) - 32 - int64_t(w) * 32;
        uint32_t window;
        if (from < 0) {
            window = back[0] << -from;
        } else {
            window = back[from >> 5] >> (from & 31);
            if (from & 31) window |= back[(from >> 5) + 1] << (32 - (from & 31));
        }
        const uint32_t down = __brev(window), up = front[w];
        best.below += __popc(down);
        if (best.sum + __popc(up & ~down) < best.most) {
            best.sum += __popc(up) - __popc(down);
            continue;
        }
        const unsigned here = minimum<uint64_t>(32, columns - w * 32);
        for (unsigned k = 0; k < here; k++) {
            best.sum += int(up >> k & 1) - int(down >> k & 1);
            if (best.sum >= best.most) {
                best.most = best.sum;
                best.at = w * 32 + k + 1;
            }
        }
    }
    parts[threadIdx.x] = best;
    for (unsigned n = 1; n < lcs_cross_block; n *= 2) {
        __syncthreads();
        if (threadIdx.x % (2 * n) == 0) parts[threadIdx.x].join(parts[threadIdx.x + n]);
    }
    if (threadIdx.x == 0) {
        Best all = {0, 0, 0, 0};  // before the first column
        all.join(parts[0]);
        if (crossings != nullptr) crossings[blockIdx.x] = all.at;
        if (lengths != nullptr) lengths[blockIdx.x] = all.most + all.below;
    }
}

}  // namespace ptxrun
