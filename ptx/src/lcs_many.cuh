#pragma once

#include "lcs_bits.cuh"

// Many against many: patterns lie side by side in the lanes of bands, a lane for
// 32 letters, and texts flow through them one behind the other, each filled up to
// whole steps. Where a pattern begins no carry comes in, where it ends carries are
// counted, and where a text ends all begins anew.

namespace ptxrun {

// LCSLane is what a lane holds of a pattern.
struct LCSLane {
    uint64_t letters;   // the first
    uint64_t row;       // of the results
    uint32_t count;     // of letters
    uint32_t flags;     // lcs_first, lcs_last of its pattern
    uint64_t from;      // texts before this are none of the pattern's
};
constexpr unsigned lcs_first = 1, lcs_last = 2;

// LCSSlice is a band beside texts that lie together.
struct LCSSlice {
    uint64_t band;
    uint64_t step, steps;  // of all texts' columns
    uint64_t text;         // the first
};

constexpr unsigned lcs_by_row = 1, lcs_by_column = 2;
constexpr unsigned lcs_text_end = 0x80;  // in a step's count of letters

// LCSTextColumn is a lane's column of texts.
template <class T>
struct LCSTextColumn {
    T letter;
    uint8_t count;  // of the step

    __device__ __forceinline__ bool there(unsigned lane) const { return lane % lcs_columns < (count & ~lcs_text_end); }
    __device__ __forceinline__ bool mark(unsigned lane) const { return lane % lcs_columns == 0 && count >= lcs_text_end; }
};

// LCSCounted is the flow of patterns.
struct LCSCounted : LCSFlow {
    static constexpr bool marks = true;

    bool counts;               // where a pattern ends
    uint64_t text, from;
    const uint32_t *columns;   // of the results, by text
    uint32_t *row, *mirror;    // of the results, and the column of the pattern's number; or null
    uint64_t stride;
    uint32_t column, length;

    __device__ __forceinline__ void step(uint64_t, uint32_t (&v)[lcs_columns], uint32_t carries, bool text_ends) {
        length += __popc(carries);
        if (!text_ends) return;
        if (counts) {
            if (text >= from) {
                if (row != nullptr) row[column] = length;
                if (mirror != nullptr) mirror[column * stride] = length;
            }
            text++;
            column = columns[text];  // there is one more than texts
        }
        v[lcs_columns - 1] = ~0u;
        length = 0;
    }
};

// lcs_many writes the length for each pattern of each slice with each of its texts
// to results[row][column], rows being stride apart, to results[column][row], or to
// both: lcs_by_row, lcs_by_column. Letters of texts are in b, a text's from a whole step on;
// counts has, for each step, how many letters it has and whether the text ends. A
// block is a slice.
template <class T>
__device__ __forceinline__ void lcs_many(const T *a, const T *b, const LCSLane *lanes, const LCSSlice *slices, const uint8_t *counts,
                                         const uint32_t *columns, uint32_t *results, uint64_t stride, uint32_t where) {
    using Band = LCSBand<T>;
    alignas(16) extern __shared__ unsigned char dynamic_shared[];
    Band &band = *reinterpret_cast<Band *>(dynamic_shared);
    const unsigned lane = threadIdx.x;
    const LCSSlice slice = slices[blockIdx.x];
    lanes += slice.band * Band::lanes;

    band.prepare([&](unsigned i) { return i % 32 < lanes[i / 32].count ? a + lanes[i / 32].letters + i % 32 : nullptr; }, lane);

    LCSCounted flow;
    bool takes = lane > 0;
    flow.counts = false;
    flow.text = slice.text;
    flow.columns = columns;
    flow.length = 0;
    if (lane < Band::lanes) {
        const LCSLane mine = lanes[lane];
        takes = !(mine.flags & lcs_first);
        flow.counts = mine.flags & lcs_last;
        flow.from = mine.from;
        flow.row = where & lcs_by_row ? results + mine.row * stride : nullptr;
        flow.mirror = where & lcs_by_column ? results + mine.row : nullptr;
        flow.stride = stride;
        flow.column = columns[slice.text];
    }
    uint64_t i = lane;
    const auto next = [&] {
        LCSTextColumn<T> c = {};
        if (i / lcs_columns < slice.steps) c = {b[slice.step * lcs_columns + i], counts[slice.step + i / lcs_columns]};
        i += lcs_chunk;
        return c;
    };
    uint32_t v = ~0u;
    band.sweep(ceil_div<uint64_t>(slice.steps, Band::steps), next, v, takes, lane, flow);
}

}  // namespace ptxrun
