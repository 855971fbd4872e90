#include "crc32c.cuh"

extern "C" __global__ void __launch_bounds__(ptxrun::crc_block)
crc32c(const uint8_t *data, uint64_t n, ptxrun::PassState *state, uint32_t first, uint32_t *sum) {
    ptxrun::crc32c(data, n, state, first, sum);
}
