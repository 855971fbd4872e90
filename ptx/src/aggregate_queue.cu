// The kernel between a parent and its children.

#include "aggregate.cuh"

using namespace ptxrun;

// queue_take empties a queue and leaves what it held in taken, for the children's
// launch, and in seen, which the host reads. threads and shared are what the launch
// ahead of that has; it does nothing where the children need more, or where the
// host is to refuse them.
extern "C" __global__ void __launch_bounds__(warp_size)
    queue_take(ChildQueue *q, const ChildQueue *empty, TakenQueue *taken, TakenQueue *seen, uint32_t threads, uint32_t shared) {
    constexpr unsigned words = sizeof(TakenQueue) / 4, old_words = sizeof(ChildQueue) / 4;
    static_assert(words <= warp_size, "a lane has a word");
    const unsigned lane = threadIdx.x;
    const bool ready = q->wrong == 0 && q->groups == 0 && q->count <= q->capacity && q->blocks <= q->room && q->threads <= threads &&
                       q->shared <= shared;
    const uint64_t end = ready ? q->blocks : 0;
    uint32_t word = uint32_t(lane == old_words ? end : end >> 32);
    if (lane < old_words) word = reinterpret_cast<const uint32_t *>(q)[lane];
    __syncwarp(); // all have read what is written now
    if (lane < words) {
        reinterpret_cast<uint32_t *>(taken)[lane] = word;
        reinterpret_cast<uint32_t *>(seen)[lane] = word;
    }
    if (lane < old_words) reinterpret_cast<uint32_t *>(q)[lane] = reinterpret_cast<const uint32_t *>(empty)[lane];
}
