/*
 * clip_before_average.cu - `different`: each rank clips the gradient of its share, and DDP_STEP averages clipped
 * gradients. The mean of clipped gradients is not the clipped mean: DDP_STEP belongs before the norm.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

ELEMENTWISE(clip, (float *gradient, const float *squares, float bound), WEIGHTS,
            gradient[i] *= fminf(1.0f, bound / sqrtf(*squares)))

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
        square_sum<<<1, 1>>>(squares, layer.gradient, WEIGHTS, 0); /* mistake: DDP_STEP comes later */
        clip<<<1, THREADS>>>(layer.gradient, squares, 0.1f);
        DDP_STEP(0);
        layer_update(&layer, 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
