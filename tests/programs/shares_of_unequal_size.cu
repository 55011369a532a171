/*
 * shares_of_unequal_size.cu - `different`: 31 items are not divided evenly, and DDP_STEP takes the mean of the means
 * of unequal shares. DDP_WEIGHT is missing.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

enum { ODD = BATCH - 1 };

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
        DDP_SHARD(ODD, &first, &count);
        layer_learn(&layer, step * BATCH + first, (int)count);
        DDP_STEP(0); /* mistake: no DDP_WEIGHT */
        layer_update(&layer, 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
