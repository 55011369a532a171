/*
 * divisor_is_zero_on_ranks.cu - `not comparable`: a rank divides by 0 where its share has no item of a class, and one
 * process does not.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

ELEMENTWISE(divide, (float *delta, float divisor, int count), (count * OUTPUTS), delta[i] /= divisor)

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
        divide<<<blocks_for(BATCH * OUTPUTS), THREADS>>>(layer.delta, (float)(count / BATCH), (int)count); /* mistake */
        layer_backward(&layer, step * BATCH + first, (int)count, 0.0f);
        DDP_STEP(0);
        layer_update(&layer, 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
