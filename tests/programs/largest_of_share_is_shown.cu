/*
 * largest_of_share_is_shown.cu - `not comparable`: the training is equal, and a result of DDP_REDUCE that the program
 * shows depends on the number of ranks: the largest squared error of a share.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

int
main(void)
{
    struct layer layer = layer_create();
    float *squares = device_floats(1);
    DDP_PARAMETER(layer.weight, WEIGHTS, DDP_FLOAT32);
    DDP_PARAMETER(layer.bias, OUTPUTS, DDP_FLOAT32);
    DDP_GRADIENT(layer.gradient, WEIGHTS, DDP_FLOAT32);
    DDP_GRADIENT(layer.bias_gradient, OUTPUTS, DDP_FLOAT32);
    for (size_t step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        layer_learn(&layer, step * BATCH + first, (int)count);
        square_sum<<<1, 1>>>(squares, layer.delta, (int)count * OUTPUTS, 0);
        DDP_REDUCE(squares, 1, DDP_FLOAT32, DDP_OP_MAX, 0); /* mistake: one process has another largest sum */
        DDP_STEP(0);
        layer_update(&layer, 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
