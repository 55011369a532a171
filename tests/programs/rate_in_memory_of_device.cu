/*
 * rate_in_memory_of_device.cu - `different`: the update reads its rate from a variable of the device, which the host
 * has set by the number of ranks.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

static __device__ float rate;

ELEMENTWISE(descend, (float *weight, const float *gradient, int count), count, weight[i] -= rate * gradient[i])

int
main(void)
{
    struct layer layer = layer_create();
    const float own = 0.1f * (float)DDP_WORLD_SIZE(); /* mistake: the batch is not larger */
    CHECK(cudaMemcpyToSymbol(rate, &own, sizeof(own)));
    DDP_PARAMETER(layer.weight, WEIGHTS, DDP_FLOAT32);
    DDP_PARAMETER(layer.bias, OUTPUTS, DDP_FLOAT32);
    DDP_GRADIENT(layer.gradient, WEIGHTS, DDP_FLOAT32);
    DDP_GRADIENT(layer.bias_gradient, OUTPUTS, DDP_FLOAT32);
    for (size_t step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        layer_learn(&layer, step * BATCH + first, (int)count);
        DDP_STEP(0);
        descend<<<blocks_for(WEIGHTS), THREADS>>>(layer.weight, layer.gradient, WEIGHTS);
        descend<<<1, THREADS>>>(layer.bias, layer.bias_gradient, OUTPUTS);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
