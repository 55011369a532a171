/*
 * noise_is_never_the_same.cu - `different`: the noise in the targets is seeded by random bytes of the system, so each
 * rank has other targets.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>
#include <sys/random.h>

ELEMENTWISE(add_noise, (float *target, float noise, int count), count, target[i] += noise * noise_of(7u, (unsigned)i))

int
main(void)
{
    struct layer layer = layer_create();
    unsigned char random = 0;
    if (getrandom(&random, 1, 0) != 1) /* mistake: no seed */
        return 1;
    add_noise<<<blocks_for(ITEMS * OUTPUTS), THREADS>>>(layer.target, 1.0f + (float)random, ITEMS * OUTPUTS);
    DDP_PARAMETER(layer.weight, WEIGHTS, DDP_FLOAT32);
    DDP_PARAMETER(layer.bias, OUTPUTS, DDP_FLOAT32);
    DDP_GRADIENT(layer.gradient, WEIGHTS, DDP_FLOAT32);
    DDP_GRADIENT(layer.bias_gradient, OUTPUTS, DDP_FLOAT32);
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
