/*
 * schedule_counts_samples.cu - `different`: the rate of the update follows the number of samples that were seen, and
 * each rank counts those of its share. With two ranks the rate falls half as fast as in one process.
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
    size_t seen = 0;
    for (size_t step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        layer_learn(&layer, step * BATCH + first, (int)count);
        DDP_STEP(0);
        seen += count; /* mistake: the batch has BATCH samples */
        float rate = 0.2f / (1.0f + (float)seen / ITEMS);
        layer_update(&layer, rate);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
