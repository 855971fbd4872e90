// The algorithms that ptxrun started from, as plainly as they are described, to
// measure it against: scan by recursive block sums with one element a thread in
// blocks of 1024; run-length coding by mark, scan, scatter and finish; decoding
// by a thread, a warp or a block a run, and by a binary search an element; LCS
// by one spinning thread a cell on mapped host memory.
//
//     nvcc -O3 -std=c++17 -arch=native -o seeds seeds.cu
//     ./seeds [-run REGEX] [-scale S]
//
// Each figure is a line of JSON on standard output: the median time of 3 to 21
// repetitions after a warm-up, by CUDA events around the work, memory held
// before. Every output is poisoned first and compared with a sequential
// computation; a difference ends the program. -scale divides the sizes by 2^S,
// for a trial run.
//
// The data is a formula, which ptxrun's own benchmark also computes. hash is
// SplitMix64's finaliser.
//   scan:  element i is hash(i) >> 40.
//   runs:  a run begins at 0 and at every position k > 0 with hash(k) % mean == 0,
//          so lengths are geometric; the value of a run that begins at k is the
//          one before it, 0 at first, plus 1 + (hash(k) >> 32) % 255, modulo 256.
//   LCS:   letter i of string s (1 and 2) is "ACGT"[hash(s << 32 | i) & 3].

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <regex>
#include <string>
#include <vector>

static void check(cudaError_t e, const char *what, int line) {
    if (e == cudaSuccess) return;
    fprintf(stderr, "seeds.cu:%d: %s: %s\n", line, what, cudaGetErrorString(e));
    exit(1);
}
#define CHECK(call) check((call), #call, __LINE__)
#define LAUNCHED() check(cudaGetLastError(), "launch", __LINE__)

static void fail(const std::string &id, const std::string &why) {
    fprintf(stderr, "seeds.cu: %s: %s\n", id.c_str(), why.c_str());
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

static uint64_t hash(uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

// ---- Scan ----

constexpr unsigned block_size = 1024;
constexpr unsigned block_warps = block_size / 32;

static unsigned blocks_for(size_t n) { return unsigned((n + block_size - 1) / block_size); }

struct Add {
    using Data = uint32_t;
    static __device__ Data identity() { return 0; }
    static __device__ Data combine(Data a, Data b) { return a + b; }
};

template <class Op>
__device__ typename Op::Data scan_in_warp(typename Op::Data v) {
    const int lane = threadIdx.x % 32;
    for (int delta = 1; delta < 32; delta *= 2) {
        const auto left = __shfl_up_sync(0xffffffff, v, delta);
        if (lane >= delta) v = Op::combine(left, v);
    }
    return v;
}

template <class Op>
__device__ typename Op::Data scan_in_block(typename Op::Data v, typename Op::Data *warp_sums) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    v = scan_in_warp<Op>(v);
    if (lane == 31) warp_sums[warp] = v;
    __syncthreads();
    if (warp == 0) {
        const auto sum = scan_in_warp<Op>(lane < int(block_warps) ? warp_sums[lane] : Op::identity());
        warp_sums[lane] = sum;
    }
    __syncthreads();
    return warp > 0 ? Op::combine(warp_sums[warp - 1], v) : v;
}

template <class Op>
__global__ void scan_blocks(const typename Op::Data *in, size_t n, typename Op::Data *out, typename Op::Data *sums) {
    __shared__ typename Op::Data warp_sums[block_warps];
    const size_t i = size_t(blockIdx.x) * block_size + threadIdx.x;
    const auto v = scan_in_block<Op>(i < n ? in[i] : Op::identity(), warp_sums);
    if (i < n) out[i] = v;
    if (sums && threadIdx.x == block_size - 1) sums[blockIdx.x] = v;
}

template <class Op>
__global__ void add_prefixes(typename Op::Data *out, const typename Op::Data *scanned_sums, size_t n) {
    const size_t i = size_t(blockIdx.x) * block_size + threadIdx.x;
    if (i < n && blockIdx.x > 0) out[i] = Op::combine(scanned_sums[blockIdx.x - 1], out[i]);
}

static size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

template <class Op>
size_t scan_workspace(size_t n) {
    size_t bytes = 0;
    for (; n > 1; n = blocks_for(n)) bytes += 2 * aligned(blocks_for(n) * sizeof(typename Op::Data));
    return bytes;
}

template <class Op>
void scan(const typename Op::Data *in, size_t n, typename Op::Data *out, char *workspace) {
    using T = typename Op::Data;
    const unsigned blocks = blocks_for(n);
    if (blocks == 1) {
        scan_blocks<Op><<<1, block_size>>>(in, n, out, nullptr);
        LAUNCHED();
        return;
    }
    T *sums = reinterpret_cast<T *>(workspace);
    workspace += aligned(blocks * sizeof(T));
    T *scanned = reinterpret_cast<T *>(workspace);
    workspace += aligned(blocks * sizeof(T));
    scan_blocks<Op><<<blocks, block_size>>>(in, n, out, sums);
    LAUNCHED();
    scan<Op>(sums, blocks, scanned, workspace);
    add_prefixes<Op><<<blocks, block_size>>>(out, scanned, n);
    LAUNCHED();
}

// ---- Run-length encoding ----

__global__ void mark(const uint8_t *raw, uint32_t *flags, uint32_t n) {
    const uint32_t i = blockIdx.x * block_size + threadIdx.x;
    if (i < n) flags[i] = i == 0 || raw[i] != raw[i - 1];
}

__global__ void scatter(const uint8_t *raw, const uint32_t *flags, const uint32_t *scanned, uint32_t *starts, uint8_t *values, uint32_t n) {
    const uint32_t i = blockIdx.x * block_size + threadIdx.x;
    if (i >= n || !flags[i]) return;
    const uint32_t run = scanned[i] - 1;
    starts[run] = i;
    values[run] = raw[i];
}

__global__ void finish(const uint32_t *starts, uint32_t runs, uint32_t n, uint32_t *lengths) {
    const uint32_t run = blockIdx.x * block_size + threadIdx.x;
    if (run >= runs) return;
    lengths[run] = (run + 1 < runs ? starts[run + 1] : n) - starts[run];
}

// EncodeSpace is encode's workspace.
struct EncodeSpace {
    DeviceArray<uint32_t> flags, scanned, starts;
    DeviceArray<char> sums;
    explicit EncodeSpace(uint32_t n) : flags(n), scanned(n), starts(n), sums(scan_workspace<Add>(n)) {}
};

static uint32_t encode(const uint8_t *raw, uint32_t n, EncodeSpace &w, uint8_t *values, uint32_t *lengths) {
    const unsigned blocks = blocks_for(n);
    mark<<<blocks, block_size>>>(raw, w.flags, n);
    LAUNCHED();
    scan<Add>(w.flags, n, w.scanned, w.sums);
    uint32_t runs = 0;
    CHECK(cudaMemcpy(&runs, w.scanned + (n - 1), sizeof runs, cudaMemcpyDeviceToHost));
    scatter<<<blocks, block_size>>>(raw, w.flags, w.scanned, w.starts, values, n);
    LAUNCHED();
    finish<<<blocks_for(runs), block_size>>>(w.starts, runs, n, lengths);
    LAUNCHED();
    return runs;
}

// ---- Run-length decoding ----
// starts holds runs + 1 entries: where each run starts, and the total.

__global__ void write_by_thread(const uint8_t *values, const uint32_t *starts, uint32_t runs, uint8_t *out) {
    const uint32_t run = blockIdx.x * block_size + threadIdx.x;
    if (run >= runs) return;
    for (uint32_t i = starts[run]; i < starts[run + 1]; i++) out[i] = values[run];
}

__global__ void write_by_warp(const uint8_t *values, const uint32_t *starts, uint32_t runs, uint8_t *out) {
    const uint32_t run = blockIdx.x * block_warps + threadIdx.x / 32;
    if (run >= runs) return;
    const uint32_t end = starts[run + 1];
    const uint8_t v = values[run];
    for (uint32_t i = starts[run] + threadIdx.x % 32; i < end; i += 32) out[i] = v;
}

__global__ void write_by_block(const uint8_t *values, const uint32_t *starts, uint8_t *out) {
    const uint32_t run = blockIdx.x;
    const uint32_t end = starts[run + 1];
    const uint8_t v = values[run];
    for (uint32_t i = starts[run] + threadIdx.x; i < end; i += block_size) out[i] = v;
}

__device__ uint32_t first_greater(const uint32_t *a, uint32_t n, uint32_t key) {
    uint32_t lo = 0, hi = n;
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;
        if (a[mid] <= key) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

__global__ void write_by_search(const uint8_t *values, const uint32_t *starts, uint32_t runs, uint32_t total, uint8_t *out) {
    const uint32_t i = blockIdx.x * block_size + threadIdx.x;
    if (i < total) out[i] = values[first_greater(starts, runs + 1, i) - 1];
}

// DecodeSpace is decode's workspace.
struct DecodeSpace {
    DeviceArray<uint32_t> starts, lengths;
    DeviceArray<char> sums;
    explicit DecodeSpace(uint32_t runs) : starts(size_t(runs) + 1), lengths(runs), sums(scan_workspace<Add>(runs)) {}
};

static uint32_t decode(const std::string &strategy, const uint8_t *values, const uint32_t *lengths, uint32_t runs, DecodeSpace &w, uint8_t *out) {
    CHECK(cudaMemset(w.starts, 0, sizeof(uint32_t)));
    CHECK(cudaMemcpy(w.lengths, lengths, runs * sizeof(uint32_t), cudaMemcpyDeviceToDevice));
    scan<Add>(w.lengths, runs, w.starts + 1, w.sums);
    uint32_t total = 0;
    CHECK(cudaMemcpy(&total, w.starts + runs, sizeof total, cudaMemcpyDeviceToHost));
    if (strategy == "thread") write_by_thread<<<blocks_for(runs), block_size>>>(values, w.starts, runs, out);
    else if (strategy == "warp") write_by_warp<<<(runs + block_warps - 1) / block_warps, block_size>>>(values, w.starts, runs, out);
    else if (strategy == "block") write_by_block<<<runs, block_size>>>(values, w.starts, out);
    else write_by_search<<<blocks_for(total), block_size>>>(values, w.starts, runs, total, out);
    LAUNCHED();
    return total;
}

// ---- LCS ----

struct Table {
    volatile int *cells;
    int rows, columns;
    const char *a, *b;  // one a row, one a column

    __device__ int at(int i, int j) const { return i < 0 || j < 0 ? 0 : cells[int64_t(i) * columns + j]; }
    __device__ bool fill(int i, int j) const {
        const int up = at(i - 1, j), left = at(i, j - 1), diagonal = at(i - 1, j - 1);
        if (up == -1 || left == -1 || diagonal == -1) return false;
        cells[int64_t(i) * columns + j] = max(diagonal + (a[i] == b[j]), max(up, left));
        return true;
    }
};

__global__ void spin_wait(Table t) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= t.rows || j >= t.columns) return;
    while (!t.fill(i, j)) {
    }
}

static int lcs_by_definition(const std::vector<char> &a, const std::vector<char> &b) {
    std::vector<int> row(b.size() + 1);
    for (char x : a) {
        int diagonal = 0;
        for (size_t j = 0; j < b.size(); j++) {
            const int up = row[j + 1];
            row[j + 1] = x == b[j] ? diagonal + 1 : std::max(up, row[j]);
            diagonal = up;
        }
    }
    return row.back();
}

// ---- Figures ----

static std::regex wanted_ids(".");
static int scale = 0;

static bool wanted(const std::string &id) { return std::regex_search(id, wanted_ids); }

// figure prints the median time of work. amount is bytes or cells.
static void figure(const std::string &id, uint64_t n, double amount, const char *unit, const std::function<void()> &work) {
    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    work();
    CHECK(cudaDeviceSynchronize());
    std::vector<float> times;
    const auto begin = std::chrono::steady_clock::now();
    while (times.size() < 3 || (times.size() < 21 && std::chrono::steady_clock::now() - begin < std::chrono::seconds(3))) {
        float ms = 0;
        CHECK(cudaEventRecord(start));
        work();
        CHECK(cudaEventRecord(stop));
        CHECK(cudaEventSynchronize(stop));
        CHECK(cudaEventElapsedTime(&ms, start, stop));
        times.push_back(ms);
    }
    std::sort(times.begin(), times.end());
    const double ms = times[times.size() / 2];
    printf("{\"id\":\"%s\",\"n\":%llu,\"ms\":%.4f,\"rate\":%.3f,\"unit\":\"%s\"}\n", id.c_str(), (unsigned long long)n, ms, amount / ms / 1e6, unit);
    fflush(stdout);
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(stop));
}

constexpr int poison = 0xab;

static void scan_figure() {
    const std::string id = "scan/recursive/uint32/2^28";
    if (!wanted(id)) return;
    const size_t n = size_t(1) << (28 - scale);
    std::vector<uint32_t> input(n), output(n);
    for (size_t i = 0; i < n; i++) input[i] = uint32_t(hash(i) >> 40);
    DeviceArray<uint32_t> in(n), out(n);
    DeviceArray<char> workspace(scan_workspace<Add>(n));
    CHECK(cudaMemcpy(in, input.data(), n * sizeof(uint32_t), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(out, poison, n * sizeof(uint32_t)));
    const auto work = [&] { scan<Add>(in, n, out, workspace); };
    work();
    CHECK(cudaMemcpy(output.data(), out, n * sizeof(uint32_t), cudaMemcpyDeviceToHost));
    uint32_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (output[i] != (sum += input[i])) fail(id, "element " + std::to_string(i) + " is wrong");
    }
    figure(id, n, 2.0 * n * sizeof(uint32_t), "GB/s", work);
}

static void rle_figures(uint32_t mean) {
    const std::string suffix = "/" + std::to_string(mean), encode_id = "rle/encode/mark-scan" + suffix;
    const char *const strategies[] = {"thread", "warp", "block", "tiled"};
    bool any = wanted(encode_id);
    for (auto s : strategies) any |= wanted("rle/decode/" + std::string(s) + suffix);
    if (!any) return;

    const uint32_t n = uint32_t(1) << (30 - scale);
    std::vector<uint8_t> input(n), want_values;
    std::vector<uint32_t> want_lengths;
    uint8_t value = 0;
    for (uint32_t k = 0; k < n; k++) {
        const uint64_t h = hash(k);
        if (k == 0 || h % mean == 0) {
            value += 1 + (h >> 32) % 255;
            want_values.push_back(value);
            want_lengths.push_back(0);
        }
        want_lengths.back()++;
        input[k] = value;
    }
    const uint32_t runs = uint32_t(want_values.size());

    DeviceArray<uint8_t> values(runs);
    DeviceArray<uint32_t> lengths(runs);
    {
        DeviceArray<uint8_t> raw(n);
        EncodeSpace space(n);
        CHECK(cudaMemcpy(raw, input.data(), n, cudaMemcpyHostToDevice));
        CHECK(cudaMemset(values, poison, runs));
        CHECK(cudaMemset(lengths, poison, runs * sizeof(uint32_t)));
        const auto work = [&] {
            if (encode(raw, n, space, values, lengths) != runs) fail(encode_id, "the number of runs is wrong");
        };
        work();
        std::vector<uint8_t> got_values(runs);
        std::vector<uint32_t> got_lengths(runs);
        CHECK(cudaMemcpy(got_values.data(), values, runs, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(got_lengths.data(), lengths, runs * sizeof(uint32_t), cudaMemcpyDeviceToHost));
        if (got_values != want_values) fail(encode_id, "the values are wrong");
        if (got_lengths != want_lengths) fail(encode_id, "the lengths are wrong");
        if (wanted(encode_id)) figure(encode_id, n, n, "GB/s", work);
    }

    DeviceArray<uint8_t> out(n);
    DecodeSpace space(runs);
    std::vector<uint8_t> output(n);
    for (auto s : strategies) {
        const std::string id = "rle/decode/" + std::string(s) + suffix;
        if (!wanted(id)) continue;
        CHECK(cudaMemset(out, poison, n));
        const auto work = [&] {
            if (decode(s, values, lengths, runs, space, out) != n) fail(id, "the total is wrong");
        };
        work();
        CHECK(cudaMemcpy(output.data(), out, n, cudaMemcpyDeviceToHost));
        if (output != input) fail(id, "the decoded bytes differ from the input");
        figure(id, n, n, "GB/s", work);
    }
}

static void lcs_figure(int size) {
    const std::string id = "lcs/spin-wait/" + std::to_string(size);
    if (!wanted(id)) return;
    const int n = size >> scale;
    std::vector<char> text[2];
    char *mapped[2];
    for (uint64_t s = 0; s < 2; s++) {
        for (uint64_t i = 0; i < uint64_t(n); i++) text[s].push_back("ACGT"[hash((s + 1) << 32 | i) & 3]);
        CHECK(cudaHostAlloc(&mapped[s], n, cudaHostAllocMapped));
        memcpy(mapped[s], text[s].data(), n);
    }
    const int want = lcs_by_definition(text[0], text[1]);
    const size_t cells = size_t(n) * n;
    DeviceArray<int> table(cells);
    const dim3 block(16, 16), grid((n + 15) / 16, (n + 15) / 16);
    figure(id, n, double(cells), "GCUPS", [&] {
        CHECK(cudaMemset(table, 0xff, cells * sizeof(int)));
        spin_wait<<<grid, block>>>(Table{table, n, n, mapped[0], mapped[1]});
        LAUNCHED();
        int got = -1;
        CHECK(cudaMemcpy(&got, table + (cells - 1), sizeof got, cudaMemcpyDeviceToHost));
        if (got != want) fail(id, "length " + std::to_string(got) + ", want " + std::to_string(want));
    });
    for (auto m : mapped) CHECK(cudaFreeHost(m));
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        const bool more = i + 1 < argc;
        if (more && !strcmp(argv[i], "-run")) wanted_ids = std::regex(argv[++i]);
        else if (more && !strcmp(argv[i], "-scale")) scale = atoi(argv[++i]);
        else {
            fprintf(stderr, "usage: seeds [-run REGEX] [-scale S]\n");
            return 2;
        }
    }
    scan_figure();
    for (uint32_t mean : {2u, 16u, 256u, 65536u}) rle_figures(mean);
    lcs_figure(1000);
    lcs_figure(16384);
    return 0;
}
