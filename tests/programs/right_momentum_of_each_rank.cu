/*
 * right_momentum_of_each_rank.cu - `equal`: each rank updates its weights by its own gradient and its own momentum, and
 * DDP_STEP_PARAMETERS averages the weights. The update is linear in the gradient, so the mean is that of one process.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

int
main(void)
{
    struct layer layer = layer_create();
    DDP_PARAMETER(layer.weight, WEIGHTS, DDP_FLOAT32);
    DDP_PARAMETER(layer.bias, OUTPUTS, DDP_FLOAT32);
    for (size_t step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        layer_learn(&layer, step * BATCH + first, (int)count);
        layer_update(&layer, 0.1f);
        DDP_STEP_PARAMETERS(0);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
