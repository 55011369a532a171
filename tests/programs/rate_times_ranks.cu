/*
 * rate_times_ranks.cu - `different`: the program makes the rate as many times as large as there are ranks, as if the
 * batch had grown.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

int
main(void)
{
    struct layer layer = layer_create();
    DDP_PARAMETER(layer.weight, WEIGHTS, DDP_FLOAT32);
    DDP_PARAMETER(layer.bias, OUTPUTS, DDP_FLOAT32);
    DDP_GRADIENT(layer.gradient, WEIGHTS, DDP_FLOAT32);
    DDP_GRADIENT(layer.bias_gradient, OUTPUTS, DDP_FLOAT32);
    for (size_t step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        layer_learn(&layer, step * BATCH + first, (int)count);
        DDP_STEP(0);
        layer_update(&layer, 0.1f * (float)DDP_WORLD_SIZE()); /* mistake: the batch is not larger */
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
