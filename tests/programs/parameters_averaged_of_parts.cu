/*
 * parameters_averaged_of_parts.cu - `different`: the ranks average parameters, and each rank divides its loss by the
 * whole batch: the mean of the changes is too small.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

ELEMENTWISE(descend, (float *weight, const float *gradient, int count), count, weight[i] -= 0.1f * gradient[i])

int
main(void)
{
    struct layer layer = layer_create();
    DDP_PARAMETER(layer.weight, WEIGHTS, DDP_FLOAT32);
    DDP_PARAMETER(layer.bias, OUTPUTS, DDP_FLOAT32);
    for (size_t step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        layer_forward(&layer, step * BATCH + first, (int)count);
        layer_loss(&layer, step * BATCH + first, (int)count, (float)BATCH); /* mistake: not by the share */
        layer_backward(&layer, step * BATCH + first, (int)count, 0.0f);
        descend<<<blocks_for(WEIGHTS), THREADS>>>(layer.weight, layer.gradient, WEIGHTS);
        descend<<<1, THREADS>>>(layer.bias, layer.bias_gradient, OUTPUTS);
        DDP_STEP_PARAMETERS(0);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
