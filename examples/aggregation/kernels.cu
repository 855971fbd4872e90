// The kernels of the examples. Each parent asks for children whose size depends on
// the data, and runs those of fewer threads than its threshold itself; with a
// threshold of all ones it is the plain version of itself.
#include <ptxrun/aggregate.cuh>

using namespace ptxrun;

__device__ __forceinline__ uint32_t atomic_min(uint32_t *p, uint32_t v) {
    uint32_t old;
    asm volatile("atom.relaxed.gpu.global.min.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
}
__device__ __forceinline__ uint32_t atomic_exchange(uint32_t *p, uint32_t v) {
    uint32_t old;
    asm volatile("atom.relaxed.gpu.global.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
}

// covering is a grid of blocks of up to most threads that has n.
__device__ __forceinline__ ChildConfig covering(uint32_t n, uint32_t most) {
    return child_config(ceil_div(n, most), n < most ? (n + 31) / 32 * 32 : most);
}

// ---- Shortest paths: a child for the edges of a vertex ----

struct Edges {
    const uint32_t *targets, *weights; // of this vertex; no weights are ones
    uint32_t *distances, *marked, *next, *next_count;
    uint32_t degree, distance, round;
};

// relax_edge improves the distance of an edge's end, and notes the end once a
// round if that could be done.
__device__ __forceinline__ void relax_edge(const Edges &e, uint32_t i) {
    const uint32_t to = e.targets[i], d = e.distance + (e.weights ? e.weights[i] : 1);
    if (load_relaxed(&e.distances[to]) <= d || atomic_min(&e.distances[to], d) <= d) return;
    if (atomic_exchange(&e.marked[to], e.round) != e.round) e.next[atomic_add(e.next_count, 1u)] = to;
}

extern "C" __global__ void relax(const uint32_t *targets, const uint32_t *weights, uint32_t *distances, uint32_t *marked, uint32_t *next,
                                 uint32_t *next_count, uint32_t degree, uint32_t distance, uint32_t round) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < degree) relax_edge(Edges{targets, weights, distances, marked, next, next_count, degree, distance, round}, i);
}

extern "C" __global__ void relax_frontier(ChildQueue *q, const uint32_t *offsets, const uint32_t *targets, const uint32_t *weights,
                                          uint32_t *distances, uint32_t *marked, const uint32_t *frontier, uint32_t count, uint32_t *next,
                                          uint32_t *next_count, uint32_t round, uint32_t threshold) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    const bool there = i < count;
    const uint32_t v = there ? frontier[i] : 0, first = offsets[v], degree = offsets[v + 1] - first;
    const Edges e = {targets + first, weights ? weights + first : nullptr, distances, marked, next, next_count,
                     degree, there ? load_relaxed(&distances[v]) : 0, round};
    launch_or_run<Granularity::grid>(q, there, covering(degree, 256), e, threshold, [](const ChildConfig &, const Edges &e) {
        for (uint32_t k = 0; k < e.degree; k++) relax_edge(e, k);
    });
}

// ---- Bezier curves: a child for the vertices of a curve ----

struct Point {
    float x, y;
};

struct Curve {
    const Point *control; // 3
    Point *vertices;
    uint32_t count;
};

__device__ __forceinline__ void vertex(const Curve &c, uint32_t i) {
    const float u = float(i) / float(c.count - 1), w = 1.0f - u;
    const float a = w * w, b = 2.0f * u * w, d = u * u;
    c.vertices[i] = Point{a * c.control[0].x + b * c.control[1].x + d * c.control[2].x,
                          a * c.control[0].y + b * c.control[1].y + d * c.control[2].y};
}

extern "C" __global__ void tessellate(const Point *control, Point *vertices, uint32_t count) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) vertex(Curve{control, vertices, count}, i);
}

__device__ __forceinline__ float length(float x, float y) {
    float r;
    asm("sqrt.rn.f32 %0, %1;" : "=f"(r) : "f"(x * x + y * y));
    return r;
}

// A curve has as many vertices as it is bent, from 4 to most.
extern "C" __global__ void tessellate_curves(ChildQueue *q, const Point *control, uint32_t curves, Point *vertices, uint32_t *counts, uint32_t most,
                                             uint32_t threshold) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    const bool there = i < curves;
    const Point *p = control + 3 * uint64_t(there ? i : 0);
    const float bend = length(p[1].x - 0.5f * (p[0].x + p[2].x), p[1].y - 0.5f * (p[0].y + p[2].y)) / length(p[2].x - p[0].x, p[2].y - p[0].y);
    const float wanted = bend * 64.0f;
    const uint32_t count = wanted < 4.0f ? 4 : wanted < float(most) ? uint32_t(wanted) : most;
    if (there) counts[i] = count;
    launch_or_run<Granularity::grid>(q, there, covering(count, 128), Curve{p, vertices + uint64_t(i) * most, count}, threshold,
                                     [](const ChildConfig &, const Curve &c) {
                                         for (uint32_t k = 0; k < c.count; k++) vertex(c, k);
                                     });
}

// ---- A quadtree: a child for each quarter of a node ----

struct Node {
    uint32_t begin, end; // its points, in the buffer of its depth's parity
};

struct Quarter {
    ChildQueue *q;
    Point *from, *to;
    Node *nodes; // node i's quarters are 4i+1 to 4i+4
    uint32_t index, begin, end, depth;
    float x, y, half; // the middle, and half the side
    uint32_t leaf, most_depth;
};

__device__ __forceinline__ unsigned quarter(const Quarter &n, const Point &p) { return (p.x >= n.x) + 2 * (p.y >= n.y); }

// part is quarter k of a node, of the points [begin, end).
__device__ __forceinline__ Quarter part(const Quarter &n, unsigned k, uint32_t begin, uint32_t end) {
    const float h = 0.5f * n.half;
    return Quarter{n.q, n.to, n.from, n.nodes, 4 * n.index + 1 + k, begin, end, n.depth + 1,
                   k % 2 ? n.x + h : n.x - h, k / 2 ? n.y + h : n.y - h, h, n.leaf, n.most_depth};
}

// node_threads is the block of a node with n points; as nodeThreads in Go.
__device__ __forceinline__ uint32_t node_threads(uint32_t n) { return n >= 65536 ? 1024 : n >= 4096 ? 256 : 64; }

// A node's block sorts its points by quarter, unless they are few.
extern "C" __global__ void __launch_bounds__(1024) split_node(ChildQueue *q, Point *from, Point *to, Node *nodes, uint32_t index, uint32_t begin,
                                                              uint32_t end, uint32_t depth, float x, float y, float half, uint32_t leaf,
                                                              uint32_t most_depth) {
    __shared__ uint32_t counts[4], places[4];
    const Quarter n = {q, from, to, nodes, index, begin, end, depth, x, y, half, leaf, most_depth};
    if (threadIdx.x == 0) nodes[index] = Node{begin, end};
    if (end - begin <= leaf || depth == most_depth) return;
    if (threadIdx.x < 4) counts[threadIdx.x] = 0;
    __syncthreads();
    for (uint32_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
        uint32_t *p = &counts[quarter(n, from[i])];
        asm volatile("red.relaxed.cta.add.u32 [%0], 1;" : : "l"(p) : "memory");
    }
    __syncthreads();
    uint32_t first = begin;
    for (unsigned k = 0; k < threadIdx.x && k < 4; k++) first += counts[k];
    if (threadIdx.x < 4) places[threadIdx.x] = first;
    __syncthreads();
    for (uint32_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
        uint32_t place;
        asm volatile("atom.relaxed.cta.add.u32 %0, [%1], 1;" : "=r"(place) : "l"(&places[quarter(n, from[i])]) : "memory");
        to[place] = from[i];
    }
    const unsigned k = threadIdx.x % 4;
    launch<Granularity::grid>(q, threadIdx.x < 4 && counts[k] > 0, child_config(1, node_threads(counts[k])), part(n, k, first, first + counts[k]));
}

// The plain version: a thread for each node of a level.
extern "C" __global__ void split_level(const Quarter *level, uint32_t count, Quarter *next, uint32_t *next_count) {
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const Quarter n = level[i];
    n.nodes[n.index] = Node{n.begin, n.end};
    if (n.end - n.begin <= n.leaf || n.depth == n.most_depth) return;
    uint32_t counts[4] = {}, places[4];
    for (uint32_t k = n.begin; k < n.end; k++) {
        const unsigned to = quarter(n, n.from[k]);
#pragma unroll
        for (unsigned j = 0; j < 4; j++) counts[j] += to == j;
    }
    uint32_t first = n.begin;
#pragma unroll
    for (unsigned j = 0; j < 4; j++) {
        places[j] = first;
        if (counts[j] > 0) next[atomic_add(next_count, 1u)] = part(n, j, first, first + counts[j]);
        first += counts[j];
    }
    for (uint32_t k = n.begin; k < n.end; k++) {
        const unsigned to = quarter(n, n.from[k]);
#pragma unroll
        for (unsigned j = 0; j < 4; j++) {
            if (to == j) n.to[places[j]++] = n.from[k];
        }
    }
}
