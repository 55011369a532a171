/*
 * parameters_averaged_after_signs.cu - `different`: the ranks average parameters, and the update takes the sign of a
 * gradient: the mean of signs is not the sign of the mean.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

ELEMENTWISE(descend, (float *weight, const float *gradient, int count), count,
            weight[i] -= 0.1f * copysignf(1.0f, gradient[i]))

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
        descend<<<blocks_for(WEIGHTS), THREADS>>>(layer.weight, layer.gradient, WEIGHTS); /* mistake: not linear */
        descend<<<1, THREADS>>>(layer.bias, layer.bias_gradient, OUTPUTS);
        DDP_STEP_PARAMETERS(0);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
