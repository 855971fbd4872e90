// What one core of the host does in a plain loop, beside the cpu device: the
// bit-parallel longest common subsequence (Crochemore and others, 2001; Hyyrö,
// 2004), 64 rows a word, with the compiler's add with carry, four words unrolled.
//
//     nvcc -O3 -std=c++17 -arch=native -o loop loop.cu
//     ./loop [-device N] [-scale S] [ID ...]
//
// Each figure is a line of JSON on standard output; peer.cuh says how it is timed.
// The data: letter i of string s (1 and 2) is "ACGT"[hash(s << 32 | i) & 3].

#include "peer.cuh"

#if defined(__x86_64__)
#include <immintrin.h>
using Carry = unsigned char;
static Carry add(Carry carry, uint64_t a, uint64_t b, uint64_t *sum) {
    unsigned long long s;
    carry = _addcarry_u64(carry, a, b, &s);
    *sum = s;
    return carry;
}
#else
using Carry = uint64_t;
static Carry add(Carry carry, uint64_t a, uint64_t b, uint64_t *sum) {
    const unsigned __int128 s = (unsigned __int128)a + b + carry;
    *sum = uint64_t(s);
    return Carry(s >> 64);
}
#endif

static uint64_t lcs_length(const std::vector<uint8_t> &a, const std::vector<uint8_t> &b) {
    const size_t words = (a.size() + 255) / 256 * 4;
    std::vector<uint64_t> match(256 * words), v(words, ~uint64_t(0));
    for (size_t i = 0; i < a.size(); i++) match[a[i] * words + i / 64] |= uint64_t(1) << i % 64;
    uint64_t length = 0;
    for (uint8_t letter : b) {
        const uint64_t *const m = &match[letter * words];
        Carry carry = 0;
        for (size_t w = 0; w < words; w += 4) {
            uint64_t u[4], s[4];
            for (int k = 0; k < 4; k++) u[k] = v[w + k] & m[w + k];
            for (int k = 0; k < 4; k++) carry = add(carry, v[w + k], u[k], &s[k]);
            for (int k = 0; k < 4; k++) v[w + k] = s[k] | (v[w + k] ^ u[k]);
        }
        length += carry;
    }
    return length;
}

int main(int argc, char **argv) {
    const Options options = parse(argc, argv);
    about("a loop on one core");
    const std::string id = "lcs/cpu";
    if (!options.wanted(id)) return 0;
    const size_t n = std::max<size_t>(size_t(100000) >> options.scale, 1);
    std::vector<uint8_t> text[2];
    for (uint64_t s = 0; s < 2; s++) {
        for (uint64_t i = 0; i < n; i++) text[s].push_back("ACGT"[hash((s + 1) << 32 | i) & 3]);
    }
    uint64_t length = 0;
    const Figure f{id, n, double(n) * double(n), "GCUPS", 1, 1, true};
    const double ms = measure(f, [&](size_t) { length = lcs_length(text[0], text[1]); });
    report(f, ms, length);
    return 0;
}
