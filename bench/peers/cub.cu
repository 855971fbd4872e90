// CUB's scan, selection and run-length encoding, and the copy and the fill of
// the CUDA runtime, which are the ceiling, to measure ptxrun against.
//
//     nvcc -O3 -std=c++17 -arch=native -o cub cub.cu
//     ./cub [-device N] [-scale S] [ID ...]
//
// Each figure is a line of JSON on standard output; peer.cuh says what the data
// is and how it is timed. Further data:
//   maximum:   element i is i + (hash(i) >> 44), so that the maximum keeps rising.
//   operator:  element i is the map x -> m x + c with m = hash(i) >> 32 | 1 and
//              c = hash(i), of 32 bits each.
//   keys:      element i has the key i / 61.
//   selection: the element i is kept if hash(i) is odd, or if it is below 2^23;
//              of neighbours, those of an even and the next odd i are equal.
//
// Temporary storage is allocated outside the timing. Sums are verified by
// out[i] == out[i-1] op in[i] for every i. Sums of doubles are exact: they stay
// below 2^53.

#include "peer.cuh"

#include <climits>
#include <cub/cub.cuh>
#include <cuda/functional>
#include <thrust/iterator/reverse_iterator.h>

static Options options;

// storage_bytes is what a call of CUB asks for.
template <class Call>
size_t storage_bytes(const Call &call) {
    size_t bytes = 0;
    CHECK(call(nullptr, bytes));
    return bytes;
}

// ---- Scan ----

template <class T>
struct Numbers {
    __host__ __device__ T operator()(uint64_t i) const { return T(hash(i) >> 40); }
};

struct Rising {
    __host__ __device__ uint32_t operator()(uint64_t i) const { return uint32_t(i) + uint32_t(hash(i) >> 44); }
};

struct Affine {
    uint32_t m, c;
    __host__ __device__ bool operator==(const Affine &o) const { return m == o.m && c == o.c; }
};

struct Maps {
    __host__ __device__ Affine operator()(uint64_t i) const { return {uint32_t(hash(i) >> 32) | 1, uint32_t(hash(i))}; }
};

template <class T>
struct Add {
    __host__ __device__ T operator()(T a, T b) const { return T(a + b); }
};

struct Greater {
    __host__ __device__ uint32_t operator()(uint32_t a, uint32_t b) const { return a > b ? a : b; }
};

// Compose is the map that applies a, then b.
struct Compose {
    __host__ __device__ Affine operator()(Affine a, Affine b) const { return {a.m * b.m, a.c * b.m + b.c}; }
};

// Scanned is whether out is the scan of in, in every slot.
template <class In, class Out, class Op>
struct Scanned {
    const In *in;
    const Out *out;
    size_t n, stride;
    Op op;
    Out start;

    __device__ bool operator()(size_t i) const {
        const size_t in_slot = i % stride;
        if (in_slot >= n) return true;
        return out[i] == op(in_slot == 0 ? start : out[i - 1], Out(in[i]));
    }
};

// scan_figure measures scan(storage, bytes, in, out, n), with a 32-bit n where it
// fits, which is CUB's faster way. start is op's identity.
template <class In, class Out, class Formula, class Op, class Scan>
void scan_figure(const std::string &id, size_t n, int batch, Formula formula, Op op, Out start, Scan scan) {
    if (!options.wanted(id)) return;
    const Copies copies(n, sizeof(In) + sizeof(Out));
    DeviceArray<In> in(copies.total());
    DeviceArray<Out> out(copies.total());
    generate<<<1024, 256>>>(in.p, copies.total(), formula);
    LAUNCHED();
    CHECK(cudaMemset(out, poison, copies.total() * sizeof(Out)));
    const auto call = [&](void *storage, size_t &bytes, const In *from, Out *to) {
        return n <= INT_MAX ? scan(storage, bytes, from, to, int(n)) : scan(storage, bytes, from, to, int64_t(n));
    };
    size_t bytes = storage_bytes([&](void *storage, size_t &bytes) { return call(storage, bytes, in.p, out.p); });
    DeviceArray<char> storage(bytes);
    const Figure f{id, n, double(n) * (sizeof(In) + sizeof(Out)), "GB/s", copies.slots, batch};
    const double ms = measure(f, [&](size_t slot) { CHECK(call(storage.p, bytes, in + slot * copies.stride, out + slot * copies.stride)); });
    require(id, copies.total(), Scanned<In, Out, Op>{in, out, n, copies.stride, op, start});
    Out last;
    CHECK(cudaMemcpy(&last, out + (n - 1), sizeof last, cudaMemcpyDeviceToHost));
    report(f, ms, bits(last));
}

template <class In, class Out>
void sum_figure(const std::string &name, int log, int batch = 1) {
    scan_figure<In, Out>("scan/" + name + "/2^" + std::to_string(log), options.size(log), batch, Numbers<In>(), Add<Out>(), Out(0),
                         [](void *storage, size_t &bytes, const In *in, Out *out, auto n) {
                             return cub::DeviceScan::InclusiveSum(storage, bytes, in, out, n);
                         });
}

static void scan_figures() {
    for (int log = 10; log <= 30; log += 2) sum_figure<uint32_t, uint32_t>("uint32", log, log <= 20 ? 100 : 1);
    sum_figure<uint64_t, uint64_t>("uint64", 28);
    sum_figure<double, double>("float64", 28);
    sum_figure<uint16_t, uint16_t>("uint16", 28);
    sum_figure<uint8_t, uint8_t>("uint8", 28);
    sum_figure<uint8_t, uint8_t>("uint8", 33);
    sum_figure<uint8_t, uint32_t>("uint8-uint32", 28);
    scan_figure<uint32_t, uint32_t>("scan/max-uint32/2^28", options.size(28), 1, Rising(), Greater(), uint32_t(0),
                                    [](void *storage, size_t &bytes, const uint32_t *in, uint32_t *out, auto n) {
                                        return cub::DeviceScan::InclusiveScan(storage, bytes, in, out, cuda::maximum<>{}, n);
                                    });
    scan_figure<Affine, Affine>("scan/user8/2^28", options.size(28), 1, Maps(), Compose(), Affine{1, 0},
                                [](void *storage, size_t &bytes, const Affine *in, Affine *out, auto n) {
                                    return cub::DeviceScan::InclusiveScan(storage, bytes, in, out, Compose(), n);
                                });
}

struct Keys {
    __host__ __device__ uint32_t operator()(uint64_t i) const { return uint32_t(i / 61); }
};

// SummedByKey is whether out is the scan of in that begins again at each key.
struct SummedByKey {
    const uint32_t *in, *out;
    __device__ bool operator()(size_t i) const {
        const bool begins = i == 0 || Keys()(i) != Keys()(i - 1);
        return out[i] == (begins ? 0 : out[i - 1]) + in[i];
    }
};

// SummedBackwards is whether out is the scan of in from the last element on.
struct SummedBackwards {
    const uint32_t *in, *out;
    size_t n;
    __device__ bool operator()(size_t i) const { return out[i] == (i + 1 == n ? 0 : out[i + 1]) + in[i]; }
};

// order_figure measures scan(storage, bytes, in, out, n) of one copy of numbers;
// right(in, out) says whether an element is right. The last element is reported,
// or the first.
template <class Scan, class Right>
void order_figure(const std::string &id, size_t bytes_an_element, Scan scan, Right right, bool last) {
    const size_t n = options.size(28);
    DeviceArray<uint32_t> in(n), out(n);
    generate<<<1024, 256>>>(in.p, n, Numbers<uint32_t>());
    LAUNCHED();
    CHECK(cudaMemset(out, poison, n * sizeof(uint32_t)));
    size_t bytes = storage_bytes([&](void *storage, size_t &bytes) { return scan(storage, bytes, in.p, out.p, int(n)); });
    DeviceArray<char> storage(bytes);
    const Figure f{id, n, double(n) * bytes_an_element, "GB/s"};
    const double ms = measure(f, [&](size_t) { CHECK(scan(storage.p, bytes, in.p, out.p, int(n))); });
    require(id, n, right(in.p, out.p));
    uint32_t value = 0;
    CHECK(cudaMemcpy(&value, out + (last ? n - 1 : 0), sizeof value, cudaMemcpyDeviceToHost));
    report(f, ms, value);
}

static void order_figures() {
    const std::string by_key = "scan/by-key/uint32/2^28", reverse = "scan/reverse/uint32/2^28";
    if (options.wanted(by_key)) {
        DeviceArray<uint32_t> keys(options.size(28));
        generate<<<1024, 256>>>(keys.p, options.size(28), Keys());
        LAUNCHED();
        order_figure(by_key, 3 * sizeof(uint32_t),
                     [&](void *storage, size_t &bytes, const uint32_t *in, uint32_t *out, int n) {
                         return cub::DeviceScan::InclusiveSumByKey(storage, bytes, keys.p, in, out, n);
                     },
                     [](const uint32_t *in, const uint32_t *out) { return SummedByKey{in, out}; }, true);
    }
    if (options.wanted(reverse)) {
        order_figure(reverse, 2 * sizeof(uint32_t),
                     [](void *storage, size_t &bytes, const uint32_t *in, uint32_t *out, auto n) {
                         return cub::DeviceScan::InclusiveSum(storage, bytes, thrust::make_reverse_iterator(in + n), thrust::make_reverse_iterator(out + n), n);
                     },
                     [](const uint32_t *in, const uint32_t *out) { return SummedBackwards{in, out, options.size(28)}; }, false);
    }
}

// ---- Selection ----

struct Odd {
    __host__ __device__ uint8_t operator()(uint64_t i) const { return hash(i) & 1; }
};

struct Pairs {
    __host__ __device__ uint32_t operator()(uint64_t i) const { return (uint32_t(i) & ~1u) + uint32_t(hash(i & ~uint64_t(1)) >> 63); }
};

struct Below {
    uint32_t limit;
    __host__ __device__ bool operator()(uint32_t v) const { return v < limit; }
};

// select_figure measures call(storage, bytes, in, flags, out, count, n), which keeps
// the elements i for which keep(i). A partition writes the others behind them, as
// CUB does: the last first.
template <class Formula, class Keep, class Call>
void select_figure(const std::string &name, bool flagged, bool partition, Formula formula, Keep keep, Call select) {
    const std::string id = "select/" + name + "/uint32/2^28";
    if (!options.wanted(id)) return;
    const size_t n = options.size(28);
    DeviceArray<uint32_t> in(n), out(n), count(1);
    DeviceArray<uint8_t> flags(n);
    generate<<<1024, 256>>>(in.p, n, formula);
    generate<<<1024, 256>>>(flags.p, n, Odd());
    LAUNCHED();
    CHECK(cudaMemset(out, poison, n * sizeof(uint32_t)));
    CHECK(cudaMemset(count, poison, sizeof(uint32_t)));
    const auto call = [&](void *storage, size_t &bytes) { return select(storage, bytes, in.p, flags.p, out.p, count.p, int(n)); };
    size_t bytes = storage_bytes(call);
    DeviceArray<char> storage(bytes);

    std::vector<uint32_t> want, others, got(n);
    for (size_t i = 0; i < n; i++) {
        if (keep(i)) {
            want.push_back(formula(i));
        } else if (partition) {
            others.push_back(formula(i));
        }
    }
    const size_t want_kept = want.size();
    want.insert(want.end(), others.rbegin(), others.rend());
    const Figure f{id, n, double(n) * (sizeof(uint32_t) + flagged) + double(want.size()) * sizeof(uint32_t), "GB/s"};
    const double ms = measure(f, [&](size_t) { CHECK(call(storage.p, bytes)); });
    uint32_t kept = 0;
    CHECK(cudaMemcpy(&kept, count, sizeof kept, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(got.data(), out, n * sizeof(uint32_t), cudaMemcpyDeviceToHost));
    if (kept != want_kept) fail(id, "the number kept is wrong");
    if (!std::equal(want.begin(), want.end(), got.begin())) fail(id, "the elements kept are wrong");
    report(f, ms, kept);
}

static void select_figures() {
    const Numbers<uint32_t> numbers;
    const Pairs pairs;
    const Below below{1u << 23};
    const auto odd = [](size_t i) { return Odd()(i) != 0; };
    using In = const uint32_t *;
    using Flags = const uint8_t *;
    using Out = uint32_t *;
    select_figure("flagged", true, false, numbers, odd, [](void *storage, size_t &bytes, In in, Flags flags, Out out, Out count, int n) {
        return cub::DeviceSelect::Flagged(storage, bytes, in, flags, out, count, n);
    });
    select_figure("partition", true, true, numbers, odd, [](void *storage, size_t &bytes, In in, Flags flags, Out out, Out count, int n) {
        return cub::DevicePartition::Flagged(storage, bytes, in, flags, out, count, n);
    });
    select_figure("where", false, false, numbers, [=](size_t i) { return below(numbers(i)); },
                  [=](void *storage, size_t &bytes, In in, Flags, Out out, Out count, int n) {
                      return cub::DeviceSelect::If(storage, bytes, in, out, count, n, below);
                  });
    select_figure("unique", false, false, pairs, [=](size_t i) { return i == 0 || pairs(i) != pairs(i - 1); },
                  [](void *storage, size_t &bytes, In in, Flags, Out out, Out count, int n) {
                      return cub::DeviceSelect::Unique(storage, bytes, in, out, count, n);
                  });
}

// ---- Run-length encoding ----

static void encode_figure(uint32_t mean) {
    const std::string id = "rle/encode/" + std::to_string(mean);
    if (!options.wanted(id)) return;
    const uint32_t n = uint32_t(options.size(30));
    const Runs runs(n, mean);
    DeviceArray<uint8_t> in(n), values(runs.count());
    DeviceArray<uint32_t> lengths(runs.count()), count(1);
    CHECK(cudaMemcpy(in, runs.input.data(), n, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(values, poison, runs.count()));
    CHECK(cudaMemset(lengths, poison, runs.count() * sizeof(uint32_t)));
    CHECK(cudaMemset(count, poison, sizeof(uint32_t)));
    const auto call = [&](void *storage, size_t &bytes) {
        return cub::DeviceRunLengthEncode::Encode(storage, bytes, in.p, values.p, lengths.p, count.p, int(n));
    };
    size_t bytes = storage_bytes(call);
    DeviceArray<char> storage(bytes);
    const Figure f{id, n, double(n), "GB/s"};
    const double ms = measure(f, [&](size_t) { CHECK(call(storage.p, bytes)); });
    uint32_t found = 0;
    std::vector<uint8_t> got_values(runs.count());
    std::vector<uint32_t> got_lengths(runs.count());
    CHECK(cudaMemcpy(&found, count, sizeof found, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(got_values.data(), values, got_values.size(), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(got_lengths.data(), lengths, got_lengths.size() * sizeof(uint32_t), cudaMemcpyDeviceToHost));
    if (found != runs.count()) fail(id, "the number of runs is wrong");
    if (got_values != runs.values) fail(id, "the values are wrong");
    if (got_lengths != runs.lengths) fail(id, "the lengths are wrong");
    report(f, ms, found);
}

// ---- Ceiling ----

struct Equal {
    const uint8_t *a, *b;
    __device__ bool operator()(size_t i) const { return a[i] == b[i]; }
};

struct Filled {
    const uint8_t *p;
    uint8_t value;
    __device__ bool operator()(size_t i) const { return p[i] == value; }
};

static void ceiling_figures() {
    const size_t n = options.size(30);
    const Figure copy{"copy/2^30", n, 2.0 * n, "GB/s"}, fill{"fill/2^30", n, 1.0 * n, "GB/s"};
    if (!options.wanted(copy.id) && !options.wanted(fill.id)) return;
    constexpr uint8_t filling = 0x5c;
    DeviceArray<uint8_t> in(n), out(n);
    generate<<<1024, 256>>>(in.p, n, Numbers<uint8_t>());
    LAUNCHED();
    if (options.wanted(copy.id)) {
        CHECK(cudaMemset(out, poison, n));
        const double ms = measure(copy, [&](size_t) { CHECK(cudaMemcpyAsync(out, in, n, cudaMemcpyDeviceToDevice)); });
        require(copy.id, n, Equal{in, out});
        uint8_t last = 0;
        CHECK(cudaMemcpy(&last, out + (n - 1), 1, cudaMemcpyDeviceToHost));
        report(copy, ms, last);
    }
    if (options.wanted(fill.id)) {
        CHECK(cudaMemset(out, poison, n));
        const double ms = measure(fill, [&](size_t) { CHECK(cudaMemsetAsync(out, filling, n)); });
        require(fill.id, n, Filled{out, filling});
        report(fill, ms, filling);
    }
}

int main(int argc, char **argv) {
    options = parse(argc, argv);
    about("CUB " + std::to_string(CUB_MAJOR_VERSION) + "." + std::to_string(CUB_MINOR_VERSION) + "." + std::to_string(CUB_SUBMINOR_VERSION));
    ceiling_figures();
    scan_figures();
    order_figures();
    select_figures();
    for (uint32_t mean : {1u, 2u, 16u, 256u, 65536u}) encode_figure(mean);
    return 0;
}
