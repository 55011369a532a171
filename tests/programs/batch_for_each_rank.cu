/*
 * batch_for_each_rank.cu - `not comparable`: each rank takes the next whole batch, so that a step of 2 ranks computes
 * twice as many items as one of one process.
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
        const size_t at = (step * DDP_WORLD_SIZE() + DDP_RANK()) % STEPS * BATCH; /* mistake: whole batches */
        layer_learn(&layer, at, BATCH);
        DDP_STEP(0);
        layer_update(&layer, 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
