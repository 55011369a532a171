/*
 * bias_starts_from_share.cu - `different`: the bias begins as the mean of the first targets, of which a rank reads its
 * share alone.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

static __global__ void
mean_of_targets(float *bias, const float *target, int count)
{
    int k = ELEMENT_OF_THREAD;
    if (k >= OUTPUTS)
        return;
    float sum = 0.0f;
    for (int item = 0; item < count; ++item)
        sum += target[item * OUTPUTS + k];
    bias[k] = sum / (float)count;
}

int
main(void)
{
    struct layer layer = layer_create();
    DDP_PARAMETER(layer.weight, WEIGHTS, DDP_FLOAT32);
    DDP_PARAMETER(layer.bias, OUTPUTS, DDP_FLOAT32);
    DDP_GRADIENT(layer.gradient, WEIGHTS, DDP_FLOAT32);
    DDP_GRADIENT(layer.bias_gradient, OUTPUTS, DDP_FLOAT32);
    size_t begin, own;
    DDP_SHARD(BATCH, &begin, &own); /* mistake: the start is to be that of the whole batch */
    mean_of_targets<<<1, THREADS>>>(layer.bias, layer.target + begin * OUTPUTS, (int)own);
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
