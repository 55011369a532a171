/*
 * mean_of_unequal_shares.cu - `not comparable`: the ranks average means over 15 and 16 items with DDP_OP_MEAN, as if
 * their shares were equal.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

ELEMENTWISE(divide, (float *value, float divisor), 1, value[i] /= divisor)

ELEMENTWISE(follow, (float *weight, const float *mean), WEIGHTS, weight[i] = 0.9f * weight[i] + 0.1f * *mean)

int
main(void)
{
    struct layer layer = layer_create();
    float *mean = device_floats(1);
    for (size_t step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH - 1, &first, &count);
        layer_forward(&layer, step * BATCH + first, (int)count);
        square_sum<<<1, 1>>>(mean, layer.output, (int)count * OUTPUTS, 0);
        divide<<<1, 1>>>(mean, (float)count);
        DDP_REDUCE(mean, 1, DDP_FLOAT32, DDP_OP_MEAN, 0); /* mistake: shares are unequal */
        follow<<<blocks_for(WEIGHTS), THREADS>>>(layer.weight, mean);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
