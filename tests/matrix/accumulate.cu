/*
 * accumulate.cu - gradient accumulation: three backward passes add to the same gradients, one optimizer step uses them.
 * Every fourth step a kernel looks at the gradients between two passes, for a log.
 */
#include "perceptron.h"

enum { PASSES = 3, LOG_EVERY = 4 };

static __global__ void
largest_of(float *largest, const float *values, int count)
{
    if (blockIdx.x * blockDim.x + threadIdx.x > 0)
        return;
    *largest = 0.0f;
    for (int i = 0; i < count; ++i)
        *largest = fmaxf(*largest, fabsf(values[i]));
}

int
main(int argc, char **argv)
{
    static struct perceptron net;
    cudaStream_t stream = trainer_start(argc, argv);
    perceptron_create(&net, 0, PASSES, true);
    perceptron_annotate_gradients(&net);
    float *largest = device_floats(2 * LAYERS);

    size_t first, count;
    DDP_SHARD(options.batch, &first, &count);
    for (int step = 0; step < options.steps; ++step) {
        for (int l = 0; l < LAYERS; ++l) {
            device_zero(net.layers[l].weight_gradient, WIDTH * WIDTH, stream);
            device_zero(net.layers[l].bias_gradient, WIDTH, stream);
        }
        for (int pass = 0; pass < PASSES; ++pass) {
            size_t first_item = item_of(step, pass, PASSES, first);
            items_load(&net.items, first_item, count, stream);
            perceptron_forward(&net, first_item, (int)count, stream);
            perceptron_backward(&net, first_item, (int)count, 1.0f, 1.0f / PASSES, stream);
            for (int l = 0; l < LAYERS && pass == 1 && step % LOG_EVERY == LOG_EVERY - 1; ++l) {
                LAUNCH(largest_of, 1, stream)(&largest[2 * l], net.layers[l].weight_gradient, WIDTH * WIDTH);
                LAUNCH(largest_of, 1, stream)(&largest[2 * l + 1], net.layers[l].bias_gradient, WIDTH);
            }
        }
        DDP_STEP(stream);
        perceptron_update(&net, 0.2f, stream);
        record_step(step, stream);
    }
    record_save();
    return 0;
}
