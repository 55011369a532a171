/*
 * rate_is_zero.cu - `not comparable`: the rate is 0 while it warms up, so no parameter moves, and no update was
 * compared.
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
        layer_update(&layer, step < STEPS ? 0.0f : 0.1f); /* the warm-up is longer than the check */
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
