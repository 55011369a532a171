/*
 * realloc.cu - gradients that exist only while they are needed: allocated when backward reaches them, annotated again,
 * and freed after the update; every other one in the order of the stream. Something else takes the memory in between,
 * so that addresses change from step to step.
 */
#include "perceptron.h"

static cudaStream_t stream;

/* Layers take turns between the two ways of allocating. */
static float *
gradient_allocate(int l, size_t count)
{
    void *memory;
    if (l % 2 != 0)
        return device_floats(count);
    EITHER(cuMemAllocAsync((CUdeviceptr *)&memory, count * sizeof(float), stream),
           cudaMallocAsync(&memory, count * sizeof(float), stream));
    return (float *)memory;
}

static void
gradient_free(int l, float *memory)
{
    if (l % 2 != 0)
        device_free(memory);
    else
        EITHER(cuMemFreeAsync(device_address(memory), stream), cudaFreeAsync(memory, stream));
}

static void
backward(struct perceptron *net, size_t first_item, int count)
{
    for (int l = LAYERS - 1; l >= 0; --l) {
        struct dense *layer = &net->layers[l];
        layer->weight_gradient = gradient_allocate(l, WIDTH * WIDTH);
        layer->bias_gradient = gradient_allocate(l, WIDTH);
        dense_annotate_gradients(layer);
        dense_run_gradients(layer, perceptron_input(net, l, first_item), count, 0.0f, 1.0f, stream);
        if (l > 0)
            dense_run_delta(layer, &net->layers[l - 1], count, stream);
    }
}

int
main(int argc, char **argv)
{
    static struct perceptron net;
    stream = trainer_start(argc, argv);
    perceptron_create(&net, 0, 1, false);

    return perceptron_train(&net, stream, [&](int step, size_t first_item, int count) {
        backward(&net, first_item, count);
        DDP_STEP(stream);
        perceptron_update(&net, 0.2f, stream);
        device_wait();
        for (int l = 0; l < LAYERS; ++l) {
            gradient_free(l, net.layers[l].weight_gradient);
            gradient_free(l, net.layers[l].bias_gradient);
        }
        void *other = device_allocate((size_t)(step % 3 + 1) * 5000); /* stays: the next ones are elsewhere */
        (void)other;
    });
}
