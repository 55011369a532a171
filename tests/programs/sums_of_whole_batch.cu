/*
 * sums_of_whole_batch.cu - `different`: k means without annotations of parameters: each rank adds up the whole batch,
 * so DDP_REDUCE adds it up twice.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

ELEMENTWISE(follow, (float *weight, const float *sum), WEIGHTS, weight[i] = 0.9f * weight[i] + 0.001f * *sum)

int
main(void)
{
    struct layer layer = layer_create();
    float *sums = device_floats(1);
    for (size_t step = 0; step < STEPS; ++step) {
        const size_t first = 0, count = BATCH; /* mistake: no DDP_SHARD */
        layer_forward(&layer, step * BATCH + first, (int)count);
        square_sum<<<1, 1>>>(sums, layer.output, (int)count * OUTPUTS, 0);
        DDP_REDUCE(sums, 1, DDP_FLOAT32, DDP_OP_SUM, 0);
        follow<<<blocks_for(WEIGHTS), THREADS>>>(layer.weight, sums);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
