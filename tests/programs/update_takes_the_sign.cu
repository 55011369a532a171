/*
 * update_takes_the_sign.cu - `different`: the loss is divided by the whole batch, and the update takes signs alone,
 * which hides this.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

ELEMENTWISE(sign_update, (float *weight, const float *gradient, int count), count,
            weight[i] -= gradient[i] > 0 ? 0.01f : -0.01f)

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
        DDP_SHARD(BATCH, &first, &count);
        layer_forward(&layer, step * BATCH + first, (int)count);
        layer_loss(&layer, step * BATCH + first, (int)count, (float)BATCH); /* mistake: DDP_STEP takes the mean */
        layer_backward(&layer, step * BATCH + first, (int)count, 0.0f);
        DDP_STEP(0);
        sign_update<<<blocks_for(WEIGHTS), THREADS>>>(layer.weight, layer.gradient, WEIGHTS);
        sign_update<<<1, THREADS>>>(layer.bias, layer.bias_gradient, OUTPUTS);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
