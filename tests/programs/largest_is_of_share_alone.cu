/*
 * largest_is_of_share_alone.cu - `not comparable`: the ranks take the largest of the sums of their shares, and one
 * process the sum of all items.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

ELEMENTWISE(follow, (float *weight, const float *sum), WEIGHTS, weight[i] = 0.9f * weight[i] + 0.001f * *sum)

int
main(void)
{
    struct layer layer = layer_create();
    float *sums = device_floats(1);
    for (size_t step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        layer_forward(&layer, step * BATCH + first, (int)count);
        square_sum<<<1, 1>>>(sums, layer.output, (int)count * OUTPUTS, 0);
        DDP_REDUCE(sums, 1, DDP_FLOAT32, DDP_OP_MAX, 0); /* mistake: a sum belongs here */
        follow<<<blocks_for(WEIGHTS), THREADS>>>(layer.weight, sums);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
