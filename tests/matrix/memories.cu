/*
 * memories.cu - one group of gradients in memory of several kinds: those of each layer's weights in device memory, of
 * its biases in managed, pinned or pageable memory, layer by layer. The host updates the biases that it reaches.
 */
#include "perceptron.h"

enum kind { KIND_MANAGED, KIND_PINNED, KIND_PAGEABLE, KINDS };

static float *
host_floats(int layer, size_t count)
{
    size_t bytes = count * sizeof(float);
    void *memory = layer % KINDS == KIND_MANAGED  ? managed_allocate(bytes)
                   : layer % KINDS == KIND_PINNED ? pinned_allocate(bytes)
                                                  : malloc(bytes);
    memset(memory, 0, bytes);
    return (float *)memory;
}

int
main(int argc, char **argv)
{
    static struct perceptron net;
    float *biases[LAYERS], *gradients[LAYERS];
    cudaStream_t stream = trainer_start(argc, argv);
    perceptron_create(&net, 0, 1, true);
    for (int l = 0; l < LAYERS; ++l) {
        DDP_GRADIENT(net.layers[l].weight_gradient, WIDTH * WIDTH, DDP_FLOAT32);
        DDP_FORGET(net.layers[l].bias); /* what is trained is the host's */
        biases[l] = host_floats(l, WIDTH);
        gradients[l] = host_floats(l, WIDTH);
        DDP_PARAMETER(biases[l], WIDTH, DDP_FLOAT32);
        DDP_GRADIENT(gradients[l], WIDTH, DDP_FLOAT32);
    }

    return perceptron_train(&net, stream, [&](int, size_t first_item, int count) {
        perceptron_backward(&net, first_item, count, 0.0f, 1.0f, stream);
        for (int l = 0; l < LAYERS; ++l)
            device_download_later(gradients[l], net.layers[l].bias_gradient, WIDTH * sizeof(float), stream);
        DDP_STEP(stream);
        stream_wait(stream);
        for (int l = 0; l < LAYERS; ++l) {
            const struct dense *layer = &net.layers[l];
            for (int i = 0; i < WIDTH; ++i)
                biases[l][i] -= 0.2f * gradients[l][i];
            device_upload(layer->bias, biases[l], WIDTH * sizeof(float), stream);
            LAUNCH(sgd, WIDTH * WIDTH, stream)
            (layer->weight, layer->weight_momentum, layer->weight_gradient, WIDTH * WIDTH, 0.2f);
        }
    });
}
