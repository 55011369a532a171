/*
 * rows_picked_by_count.cu - `different`: the kernel picks a partner among the items of the share, by a whole number
 * that another kernel computes from their count.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

ELEMENTWISE(pick, (int *partner, int count), count, partner[i] = (i * 7 + count) % count)

ELEMENTWISE(mix, (float *delta, const float *output, const int *partner, int count), (count * OUTPUTS),
            delta[i] += 0.01f * output[partner[i / OUTPUTS] * OUTPUTS + i % OUTPUTS])

int
main(void)
{
    struct layer layer = layer_create();
    int *partner;
    CHECK(cudaMalloc((void **)&partner, BATCH * sizeof(int)));
    DDP_PARAMETER(layer.weight, WEIGHTS, DDP_FLOAT32);
    DDP_PARAMETER(layer.bias, OUTPUTS, DDP_FLOAT32);
    DDP_GRADIENT(layer.gradient, WEIGHTS, DDP_FLOAT32);
    DDP_GRADIENT(layer.bias_gradient, OUTPUTS, DDP_FLOAT32);
    for (size_t step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        layer_forward(&layer, step * BATCH + first, (int)count);
        layer_loss(&layer, step * BATCH + first, (int)count, (float)count);
        pick<<<1, THREADS>>>(partner, (int)count); /* mistake: partners of the share alone */
        mix<<<blocks_for(BATCH * OUTPUTS), THREADS>>>(layer.delta, layer.output, partner, (int)count);
        layer_backward(&layer, step * BATCH + first, (int)count, 0.0f);
        DDP_STEP(0);
        layer_update(&layer, 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
