#pragma once

#include "look_back.cuh"
#include "shared.cuh"

// Bulk copies into shared memory, the barriers that they complete on, and the role
// that issues them for the tiles of a pass (sm_90).

#if __CUDA_ARCH__ >= 900

namespace ptxrun {

// Barrier is an mbarrier: a phase completes when all arrivals and all announced
// bytes are there. Waits name the parity of the phase, 0 for the first; a waiter
// must not be a whole phase ahead. Every lane arrives for itself: one lane's
// arrival behind a __syncwarp orders the same, but racecheck does not follow it.
struct Barrier {
    uint64_t word;

    __device__ __forceinline__ void init(unsigned arrivals) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(shared_address(this)), "r"(arrivals) : "memory");
    }
    __device__ __forceinline__ void arrive() {
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(shared_address(this)) : "memory");
    }
    // announce arrives and makes the phase wait for bytes as well.
    __device__ __forceinline__ void announce(unsigned bytes) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(shared_address(this)), "r"(bytes) : "memory");
    }
    __device__ __forceinline__ void wait(unsigned parity) const {
        const uint32_t a = shared_address(this);
        uint32_t done;
        do {
            asm volatile("{\n\t.reg .pred p;\n\t"
                         "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                         "selp.u32 %0, 1, 0, p;\n\t}"
                         : "=r"(done) : "r"(a), "r"(parity) : "memory");
        } while (!done);
    }
};

// fence_barriers makes initialised barriers known to the copy engine.
__device__ __forceinline__ void fence_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// fence_copies makes what this thread wrote to shared memory precede copies into it
// that are issued behind a later barrier.
__device__ __forceinline__ void fence_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// bulk_load copies bytes, a multiple of 16 between addresses aligned to 16, from
// global to shared memory; barrier completes when they, too, are there.
__device__ __forceinline__ void bulk_load(void *to, const void *from, unsigned bytes, Barrier &barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 : : "r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(&barrier)) : "memory");
}

// fetch_rest copies what a bulk copy, in units of 16 bytes, leaves of the last
// tile, and zeros up to the next unit. It returns the bytes of the bulk copy.
__device__ __forceinline__ unsigned fetch_rest(unsigned char *to, const void *from, unsigned bytes) {
    const unsigned whole = bytes / 16 * 16;
    if (whole < bytes) {
#pragma unroll 1
        for (unsigned k = whole; k < whole + 16; k++) to[k] = k < bytes ? static_cast<const unsigned char *>(from)[k] : 0;
    }
    return whole;
}

// load_tiles is the loader's role, a thread's, in a pass whose tiles go through a
// ring of stages: it takes tickets, waits until a stage is empty, and calls
// load(stage, tile), which makes the stage's barrier full complete. Behind the last
// tile end(stage) does, once for each reducer: every one has to see the end. Unless
// ahead, a tile is taken when its stage is empty, and not before.
template <int count, int reducers, bool ahead = true, class Stages, class Tickets, class Load, class End>
__device__ __forceinline__ void load_tiles(Stages &stages, Tickets tickets, uint64_t tiles, Load load, End end) {
    uint64_t next = ahead ? tickets.take_ticket() : 0;
    int ends = 0;
    for (uint32_t i = 0;; i++) {
        const int s = i % count;
        uint64_t tile = next;
        if (ahead && tile < tiles) next = tickets.take_ticket();  // its latency passes with the wait
        if (i >= count) stages.empty[s].wait((i / count + 1) & 1);
        if (!ahead && tile < tiles) tile = next = tickets.take_ticket();
        stages.index[s] = tile;
        if (tile < tiles) {
            load(s, tile);
            continue;
        }
        end(s);
        if (++ends == reducers) return;
    }
}

// over_stages is the loop of a role that goes over the stages, every step-th from
// first on: role(stage, parity, tile) for each tile. Roles have loops of their own, so
// that no registers are held for another's.
template <int count, int step, class Stages, class Role>
__device__ __forceinline__ void over_stages(const Stages &stages, uint64_t tiles, unsigned first, Role role) {
    static_assert(count % step == 0, "a stage is always the same one's, or it could be a phase ahead");
    unsigned s = first, parity = 0;
    for (;;) {
        stages.full[s].wait(parity);
        const uint64_t tile = stages.index[s];
        if (tile >= tiles) return;
        role(s, parity, tile);
        if ((s += step) >= count) {
            s -= count;
            parity ^= 1;
        }
    }
}

}  // namespace ptxrun

#endif
