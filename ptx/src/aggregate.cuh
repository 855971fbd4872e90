#pragma once

#include "device.cuh"
#include "op.cuh"
#include "warp.cuh"

// Launches that a kernel's threads ask for and the host makes, many at once
// (El Hajj et al., KLAP, MICRO 2016). A parent kernel takes a ChildQueue pointer,
// which Queue.Ptr gives in Go, and calls launch for its children. After the parent
// the host launches what the queue holds: children of the granularity grid all at
// once, those of the granularities block and warp a launch for each block or warp
// that recorded. A child that takes the same pointer may record children again.
//
// Args is a struct with the child kernel's parameters as its members, in order.

namespace ptxrun {

enum class Granularity { warp, block, grid };

// most_blocks bounds a child's grid, so that the blocks of 2^31 children are counted
// in 64 bits.
constexpr uint64_t most_blocks = uint64_t(1) << 32;

// ChildConfig is a child's grid and block, its bytes of dynamic shared memory and
// the number of the thread that asked for it; as aggregate.PutConfig in Go.
struct alignas(16) ChildConfig {
    uint32_t grid[3], block[3], shared, parent;

    __device__ __forceinline__ uint64_t blocks() const { return uint64_t(grid[0]) * grid[1] * grid[2]; }
    __device__ __forceinline__ uint64_t threads() const { return uint64_t(block[0]) * block[1] * block[2]; }
    __device__ __forceinline__ bool empty() const { return grid[0] == 0 || grid[1] == 0 || grid[2] == 0; }
    // fits is whether CUDA's devices have such grids and blocks, as Dim3.FitsGrid and
    // FitsBlock in Go, and the sums over a queue can count them.
    __device__ __forceinline__ bool fits() const {
        return grid[0] <= 0x7fffffff && grid[1] <= 65535 && grid[2] <= 65535 && blocks() <= most_blocks && block[0] <= 1024 &&
               block[1] <= 1024 && block[2] <= 64 && threads() > 0 && threads() <= 1024;
    }
};

// child_config is a configuration in one dimension.
__device__ __forceinline__ ChildConfig child_config(uint32_t grid, uint32_t block, uint32_t shared = 0) {
    return ChildConfig{{grid, 1, 1}, {block, 1, 1}, shared, 0};
}

// ChildGroup are children that one launch is made for; as childGroup in Go.
struct ChildGroup {
    uint64_t first, blocks;
    uint32_t count, threads, shared, zero;
};

// queue_version changes whenever ChildQueue, or what launch does with it, does.
constexpr unsigned queue_version = 2;

// queue_args is what the host and a parent agree on before the parent reads anything
// else: arguments of so many bytes, which take 16 bits, and the version.
constexpr __host__ __device__ uint32_t queue_args(uint32_t bytes) { return bytes + queue_version * 0x10000u; }

// ChildQueue is what the host reads; as queueHeader in Go. Children beyond the
// capacity are counted and not written. Blocks of children of the granularity grid
// have numbers, a child's one after the other, and owners says whose they are, for
// as many as it has room.
struct ChildQueue {
    uint64_t count, blocks, groups, capacity;
    uint32_t threads, shared; // the most that a child asks for
    uint32_t arg_bytes;       // queue_args of the child kernel's parameters
    uint32_t wrong;           // that of a parent where it differs; both lie here in every version
    ChildConfig *configs;
    uint64_t *starts; // a child's first block, in groups counted from the group's
    uint8_t *args;
    ChildGroup *group;
    uint32_t *owners;
    uint64_t room;
};

// Recorded is what some threads record together. It is an operator over itself.
struct Recorded {
    uint64_t blocks;
    uint32_t threads, shared;

    using Value = Recorded;
    static __device__ __forceinline__ Recorded combine(const Recorded &a, const Recorded &b) {
        return {a.blocks + b.blocks, maximum(a.threads, b.threads), maximum(a.shared, b.shared)};
    }
};

// Reserved are the first of the places in the queue and, of a whole grid's
// children, of the blocks that one reservation has.
struct Reserved {
    uint64_t place, block;
};

// reserve takes places in the queue for count children. A group of its own is noted
// unless that is of the whole grid.
template <Granularity granularity>
__device__ __forceinline__ Reserved reserve(ChildQueue *q, uint32_t count, const Recorded &all) {
    Reserved first = {atomic_add(&q->count, uint64_t(count)), 0};
    if (granularity == Granularity::grid) first.block = atomic_add(&q->blocks, all.blocks);
    // Behind the others, where most find the maxima there already.
    if (load_relaxed(&q->threads) < all.threads) atomic_max(&q->threads, all.threads);
    if (all.shared > 0 && load_relaxed(&q->shared) < all.shared) atomic_max(&q->shared, all.shared);
    if (granularity != Granularity::grid) {
        const uint64_t group = atomic_add(&q->groups, uint64_t(1));
        if (first.place + count <= q->capacity && group < q->capacity)
            q->group[group] = ChildGroup{first.place, all.blocks, count, all.threads, all.shared, 0};
    }
    return first;
}

// most_owned bounds the blocks whose owners a warp notes. With more, which take
// longer to note than to search for, the queue has no room, and the host sees to it.
constexpr uint64_t most_owned = 1 << 16;

// most_alone is the blocks of a child that its lane notes by itself.
constexpr uint32_t most_alone = 8;

// own notes the owners of a warp's all blocks, which begin at first. A lane's child
// has the place and, of those, the blocks from start to end; last is the warp's last
// lane.
__device__ __forceinline__ void own(uint32_t *owners, uint64_t first, uint32_t all, uint32_t start, uint32_t end, uint32_t place, int last,
                                    unsigned lane) {
    if (!__any_sync(full_warp, end - start > most_alone)) {
#pragma unroll
        for (uint32_t b = 0; b < most_alone; b++) {
            if (b < end - start) owners[first + start + b] = place;
        }
        return;
    }
    // Lanes share the blocks out evenly, whatever the children's sizes.
    for (uint32_t at = 0; at < all; at += last + 1) {
        const uint32_t block = at + lane;
        int owner = 0; // the lanes whose children end at or before the block
#pragma unroll
        for (int step = warp_size / 2; step > 0; step /= 2) {
            if (shuffle(end, minimum(owner + step - 1, last)) <= block) owner += step;
        }
        const uint32_t child = shuffle(place, minimum(owner, last));
        if (block < all) owners[first + block] = child;
    }
}

// launch records a child for each thread that wants one; a child of no blocks is
// none. It is called by all threads of a warp, for the granularity block by all of
// the block. It makes one reservation a warp, or a block.
template <Granularity granularity, class Args>
__device__ void launch(ChildQueue *q, bool wanted, const ChildConfig &config, const Args &args) {
    static_assert(__is_trivially_copyable(Args), "arguments are copied by their bytes");
    // All that is needed of the queue is loaded at a time, because a parent's time is
    // that of the loads that wait for each other.
    const uint32_t expected = q->arg_bytes;
    const uint64_t capacity = q->capacity, room = load_relaxed(&q->room);
    ChildConfig *const configs = q->configs;
    uint64_t *const starts = q->starts;
    Args *const all_args = reinterpret_cast<Args *>(q->args);
    uint32_t *const owners = q->owners;
    const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    const unsigned lane = thread % warp_size;
    wanted = wanted && !config.empty();
    const unsigned there = __ballot_sync(full_warp, 1), wants = __ballot_sync(full_warp, wanted);
    const int last = latest(there);
    // What is not taken is left for the host to refuse.
    const uint32_t most = config.fits() ? uint32_t(config.threads()) : 0xffffffff;
    const uint64_t mine = wanted ? config.blocks() : 0;
    const Recorded upto = warp_scan<Recorded>(wanted ? Recorded{mine, most, config.shared} : Recorded{}, lane);
    const Recorded warp = shuffle(upto, last);
    const uint32_t count = __popc(wants);
    if (expected != queue_args(sizeof(Args))) {
        store_relaxed(&q->wrong, queue_args(sizeof(Args)));
        return;
    }
    uint64_t start = upto.blocks - mine;
    Reserved first = {};
    if (granularity == Granularity::block) {
        __shared__ Recorded warps[warp_size];
        __shared__ uint32_t counts[warp_size];
        __shared__ uint64_t shared_first;
        if (lane == 0) warps[thread / warp_size] = warp, counts[thread / warp_size] = count;
        __syncthreads();
        const unsigned n = ceil_div(blockDim.x * blockDim.y * blockDim.z, warp_size);
        Recorded all = {};
        uint32_t children = 0, before = 0;
        for (unsigned w = 0; w < n; w++) {
            if (w == thread / warp_size) before = children, start += all.blocks;
            all = Recorded::combine(all, warps[w]);
            children += counts[w];
        }
        if (thread == 0 && children > 0) shared_first = reserve<granularity>(q, children, all).place;
        __syncthreads();
        if (children > 0) first.place = shared_first + before;
        __syncthreads(); // the next call writes there again
    } else if (wants != 0) {
        if (lane == 0) first = reserve<granularity>(q, count, warp);
        first = shuffle(first, 0);
    }
    const uint64_t place = first.place + __popc(wants & ((1u << lane) - 1));
    if (granularity == Granularity::grid && wants != 0 && first.place + count <= capacity) {
        if (warp.blocks > most_owned) {
            if (lane == 0) store_relaxed(&q->room, uint64_t(0));
        } else if (first.block + warp.blocks <= shuffle(room, 0)) { // all go on or none, whatever others store
            own(owners, first.block, uint32_t(warp.blocks), uint32_t(start), uint32_t(upto.blocks), uint32_t(place), last, lane);
        }
    }
    if (wanted && place < capacity) {
        const unsigned in_grid = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        ChildConfig c = config;
        c.parent = thread + blockDim.x * blockDim.y * blockDim.z * in_grid;
        configs[place] = c;
        starts[place] = first.block + start;
        all_args[place] = args;
    }
}

// launch_or_run is launch with a threshold: a child of fewer threads than that is
// run at once by its parent thread, as serial(config, args), which costs less than
// the record of it.
template <Granularity granularity, class Args, class Serial>
__device__ __forceinline__ void launch_or_run(ChildQueue *q, bool wanted, const ChildConfig &config, const Args &args, uint64_t threshold,
                                              Serial serial) {
    const bool small = wanted && config.fits() && config.blocks() * config.threads() < threshold;
    if (small) serial(config, args);
    __syncwarp();
    launch<granularity>(q, wanted && !small, config, args);
}

}  // namespace ptxrun
