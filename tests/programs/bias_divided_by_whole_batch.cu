/*
 * bias_divided_by_whole_batch.cu - `different`: the gradient of the bias alone is divided by the whole batch, and then
 * averaged.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

ELEMENTWISE(divide, (float *values, float divisor), OUTPUTS, values[i] /= divisor)

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
        divide<<<1, THREADS>>>(layer.bias_gradient, (float)BATCH / (float)count); /* mistake: it is a mean */
        DDP_STEP(0);
        layer_update(&layer, 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
