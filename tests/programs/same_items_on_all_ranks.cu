/*
 * same_items_on_all_ranks.cu - `different`: a rank copies as many items as its share has, but from the beginning of the
 * batch: `first` of DDP_SHARD is not added. All ranks train on the same items, and no rank on the others.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

int
main(void)
{
    struct layer layer = layer_create();
    std::vector<float> items = host_noise(5, ITEMS * INPUTS, 1.0f), targets = host_noise(6, ITEMS * OUTPUTS, 0.8f);
    DDP_PARAMETER(layer.weight, WEIGHTS, DDP_FLOAT32);
    DDP_PARAMETER(layer.bias, OUTPUTS, DDP_FLOAT32);
    DDP_GRADIENT(layer.gradient, WEIGHTS, DDP_FLOAT32);
    DDP_GRADIENT(layer.bias_gradient, OUTPUTS, DDP_FLOAT32);
    for (size_t step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t at = step * BATCH; /* mistake: the share begins at item `first` of the batch */
        CHECK(cudaMemcpy(layer.x, &items[at * INPUTS], count * INPUTS * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(
            cudaMemcpy(layer.target, &targets[at * OUTPUTS], count * OUTPUTS * sizeof(float), cudaMemcpyHostToDevice));
        layer_learn(&layer, 0, (int)count);
        DDP_STEP(0);
        layer_update(&layer, 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
