/*
 * decay_on_each_rank.cu - `different`: with --reduce sum each rank adds the decay of the weights to its gradient, so
 * the sum has it twice.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

ELEMENTWISE(add_decay, (float *gradient, const float *weight), WEIGHTS, gradient[i] += 0.1f * weight[i])

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
        layer_loss(&layer, step * BATCH + first, (int)count, (float)BATCH);
        layer_backward(&layer, step * BATCH + first, (int)count, 0.0f);
        add_decay<<<blocks_for(WEIGHTS), THREADS>>>(layer.gradient, layer.weight); /* mistake: DDP_STEP comes later */
        DDP_STEP(0);
        layer_update(&layer, 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
