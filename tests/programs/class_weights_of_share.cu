/*
 * class_weights_of_share.cu - `different`: the host counts the classes of its share alone, and sends their weights to
 * the device.
 */
#include "tests/programs/layer.h"

#include <ddprun.h>

ELEMENTWISE(weigh, (float *delta, const float *balance, int count), (count * OUTPUTS), delta[i] *= balance[i % OUTPUTS])

int
main(void)
{
    struct layer layer = layer_create();
    float *balance = device_floats(OUTPUTS);
    const std::vector<float> targets = host_noise(2, ITEMS * OUTPUTS, 0.8f);
    DDP_PARAMETER(layer.weight, WEIGHTS, DDP_FLOAT32);
    DDP_PARAMETER(layer.bias, OUTPUTS, DDP_FLOAT32);
    DDP_GRADIENT(layer.gradient, WEIGHTS, DDP_FLOAT32);
    DDP_GRADIENT(layer.bias_gradient, OUTPUTS, DDP_FLOAT32);
    for (size_t step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        float positive[OUTPUTS] = {0};
        for (size_t i = (step * BATCH + first) * OUTPUTS; i < (step * BATCH + first + count) * OUTPUTS; ++i)
            positive[i % OUTPUTS] += targets[i] > 0 ? 2.0f / (float)count : 0.0f; /* mistake: of the share */
        CHECK(cudaMemcpy(balance, positive, sizeof(positive), cudaMemcpyHostToDevice));
        layer_forward(&layer, step * BATCH + first, (int)count);
        layer_loss(&layer, step * BATCH + first, (int)count, (float)count);
        weigh<<<blocks_for(BATCH * OUTPUTS), THREADS>>>(layer.delta, balance, (int)count);
        layer_backward(&layer, step * BATCH + first, (int)count, 0.0f);
        DDP_STEP(0);
        layer_update(&layer, 0.1f);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
