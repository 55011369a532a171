/*
 * partner_of_share.cu - `not comparable`: each item is mixed with the opposite item of the rank's share, but in one
 * process with the opposite item of the batch. The partner must not depend on the size of the share.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

static __global__ void
mix(float *mixed, const float *x, int count)
{
    int i = ELEMENT_OF_THREAD, item = i / INPUTS;
    int partner = count - 1 - item; /* mistake: `count` items are those of the share */
    if (item < count)
        mixed[i] = 0.7f * x[i] + 0.3f * x[partner * INPUTS + i % INPUTS];
}

int
main(void)
{
    struct layer layer = layer_create(), of_mixed = layer;
    of_mixed.x = device_floats(BATCH * INPUTS);
    DDP_PARAMETER(layer.weight, WEIGHTS, DDP_FLOAT32);
    DDP_GRADIENT(layer.gradient, WEIGHTS, DDP_FLOAT32);
    for (size_t step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        mix<<<blocks_for(BATCH * INPUTS), THREADS>>>(of_mixed.x, layer.x + (step * BATCH + first) * INPUTS, (int)count);
        of_mixed.target = layer.target + (step * BATCH + first) * OUTPUTS;
        layer_learn(&of_mixed, 0, (int)count);
        DDP_STEP(0);
        sgd<<<blocks_for(WEIGHTS), THREADS>>>(layer.weight, layer.momentum, layer.gradient, WEIGHTS, 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
