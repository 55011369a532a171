/*
 * gradient_after_the_step.cu - `different`: the bias gradient is computed after DDP_STEP, so each rank updates by that
 * of its share.
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
        layer_loss(&layer, step * BATCH + first, (int)count, (float)count);
        weight_gradient<<<blocks_for(WEIGHTS), THREADS>>>(layer.gradient, layer.delta,
                                                          layer.x + (step * BATCH + first) * INPUTS, INPUTS, OUTPUTS,
                                                          (int)count, 0.0f, 1.0f);
        DDP_STEP(0); /* mistake: it comes before the gradient of the bias */
        bias_gradient<<<1, THREADS>>>(layer.bias_gradient, layer.delta, OUTPUTS, (int)count, 0.0f, 1.0f);
        layer_update(&layer, 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
