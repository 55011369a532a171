/*
 * annotations_are_swapped.cu - `different`: DDP_PARAMETER names the gradient, and DDP_GRADIENT the weights.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

int
main(void)
{
    struct layer layer = layer_create();
    DDP_PARAMETER(layer.gradient, WEIGHTS, DDP_FLOAT32); /* mistake: the pointers are swapped */
    DDP_GRADIENT(layer.weight, WEIGHTS, DDP_FLOAT32);
    for (size_t step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        layer_learn(&layer, step * BATCH + first, (int)count);
        DDP_STEP(0);
        layer_update(&layer, 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
