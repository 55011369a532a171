/*
 * mean_of_sums.cu - `different`: the ranks divide by the sum of squared errors of the batch, and add up its parts with
 * DDP_OP_MEAN.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

ELEMENTWISE(divide, (float *delta, const float *squares, int count), (count * OUTPUTS), delta[i] /= *squares)

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
        layer_forward(&layer, step * BATCH + first, (int)count);
        layer_loss(&layer, step * BATCH + first, (int)count, (float)count);
        square_sum<<<1, 1>>>(squares, layer.output, (int)count * OUTPUTS, 0);
        DDP_REDUCE(squares, 1, DDP_FLOAT32, DDP_OP_MEAN, 0); /* mistake: they are sums */
        divide<<<blocks_for(BATCH * OUTPUTS), THREADS>>>(layer.delta, squares, (int)count);
        layer_backward(&layer, step * BATCH + first, (int)count, 0.0f);
        DDP_STEP(0);
        layer_update(&layer, 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
