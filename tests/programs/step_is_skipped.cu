/*
 * step_is_skipped.cu - `different`: one rank in two makes DDP_STEP after another number of batches than one process:
 * it updates in another step.
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
        if (step % (size_t)DDP_WORLD_SIZE() == 0) /* mistake: one process updates in each step */
            layer_update(&layer, 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
