// What the peer programs share: the data, how a figure is timed, and how it is
// printed.
//
// The data is a formula, which ptxrun's own benchmark also computes. hash is
// SplitMix64's finaliser.
//   numbers: element i is hash(i) >> 40, cut to the type.
//   runs:    a run begins at 0 and at every position k > 0 with
//            hash(k) % mean == 0, so lengths are geometric; the value of a run
//            that begins at k is the one before it, 0 at first, plus
//            1 + (hash(k) >> 32) % 255, modulo 256.
//
// A figure is the median time of 5 to 101 repetitions after a warm-up, of 3 where
// the warm-up took more than half a second, of one where it took more than three, by
// CUDA events around the work, with all memory held before. The stream is held by a
// kernel until the work stands behind it, so that the time is the device's and
// not the host's, except where the work itself waits on the host. A repetition
// of small work is a batch of calls, and its time is divided by their number.
// Calls rotate over copies of the data that are together larger than twice the
// level-2 cache. Every output is poisoned first and verified after; a difference
// ends the program.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

inline void check(cudaError_t e, const char *file, int line, const char *what) {
    if (e == cudaSuccess) return;
    fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, cudaGetErrorString(e));
    exit(1);
}
#define CHECK(call) check((call), __FILE__, __LINE__, #call)
#define LAUNCHED() check(cudaGetLastError(), __FILE__, __LINE__, "launch")

[[noreturn]] inline void fail(const std::string &id, const std::string &why) {
    fprintf(stderr, "%s: %s\n", id.c_str(), why.c_str());
    exit(1);
}

// DeviceArray is device memory that is freed at the end of its scope.
template <class T>
struct DeviceArray {
    T *p = nullptr;
    explicit DeviceArray(size_t n) { CHECK(cudaMalloc(&p, std::max<size_t>(n, 1) * sizeof(T))); }
    ~DeviceArray() { cudaFree(p); }
    DeviceArray(const DeviceArray &) = delete;
    operator T *() const { return p; }
};

// ---- Options ----

struct Options {
    int scale = 0;              // sizes are divided by 2^scale, for a trial run
    std::set<std::string> ids;  // the figures to measure; all if there are none

    bool wanted(const std::string &id) const { return ids.empty() || ids.count(id); }
    // size is 2^log, scaled.
    size_t size(int log) const { return size_t(1) << std::max(log - scale, 0); }
};

inline Options parse(int argc, char **argv) {
    Options o;
    for (int i = 1; i < argc; i++) {
        const bool more = i + 1 < argc;
        if (more && !strcmp(argv[i], "-scale")) o.scale = atoi(argv[++i]);
        else if (more && !strcmp(argv[i], "-device")) CHECK(cudaSetDevice(atoi(argv[++i])));
        else if (argv[i][0] != '-') o.ids.insert(argv[i]);
        else {
            fprintf(stderr, "usage: %s [-device N] [-scale S] [ID ...]\n", argv[0]);
            exit(2);
        }
    }
    return o;
}

// ---- Data ----

constexpr int poison = 0xab;

__host__ __device__ inline uint64_t hash(uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

// Runs are n bytes in runs of a mean length, and what they are encoded to.
struct Runs {
    std::vector<uint8_t> input, values;
    std::vector<uint32_t> lengths;

    Runs(uint32_t n, uint32_t mean) : input(n) {
        // Each core marks the heads of a piece with what is added to the value, which
        // is never 0.
        const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
        std::vector<std::thread> threads;
        for (unsigned c = 0; c < cores; c++) {
            threads.emplace_back([=] {
                for (uint64_t k = uint64_t(n) * c / cores; k < uint64_t(n) * (c + 1) / cores; k++) {
                    const uint64_t h = hash(k);
                    input[k] = k == 0 || h % mean == 0 ? 1 + (h >> 32) % 255 : 0;
                }
            });
        }
        for (auto &t : threads) t.join();
        uint8_t value = 0;
        for (uint32_t k = 0; k < n; k++) {
            if (input[k] != 0) {
                value += input[k];
                values.push_back(value);
                lengths.push_back(0);
            }
            lengths.back()++;
            input[k] = value;
        }
    }
    uint32_t count() const { return uint32_t(values.size()); }
};

// Copies are slots of n elements, each at a multiple of 256 elements.
struct Copies {
    size_t n, stride, slots;

    // bytes are moved for an element.
    Copies(size_t n, size_t bytes) : n(n), stride((n + 255) / 256 * 256) {
        int device = 0, l2 = 0;
        CHECK(cudaGetDevice(&device));
        CHECK(cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, device));
        slots = std::min<size_t>(2 * size_t(l2) / (stride * bytes) + 1, 1 << 16);
    }
    size_t total() const { return stride * slots; }
};

template <class T, class Formula>
__global__ void generate(T *p, size_t n, Formula formula) {
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) p[i] = formula(i);
}

template <class Right>
__global__ void find_wrong(size_t n, Right right, unsigned long long *first) {
    for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
        if (!right(i)) atomicMin(first, (unsigned long long)i);
    }
}

// require ends the program if right, called on the device, is false for an i
// below n.
template <class Right>
void require(const std::string &id, size_t n, Right right) {
    DeviceArray<unsigned long long> first(1);
    CHECK(cudaMemset(first, 0xff, sizeof(unsigned long long)));
    find_wrong<<<1024, 256>>>(n, right, first);
    LAUNCHED();
    unsigned long long i = 0;
    CHECK(cudaMemcpy(&i, first, sizeof i, cudaMemcpyDeviceToHost));
    if (i < n) fail(id, "element " + std::to_string(i) + " is wrong");
}

// ---- Figures ----

struct Figure {
    std::string id;
    uint64_t n;
    double amount;  // bytes or cells
    const char *unit;
    size_t slots = 1;    // copies of the data
    int batch = 1;       // calls between two events
    bool waits = false;  // the host waits for the device within a call
};

__global__ void hold(uint64_t ns) {
    uint64_t start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - start < ns);
}

// measure returns the milliseconds of call, which works on one slot.
inline double measure(const Figure &f, const std::function<void(size_t slot)> &call) {
    static uint64_t hold_ns = 250'000;
    using Clock = std::chrono::steady_clock;
    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    const auto warm_up = Clock::now();
    for (size_t slot = 0; slot < f.slots; slot++) call(slot);
    CHECK(cudaDeviceSynchronize());
    const auto took = Clock::now() - warm_up;
    const size_t least = took > std::chrono::seconds(3) ? 1 : took > std::chrono::milliseconds(500) ? 3 : 5;
    std::vector<double> times;
    size_t slot = 0;
    for (const auto begin = Clock::now(); times.size() < least || (times.size() < 101 && Clock::now() - begin < std::chrono::seconds(2));) {
        if (!f.waits) {
            hold<<<1, 1>>>(hold_ns);
            LAUNCHED();
        }
        CHECK(cudaEventRecord(start));
        for (int i = 0; i < f.batch; i++, slot = (slot + 1) % f.slots) call(slot);
        CHECK(cudaEventRecord(stop));
        const bool late = !f.waits && cudaEventQuery(start) != cudaErrorNotReady;
        cudaGetLastError();  // "not ready" stays behind as an error
        CHECK(cudaEventSynchronize(stop));
        if (late) {
            if ((hold_ns *= 2) > 1'000'000'000) fail(f.id, "the host cannot queue the calls while the device is held");
            continue;
        }
        float ms = 0;
        CHECK(cudaEventElapsedTime(&ms, start, stop));
        times.push_back(double(ms) / f.batch);
    }
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(stop));
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

// about prints the line that says what the peer is.
inline void about(const std::string &what) {
    printf("{\"about\":\"%s, nvcc %d.%d\"}\n", what.c_str(), __CUDACC_VER_MAJOR__, __CUDACC_VER_MINOR__);
    fflush(stdout);
}

// report prints a figure. check is a number that another program's result on the
// same data must equal.
inline void report(const Figure &f, double ms, uint64_t check) {
    printf("{\"id\":\"%s\",\"n\":%llu,\"ms\":%.6g,\"rate\":%.6g,\"unit\":\"%s\",\"check\":%llu}\n", f.id.c_str(), (unsigned long long)f.n, ms,
           f.amount / ms / 1e6, f.unit, (unsigned long long)check);
    fflush(stdout);
}

// bits is the memory of a value of up to 8 bytes as a number.
template <class T>
uint64_t bits(const T &v) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "a check is 8 bytes");
    uint64_t b = 0;
    memcpy(&b, &v, sizeof v);
    return b;
}
