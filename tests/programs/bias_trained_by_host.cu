/*
 * bias_trained_by_host.cu - `not comparable`: the host trains a bias of its own, by the gradient of the share, and
 * sends it to the device, which no annotation names.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

int
main(void)
{
    struct layer layer = layer_create();
    float offset[OUTPUTS] = {0}, slope[OUTPUTS];
    DDP_PARAMETER(layer.weight, WEIGHTS, DDP_FLOAT32);
    DDP_GRADIENT(layer.gradient, WEIGHTS, DDP_FLOAT32);
    for (size_t step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        layer_learn(&layer, step * BATCH + first, (int)count);
        DDP_STEP(0);
        sgd<<<blocks_for(WEIGHTS), THREADS>>>(layer.weight, layer.momentum, layer.gradient, WEIGHTS, 0.1f);
        CHECK(cudaMemcpy(slope, layer.bias_gradient, sizeof(slope), cudaMemcpyDeviceToHost)); /* mistake: the share's */
        for (int k = 0; k < OUTPUTS; ++k)
            offset[k] -= 1e-6f * slope[k];
        CHECK(cudaMemcpy(layer.bias, offset, sizeof(offset), cudaMemcpyHostToDevice));
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
