/*
 * mask_by_row_of_share.cu - `different`: the noise of an item is drawn by its row in the share, so that item 16
 * has the noise of item 0.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

ELEMENTWISE(add_noise, (float *output, unsigned seed, int count), (count * OUTPUTS),
            output[i] += 0.2f * noise_of(seed, (unsigned)i))

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
        add_noise<<<blocks_for(BATCH * OUTPUTS), THREADS>>>(layer.output, (unsigned)step,
                                                            (int)count); /* mistake: no `first` */
        layer_loss(&layer, step * BATCH + first, (int)count, (float)count);
        layer_backward(&layer, step * BATCH + first, (int)count, 0.0f);
        DDP_STEP(0);
        layer_update(&layer, 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
