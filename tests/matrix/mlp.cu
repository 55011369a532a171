/*
 * mlp.cu - a deeper perceptron: products by cuBLAS, bias gradients by a kernel, everything on one stream. With
 * --weigh 1 ranks say how many items they have, for shares of unequal size.
 */
#include "layers.h"

enum { LAYERS = 8, WIDTH = 32 };

static struct dense layers[LAYERS];
static struct items items;
static cublasHandle_t blas;
static cudaStream_t stream;

static void
forward_backward(size_t first_item, int count)
{
    const float *input = items.device_inputs + first_item * WIDTH;
    const float *target = items.device_targets + first_item * WIDTH;
    for (int l = 0; l < LAYERS; ++l) {
        blas_forward(blas, layers[l].output, l > 0 ? layers[l - 1].output : input, layers[l].weight, WIDTH, WIDTH,
                     count);
        LAUNCH(add_bias_tanh, (size_t)(WIDTH * count), stream)(layers[l].output, layers[l].bias, WIDTH, count);
    }
    LAUNCH(loss_delta, (size_t)(WIDTH * count), stream)
    (layers[LAYERS - 1].delta, layers[LAYERS - 1].output, target, WIDTH, count);
    for (int l = LAYERS - 1; l >= 0; --l) {
        const struct dense *layer = &layers[l];
        blas_weight_gradient(blas, layer->weight_gradient, layer->delta, l > 0 ? layers[l - 1].output : input, WIDTH,
                             WIDTH, count, 0.0f, 1.0f);
        LAUNCH(bias_gradient, WIDTH, stream)(layer->bias_gradient, layer->delta, WIDTH, count, 0.0f, 1.0f);
        if (l > 0) {
            blas_input_delta(blas, layers[l - 1].delta, layer->weight, layer->delta, WIDTH, WIDTH, count);
            LAUNCH(through_tanh, (size_t)(WIDTH * count), stream)
            (layers[l - 1].delta, layers[l - 1].output, WIDTH * count);
        }
    }
}

int
main(int argc, char **argv)
{
    int weighs = 0;
    options_parse(argc, argv, {{"--weigh", &weighs}});
    device_open();
    stream = stream_create();
    blas = blas_create(stream);
    items_create(&items, (size_t)(options.steps * options.batch), WIDTH, WIDTH);
    for (int l = 0; l < LAYERS; ++l)
        dense_create(&layers[l], l, WIDTH, WIDTH, true);
    for (int l = 0; l < LAYERS; ++l)
        dense_annotate_gradients(&layers[l]);

    return train_all(stream, [&](int, size_t first_item, int count) {
        items_load(&items, first_item, (size_t)count, stream);
        if (weighs)
            DDP_WEIGHT(count, options.batch);
        forward_backward(first_item, count);
        DDP_STEP(stream);
        for (int l = 0; l < LAYERS; ++l)
            dense_update(&layers[l], 0.2f, stream);
    });
}
