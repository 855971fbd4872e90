#pragma once

#include "look_back.cuh"

// CRC-32C, the checksum by Castagnoli's polynomial (Castagnoli, Bräuer and Herrmann,
// 1993), of memory of any size.
//
// Data are a polynomial over GF(2), whose remainder is the checksum: the sum of words,
// each times the power of x that is its distance from the end. So threads compute
// the sums of words a fixed stride apart, by Horner's rule, and a tree with the
// powers of a word, two words, four and so on adds those.

namespace ptxrun {

constexpr unsigned crc_block = 256;
constexpr unsigned crc_blocks = 128;  // at most
constexpr unsigned crc_stride = crc_block * crc_blocks;

// A remainder has the coefficient of x^0 in the highest bit.
constexpr uint32_t crc_polynomial = 0x82f63b78;
constexpr uint32_t crc_word = crc_polynomial;  // x^32

constexpr __host__ __device__ __forceinline__ uint32_t crc_times_x(uint32_t a) { return a >> 1 ^ (a & 1 ? crc_polynomial : 0); }

constexpr __host__ __device__ __forceinline__ uint32_t crc_multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;
#pragma unroll
    for (int bit = 31; bit >= 0; bit--) {
        if (a >> bit & 1) product ^= b;
        b = crc_times_x(b);
    }
    return product;
}

// crc_words is x^(32·n), n being a power of two.
constexpr __host__ __device__ uint32_t crc_words(unsigned n) {
    uint32_t power = crc_word;
    for (; n > 1; n /= 2) power = crc_multiply(power, power);
    return power;
}

// crc32c leaves the checksum of n bytes in sum. The warps' sums are added in the state,
// where the last one to take a ticket finds that of all and leaves zero.
__device__ __forceinline__ void crc32c(const uint8_t *data, uint64_t n, PassState *state, uint32_t first, uint32_t *sum) {
    auto word = [=](uint64_t i) PTXRUN_INLINE {  // data of any alignment
        uint32_t w;
        copy_bytes(&w, data + 4 * i, 4);
        return w;
    };
    const uint64_t words = n / 4;
    const unsigned thread = blockIdx.x * crc_block + threadIdx.x;
    constexpr uint32_t stride = crc_words(crc_stride);
    uint32_t v = 0;  // of the words at distances thread, thread + crc_stride, …
    if (thread < words) {
        uint64_t i = (words - 1 - thread) % crc_stride;
        v = word(i);
        if (i == 0) v = ~v;  // what stands for the ones before the data
#pragma unroll 4
        for (i += crc_stride; i < words; i += crc_stride) v = crc_multiply(v, stride) ^ word(i);
    }
    uint32_t power = crc_word;  // of as many words as v has by now
#pragma unroll
    for (unsigned delta = 1; delta < warp_size; delta *= 2, power = crc_multiply(power, power)) {
        v ^= crc_multiply(shuffle_down(v, delta), power);
    }
    if (thread % warp_size != 0) return;

    v = crc_multiply(v, crc_word);  // the last word's own length
    for (unsigned warp = thread / warp_size; warp > 0; warp /= 2, power = crc_multiply(power, power)) {
        if (warp % 2 != 0) v = crc_multiply(v, power);
    }
    atomic_xor(&state->sum, uint64_t(v));
    fence_acq_rel();
    const unsigned warps = gridDim.x * (crc_block / warp_size);
    if (atomic_add(&state->ticket, uint64_t(1)) - first != warps - 1) return;
    fence_acq_rel();
    v = words > 0 ? uint32_t(load_relaxed(&state->sum)) : ~0u;
    store_relaxed(&state->sum, uint64_t(0));
    for (uint64_t i = 4 * words; i < n; i++) {
        v ^= data[i];
        for (int bit = 0; bit < 8; bit++) v = crc_times_x(v);
    }
    *sum = ~v;
}

}  // namespace ptxrun
