/*
 * right_accumulation_of_unequal_shares.cu - `equal`: an update adds up the gradients of three batches, and the last
 * batch has an odd number of items, so shares are unequal. Each rank divides by its own number of items, which
 * DDP_WEIGHT names.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

ELEMENTWISE(divide, (float *values, float divisor, int count), count, values[i] /= divisor)

int
main(void)
{
    static const size_t sizes[] = {16, 12, 7};
    const size_t all = 16 + 12 + 7;
    struct layer layer = layer_create();
    DDP_PARAMETER(layer.weight, WEIGHTS, DDP_FLOAT32);
    DDP_PARAMETER(layer.bias, OUTPUTS, DDP_FLOAT32);
    DDP_GRADIENT(layer.gradient, WEIGHTS, DDP_FLOAT32);
    DDP_GRADIENT(layer.bias_gradient, OUTPUTS, DDP_FLOAT32);
    for (size_t step = 0; step < ITEMS / all; ++step) {
        size_t at = step * all, mine = 0;
        for (size_t size : sizes) {
            size_t first, count;
            DDP_SHARD(size, &first, &count);
            layer_forward(&layer, at + first, (int)count);
            layer_loss(&layer, at + first, (int)count, 1.0f);
            layer_backward(&layer, at + first, (int)count, mine == 0 ? 0.0f : 1.0f);
            at += size;
            mine += count;
        }
        divide<<<blocks_for(WEIGHTS), THREADS>>>(layer.gradient, (float)mine, WEIGHTS);
        divide<<<1, THREADS>>>(layer.bias_gradient, (float)mine, OUTPUTS);
        DDP_WEIGHT(mine, all);
        DDP_STEP(0);
        layer_update(&layer, 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
