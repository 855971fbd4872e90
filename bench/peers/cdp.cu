// The figures of launch aggregation by CUDA's dynamic parallelism: each thread
// launches its own child from the device. Built with -rdc=true and cudadevrt.
//
// The data are the formulas of agg.go and agg_examples.go. What a figure prints as
// its check is verified there.

#include "peer.cuh"

static Options options;

// Children are launched without an order among them, the cheapest way there is.
#define LAUNCH_CHILD(kernel, grid, block) kernel<<<(grid), (block), 0, cudaStreamFireAndForget>>>

// allow makes room for so many launches at a time; those beyond would be lost.
static void allow(size_t launches) {
    CHECK(cudaDeviceSetLimit(cudaLimitDevRuntimePendingLaunchCount, std::max<size_t>(launches, 2048)));
}

// ---- Irregular children ----

constexpr uint32_t room = 1024, child_block = 128;

__host__ __device__ inline uint32_t child_size(uint64_t i) { return 1 + uint32_t(hash(i) % 1023); }

__global__ void child(uint32_t *out, uint32_t i, uint32_t n) {
    const uint32_t t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) out[t] = i + t;
}

__global__ void parent(uint32_t *out, uint32_t n) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const uint32_t size = child_size(i);
    LAUNCH_CHILD(child, (size + child_block - 1) / child_block, child_block)(out + uint64_t(i) * room, i, size);
}

struct ChildrenRight {
    const uint32_t *out;
    __device__ bool operator()(size_t k) const {
        const uint32_t i = uint32_t(k / room), t = uint32_t(k % room);
        return out[k] == (t < child_size(i) ? i + t : 0x01010101u * uint32_t(poison));
    }
};

static void children_figure(uint32_t parents) {
    const std::string id = "agg/cdp/" + std::to_string(parents);
    if (!options.wanted(id)) return;
    const uint32_t n = std::max(parents >> options.scale, 1u);
    allow(n);
    uint64_t threads = 0;
    for (uint32_t i = 0; i < n; i++) threads += child_size(i);
    DeviceArray<uint32_t> out(size_t(n) * room);
    CHECK(cudaMemset(out, poison, size_t(n) * room * sizeof(uint32_t)));
    Figure f;
    f.id = id, f.n = n, f.amount = 4 * double(threads), f.unit = "GB/s";
    const double ms = measure(f, [&](size_t) {
        parent<<<(n + 255) / 256, 256>>>(out, n);
        LAUNCHED();
    });
    require(id, size_t(n) * room, ChildrenRight{out});
    report(f, ms, threads);
}

// ---- Shortest paths ----

static uint64_t example(uint64_t kind, uint64_t i) { return hash(kind << 40 | i); }
static float fraction(uint64_t kind, uint64_t i) { return float(example(kind, i) >> 40) / float(1 << 24); }

struct Graph {
    std::vector<uint32_t> offsets{0}, targets, weights;

    void add(uint32_t to) {
        weights.push_back(uint32_t(1 + example(2, targets.size()) % 100));
        targets.push_back(to);
    }
    void next() { offsets.push_back(uint32_t(targets.size())); }
    uint32_t vertices() const { return uint32_t(offsets.size() - 1); }
};

static Graph power_law(uint64_t n) {
    Graph g;
    for (uint64_t v = 0; v < n; v++, g.next()) {
        const uint64_t degree = std::max<uint64_t>(n / (4 * (1 + example(0, v) % n)), 2);
        for (uint64_t i = 0; i < degree; i++) g.add(uint32_t(example(1, g.targets.size()) % n));
    }
    return g;
}

static Graph road(int side) {
    Graph g;
    const int step[4][2] = {{1, 0}, {-1, 0}, {0, 1}, {0, -1}};
    for (int v = 0; v < side * side; v++, g.next()) {
        for (int d = 0; d < 4; d++) {
            const int u = v % side + step[d][0], w = v / side + step[d][1];
            if (u >= 0 && u < side && w >= 0 && w < side && example(3, 4 * uint64_t(v) + d) % 10 > 0) g.add(uint32_t(w * side + u));
        }
    }
    return g;
}

struct Edges {
    const uint32_t *targets, *weights;
    uint32_t *distances, *marked, *next, *next_count;
    uint32_t degree, distance, round;
};

__global__ void relax(Edges e) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= e.degree) return;
    const uint32_t to = e.targets[i], d = e.distance + (e.weights ? e.weights[i] : 1);
    if (*(volatile uint32_t *)&e.distances[to] <= d || atomicMin(&e.distances[to], d) <= d) return;
    if (atomicExch(&e.marked[to], e.round) != e.round) e.next[atomicAdd(e.next_count, 1u)] = to;
}

__global__ void relax_frontier(const uint32_t *offsets, const uint32_t *frontier, uint32_t count, Edges e) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const uint32_t v = frontier[i], first = offsets[v];
    e.degree = offsets[v + 1] - first;
    if (e.degree == 0) return;
    e.targets += first;
    if (e.weights) e.weights += first;
    e.distance = *(volatile uint32_t *)&e.distances[v];
    LAUNCH_CHILD(relax, (e.degree + 255) / 256, e.degree < 256 ? (e.degree + 31) / 32 * 32 : 256)(e);
}

static void search_figure(const std::string &name, bool weighted, const std::function<Graph()> &make) {
    const std::string id = "agg/examples/" + name;
    if (!options.wanted(id)) return;
    const Graph g = make();
    const uint32_t n = g.vertices();
    allow(n);
    const size_t edges = std::max<size_t>(g.targets.size(), 1);
    DeviceArray<uint32_t> offsets(n + 1), targets(edges), weights(edges), distances(n), marked(n), a(n), b(n), counter(1);
    CHECK(cudaMemcpy(offsets, g.offsets.data(), (n + 1) * sizeof(uint32_t), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(targets, g.targets.data(), g.targets.size() * sizeof(uint32_t), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(weights, g.weights.data(), g.weights.size() * sizeof(uint32_t), cudaMemcpyHostToDevice));
    Figure f;
    f.id = id, f.n = n, f.amount = 1e9, f.unit = "calls/s", f.waits = true;
    const double ms = measure(f, [&](size_t) {
        CHECK(cudaMemset(distances, 0xff, n * sizeof(uint32_t)));
        CHECK(cudaMemset(marked, 0, n * sizeof(uint32_t)));
        CHECK(cudaMemset(distances, 0, sizeof(uint32_t)));
        CHECK(cudaMemset(a, 0, sizeof(uint32_t)));
        uint32_t *frontier = a, *next = b, count = 1;
        for (uint32_t round = 1; count > 0; round++) {
            CHECK(cudaMemset(counter, 0, sizeof(uint32_t)));
            const Edges e = {targets, weighted ? (const uint32_t *)weights : nullptr, distances, marked, next, counter, 0, 0, round};
            relax_frontier<<<(count + 255) / 256, 256>>>(offsets, frontier, count, e);
            LAUNCHED();
            CHECK(cudaMemcpy(&count, counter, sizeof count, cudaMemcpyDeviceToHost));
            std::swap(frontier, next);
        }
    });
    std::vector<uint32_t> result(n);
    CHECK(cudaMemcpy(result.data(), distances, n * sizeof(uint32_t), cudaMemcpyDeviceToHost));
    uint64_t sum = 0;
    for (auto d : result) sum += d == UINT32_MAX ? 0 : d;
    report(f, ms, sum);
}

// ---- Bezier curves ----

struct Point {
    float x, y;
};

struct Curve {
    const Point *control;
    Point *vertices;
    uint32_t count;
};

__global__ void tessellate(Curve c) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= c.count) return;
    const float u = float(i) / float(c.count - 1), w = 1.0f - u;
    const float a = w * w, b = 2.0f * u * w, d = u * u;
    c.vertices[i] = Point{a * c.control[0].x + b * c.control[1].x + d * c.control[2].x,
                          a * c.control[0].y + b * c.control[1].y + d * c.control[2].y};
}

// Not contracted, so that both sides have the same number of vertices.
__device__ float length(float x, float y) { return __fsqrt_rn(__fadd_rn(__fmul_rn(x, x), __fmul_rn(y, y))); }
__device__ float half_sum(float a, float b) { return __fmul_rn(0.5f, __fadd_rn(a, b)); }

__global__ void tessellate_curves(const Point *control, uint32_t curves, Point *vertices, uint32_t *counts, uint32_t most) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= curves) return;
    const Point *p = control + 3 * uint64_t(i);
    const float bend = length(__fsub_rn(p[1].x, half_sum(p[0].x, p[2].x)), __fsub_rn(p[1].y, half_sum(p[0].y, p[2].y))) /
                       length(p[2].x - p[0].x, p[2].y - p[0].y);
    const float wanted = bend * 64.0f;
    const uint32_t count = wanted < 4.0f ? 4 : wanted < float(most) ? uint32_t(wanted) : most;
    counts[i] = count;
    LAUNCH_CHILD(tessellate, (count + 127) / 128, count < 128 ? (count + 31) / 32 * 32 : 128)(Curve{p, vertices + uint64_t(i) * most, count});
}

static void bezier_figure() {
    const std::string id = "agg/examples/bezier";
    if (!options.wanted(id)) return;
    const uint32_t n = uint32_t(options.size(16)), most = 1024;
    allow(n);
    std::vector<Point> control(size_t(n) * 3);
    for (size_t i = 0; i < control.size(); i++) control[i] = Point{fraction(4, 2 * i), fraction(4, 2 * i + 1)};
    DeviceArray<Point> points(control.size()), vertices(size_t(n) * most);
    DeviceArray<uint32_t> counts(n);
    CHECK(cudaMemcpy(points, control.data(), control.size() * sizeof(Point), cudaMemcpyHostToDevice));
    Figure f;
    f.id = id, f.n = n, f.amount = 1e9, f.unit = "calls/s", f.waits = true;
    const double ms = measure(f, [&](size_t) {
        tessellate_curves<<<(n + 255) / 256, 256>>>(points, n, vertices, counts, most);
        LAUNCHED();
        CHECK(cudaDeviceSynchronize());
    });
    std::vector<uint32_t> result(n);
    CHECK(cudaMemcpy(result.data(), counts, n * sizeof(uint32_t), cudaMemcpyDeviceToHost));
    uint64_t sum = 0;
    for (auto c : result) sum += c;
    report(f, ms, sum);
}

// ---- A quadtree ----

struct Node {
    uint32_t begin, end;
};

struct Quarter {
    Point *from, *to;
    Node *nodes;
    uint32_t index, begin, end, depth;
    float x, y, half;
    uint32_t leaf, most_depth;
};

__host__ __device__ inline uint32_t node_threads(uint32_t n) { return n >= 65536 ? 1024 : n >= 4096 ? 256 : 64; }

__global__ void __launch_bounds__(1024) split_node(Quarter n) {
    __shared__ uint32_t counts[4], places[4];
    if (threadIdx.x == 0) n.nodes[n.index] = Node{n.begin, n.end};
    if (n.end - n.begin <= n.leaf || n.depth == n.most_depth) return;
    if (threadIdx.x < 4) counts[threadIdx.x] = 0;
    __syncthreads();
    for (uint32_t i = n.begin + threadIdx.x; i < n.end; i += blockDim.x)
        atomicAdd(&counts[(n.from[i].x >= n.x) + 2 * (n.from[i].y >= n.y)], 1u);
    __syncthreads();
    uint32_t first = n.begin;
    for (unsigned k = 0; k < threadIdx.x && k < 4; k++) first += counts[k];
    if (threadIdx.x < 4) places[threadIdx.x] = first;
    __syncthreads();
    for (uint32_t i = n.begin + threadIdx.x; i < n.end; i += blockDim.x)
        n.to[atomicAdd(&places[(n.from[i].x >= n.x) + 2 * (n.from[i].y >= n.y)], 1u)] = n.from[i];
    __threadfence();
    __syncthreads();
    const unsigned k = threadIdx.x;
    if (k >= 4 || counts[k] == 0) return;
    const float h = 0.5f * n.half;
    const Quarter part = {n.to, n.from, n.nodes, 4 * n.index + 1 + k, first, first + counts[k], n.depth + 1,
                          k % 2 ? n.x + h : n.x - h, k / 2 ? n.y + h : n.y - h, h, n.leaf, n.most_depth};
    LAUNCH_CHILD(split_node, 1, node_threads(counts[k]))(part);
}

static uint64_t leaves(const std::vector<Node> &nodes, size_t i, uint32_t depth, uint32_t leaf, uint32_t most_depth) {
    const uint32_t n = nodes[i].end - nodes[i].begin;
    if (n == 0) return 0;
    if (n <= leaf || depth == most_depth) return 1;
    uint64_t sum = 0;
    for (size_t k = 1; k <= 4; k++) sum += leaves(nodes, 4 * i + k, depth + 1, leaf, most_depth);
    return sum;
}

static void quadtree_figure() {
    const std::string id = "agg/examples/quadtree";
    if (!options.wanted(id)) return;
    const uint32_t n = uint32_t(options.size(20)), leaf = 32, most_depth = 10;
    allow(n);
    std::vector<Point> points(n);
    for (uint64_t i = 0; i < n; i++) {
        points[i] = Point{fraction(5, 5 * i) * fraction(5, 5 * i + 1) * fraction(5, 5 * i + 2), fraction(5, 5 * i + 3) * fraction(5, 5 * i + 4)};
    }
    std::vector<Node> tree(((size_t(1) << (2 * most_depth + 2)) - 1) / 3);
    DeviceArray<Point> input(n), from(n), to(n);
    DeviceArray<Node> nodes(tree.size());
    CHECK(cudaMemcpy(input, points.data(), n * sizeof(Point), cudaMemcpyHostToDevice));
    Figure f;
    f.id = id, f.n = n, f.amount = 1e9, f.unit = "calls/s", f.waits = true;
    const double ms = measure(f, [&](size_t) {
        CHECK(cudaMemset(nodes, 0, tree.size() * sizeof(Node)));
        CHECK(cudaMemcpy(from, input, n * sizeof(Point), cudaMemcpyDeviceToDevice));
        CHECK(cudaMemcpy(to, input, n * sizeof(Point), cudaMemcpyDeviceToDevice));
        split_node<<<1, node_threads(n)>>>(Quarter{from, to, nodes, 0, 0, n, 0, 0.5f, 0.5f, 0.5f, leaf, most_depth});
        LAUNCHED();
        CHECK(cudaDeviceSynchronize());
    });
    CHECK(cudaMemcpy(tree.data(), nodes, tree.size() * sizeof(Node), cudaMemcpyDeviceToHost));
    report(f, ms, leaves(tree, 0, 0, leaf, most_depth));
}

int main(int argc, char **argv) {
    options = parse(argc, argv);
    about("launches from the device (CUDA dynamic parallelism)");
    for (uint32_t n : {1024u, 16384u, 131072u}) children_figure(n);
    search_figure("bfs-power", false, [] { return power_law(options.size(20)); });
    search_figure("bfs-road", false, [] { return road(int(options.size(10))); });
    search_figure("sssp-power", true, [] { return power_law(options.size(20)); });
    search_figure("sssp-road", true, [] { return road(int(options.size(10))); });
    bezier_figure();
    quadtree_figure();
    return 0;
}
