/*
 * averaged_gradient_is_scaled.cu - `different`: the program divides averaged gradients by the number of ranks once
 * more.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

ELEMENTWISE(divide, (float *values, float divisor, int count), count, values[i] /= divisor)

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
        divide<<<blocks_for(WEIGHTS), THREADS>>>(layer.gradient, (float)DDP_WORLD_SIZE(), WEIGHTS); /* mistake */
        layer_update(&layer, 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
