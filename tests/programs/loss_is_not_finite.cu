/*
 * loss_is_not_finite.cu - `not comparable`: the loss divides by 0, so the parameters are not finite, in one process
 * and on the ranks alike.
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
        layer_forward(&layer, step * BATCH + first, (int)count);
        layer_loss(&layer, step * BATCH + first, (int)count, 0.0f); /* mistake: a mean over no item */
        layer_backward(&layer, step * BATCH + first, (int)count, 0.0f);
        DDP_STEP(0);
        layer_update(&layer, 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
