// The algorithms that ptxrun started from, as plainly as they are described, to
// measure it against: scan by recursive block sums with one element a thread in
// blocks of 1024; run-length coding by mark, scan, scatter and finish; decoding
// by a thread, a warp or a block a run, and by a binary search an element; LCS
// by one spinning thread a cell on mapped host memory.
//
//     nvcc -O3 -std=c++17 -arch=native -o seeds seeds.cu
//     ./seeds [-device N] [-scale S] [ID ...]
//
// Each figure is a line of JSON on standard output; peer.cuh says what the data
// is and how it is timed. Further data, for LCS: letter i of string s (1 and 2)
// is "ACGT"[hash(s << 32 | i) & 3].

#include "peer.cuh"

static Options options;

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

static void scan_figure() {
    const std::string id = "scan/recursive/uint32/2^28";
    if (!options.wanted(id)) return;
    const size_t n = options.size(28);
    std::vector<uint32_t> input(n), output(n);
    for (size_t i = 0; i < n; i++) input[i] = uint32_t(hash(i) >> 40);
    DeviceArray<uint32_t> in(n), out(n);
    DeviceArray<char> workspace(scan_workspace<Add>(n));
    CHECK(cudaMemcpy(in, input.data(), n * sizeof(uint32_t), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(out, poison, n * sizeof(uint32_t)));
    const Figure f{id, n, 2.0 * n * sizeof(uint32_t), "GB/s"};
    const double ms = measure(f, [&](size_t) { scan<Add>(in, n, out, workspace); });
    CHECK(cudaMemcpy(output.data(), out, n * sizeof(uint32_t), cudaMemcpyDeviceToHost));
    uint32_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (output[i] != (sum += input[i])) fail(id, "element " + std::to_string(i) + " is wrong");
    }
    report(f, ms, sum);
}

// waiting is a figure of work in which the host waits for a number.
static Figure waiting(const std::string &id, uint64_t n, double amount, const char *unit) { return {id, n, amount, unit, 1, 1, true}; }

static void rle_figures(uint32_t mean) {
    const std::string suffix = "/" + std::to_string(mean), encode_id = "rle/encode/mark-scan" + suffix;
    const char *const strategies[] = {"thread", "warp", "block", "tiled"};
    bool any = options.wanted(encode_id);
    for (auto s : strategies) any |= options.wanted("rle/decode/" + std::string(s) + suffix);
    if (!any) return;

    const uint32_t n = uint32_t(options.size(30));
    const Runs want(n, mean);
    const uint32_t runs = want.count();
    DeviceArray<uint8_t> values(runs);
    DeviceArray<uint32_t> lengths(runs);
    {
        DeviceArray<uint8_t> raw(n);
        EncodeSpace space(n);
        CHECK(cudaMemcpy(raw, want.input.data(), n, cudaMemcpyHostToDevice));
        CHECK(cudaMemset(values, poison, runs));
        CHECK(cudaMemset(lengths, poison, runs * sizeof(uint32_t)));
        const Figure f = waiting(encode_id, n, n, "GB/s");
        const auto work = [&](size_t) {
            if (encode(raw, n, space, values, lengths) != runs) fail(encode_id, "the number of runs is wrong");
        };
        double ms = 0;
        if (options.wanted(encode_id)) ms = measure(f, work);
        else work(0);
        std::vector<uint8_t> got_values(runs);
        std::vector<uint32_t> got_lengths(runs);
        CHECK(cudaMemcpy(got_values.data(), values, runs, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(got_lengths.data(), lengths, runs * sizeof(uint32_t), cudaMemcpyDeviceToHost));
        if (got_values != want.values) fail(encode_id, "the values are wrong");
        if (got_lengths != want.lengths) fail(encode_id, "the lengths are wrong");
        if (options.wanted(encode_id)) report(f, ms, runs);
    }

    DeviceArray<uint8_t> out(n);
    DecodeSpace space(runs);
    std::vector<uint8_t> output(n);
    for (auto s : strategies) {
        const Figure f = waiting("rle/decode/" + std::string(s) + suffix, n, n, "GB/s");
        if (!options.wanted(f.id)) continue;
        CHECK(cudaMemset(out, poison, n));
        const double ms = measure(f, [&](size_t) {
            if (decode(s, values, lengths, runs, space, out) != n) fail(f.id, "the total is wrong");
        });
        CHECK(cudaMemcpy(output.data(), out, n, cudaMemcpyDeviceToHost));
        if (output != want.input) fail(f.id, "the decoded bytes differ from the input");
        report(f, ms, runs);
    }
}

static void lcs_figure(int size) {
    const std::string id = "lcs/spin-wait/" + std::to_string(size);
    if (!options.wanted(id)) return;
    const int n = std::max(size >> options.scale, 1);
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
    const Figure f = waiting(id, n, double(cells), "GCUPS");
    const double ms = measure(f, [&](size_t) {
        CHECK(cudaMemset(table, 0xff, cells * sizeof(int)));
        spin_wait<<<grid, block>>>(Table{table, n, n, mapped[0], mapped[1]});
        LAUNCHED();
        int got = -1;
        CHECK(cudaMemcpy(&got, table + (cells - 1), sizeof got, cudaMemcpyDeviceToHost));
        if (got != want) fail(id, "length " + std::to_string(got) + ", want " + std::to_string(want));
    });
    report(f, ms, uint64_t(want));
    for (auto m : mapped) CHECK(cudaFreeHost(m));
}

int main(int argc, char **argv) {
    options = parse(argc, argv);
    about("the algorithms as first described");
    scan_figure();
    for (uint32_t mean : {2u, 16u, 256u, 65536u}) rle_figures(mean);
    lcs_figure(1000);
    lcs_figure(16384);
    return 0;
}
