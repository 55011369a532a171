/*
 * queue_of_own_keys.cu - `different`: a queue keeps the outputs of the last two batches, and the loss pushes new
 * outputs away from their mean. A rank enqueues the outputs of its share alone, so each rank has another queue: a
 * DDP_REDUCE is missing.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

enum { KEYS = 2 * BATCH, SLOT = BATCH * OUTPUTS };

ELEMENTWISE(enqueue, (float *keys, const float *output, int count), (count * OUTPUTS), keys[i] = output[i])

static __global__ void
push_away(float *delta, const float *queue, int count)
{
    int i = ELEMENT_OF_THREAD;
    for (int key = 0; i < count * OUTPUTS && key < KEYS; ++key)
        delta[i] += 0.5f * queue[key * OUTPUTS + i % OUTPUTS] / KEYS / (float)count;
}

int
main(void)
{
    struct layer layer = layer_create();
    float *queue = device_floats(KEYS * OUTPUTS);
    DDP_PARAMETER(layer.weight, WEIGHTS, DDP_FLOAT32);
    DDP_GRADIENT(layer.gradient, WEIGHTS, DDP_FLOAT32);
    for (size_t step = 0; step < STEPS; ++step) {
        size_t first, count, at;
        DDP_SHARD(BATCH, &first, &count);
        at = step * BATCH + first;
        layer_forward(&layer, at, (int)count);
        layer_loss(&layer, at, (int)count, (float)count);
        push_away<<<blocks_for(SLOT), THREADS>>>(layer.delta, queue, (int)count);
        layer_backward(&layer, at, (int)count, 0.0f);
        DDP_STEP(0);
        sgd<<<blocks_for(WEIGHTS), THREADS>>>(layer.weight, layer.momentum, layer.gradient, WEIGHTS, 0.1f);
        float *slot = queue + step % 2 * SLOT;
        CHECK(cudaMemsetAsync(slot, 0, SLOT * sizeof(float), 0));
        enqueue<<<blocks_for(SLOT), THREADS>>>(slot + first * OUTPUTS, layer.output, (int)count);
        /* mistake: the outputs of the other shares are missing */
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
