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
    const std::vector<tensor> all = tensors_of(net.layers, LAYERS);
    float *largest = device_floats(all.size());

    return train_all(stream, [&](int step, size_t first_item, int count) {
        for (const tensor &t : all)
            device_zero(t.gradient, (size_t)t.count, stream);
        for (int pass = 0; pass < PASSES; ++pass) {
            items_load(&net.items, first_item, (size_t)count, stream);
            perceptron_forward(&net, first_item, count, stream);
            perceptron_backward(&net, first_item, count, 1.0f, 1.0f / PASSES, stream);
            for (size_t i = 0; i < all.size() && pass == 1 && step % LOG_EVERY == LOG_EVERY - 1; ++i)
                LAUNCH(largest_of, 1, stream)(&largest[i], all[i].gradient, all[i].count);
            first_item += (size_t)(options.steps * options.batch); /* of the next pass */
        }
        DDP_STEP(stream);
        perceptron_update(&net, 0.2f, stream);
    });
}
