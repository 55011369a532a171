/*
 * left_out.cu - the host leaves the update out where the device has found a gradient that is not
 * finite, as a loss scaler does: on other ranks' turns the host reads an old answer.
 */
#include "tests/programs/layer.h"

static __global__ void
find_overflow(int *overflow, const float *gradient, int count)
{
    int i = ELEMENT_OF_THREAD;
    if (i < count && !isfinite(gradient[i]))
        *overflow = 1;
}

int
main(void)
{
    struct layer layer = layer_create();
    int *overflow;
    CHECK(cudaMalloc(&overflow, sizeof(int)));
    for (int step = 0; step < STEPS; ++step) {
        int bad = 0;
        layer_learn(&layer, (size_t)step * BATCH, BATCH);
        CHECK(cudaMemset(overflow, 0, sizeof(int)));
        find_overflow<<<blocks_for(WEIGHTS), THREADS>>>(overflow, layer.gradient, WEIGHTS);
        CHECK(cudaMemcpy(&bad, overflow, sizeof(int), cudaMemcpyDeviceToHost));
        if (bad)
            continue;
        layer_update(&layer, 0.2f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
