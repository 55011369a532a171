/*
 * grid_of_share.cu - `different`: the grid of an update is as large as the share, so that a rank updates fewer weights
 * than one process.
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
        sgd<<<(unsigned)count / 2, 3>>>(layer.weight, layer.momentum, layer.gradient, WEIGHTS, 0.1f); /* mistake */
        sgd<<<1, THREADS>>>(layer.bias, layer.bias_momentum, layer.bias_gradient, OUTPUTS, 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
