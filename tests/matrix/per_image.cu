/*
 * per_image.cu - as darknet trains: each item is a product of its own that adds to the gradient (beta = 1), and the
 * gradient buffer is the momentum, too: after the update it is scaled, never zeroed. Updates by cublasSaxpy and
 * cublasSscal, on the gradients themselves.
 */
#include "perceptron.h"

static void
backward_of_item(const struct perceptron *net, cublasHandle_t blas, size_t item, int place)
{
    const float one = 1.0f;
    for (int l = LAYERS - 1; l >= 0; --l) {
        const struct dense *layer = &net->layers[l];
        const float *delta = layer->delta + place * WIDTH;
        const float *input =
            l > 0 ? net->layers[l - 1].output + place * WIDTH : net->items.device_inputs + item * WIDTH;
        blas_weight_gradient(blas, layer->weight_gradient, delta, input, WIDTH, WIDTH, 1, 1.0f);
        CHECK(cublasSaxpy(blas, WIDTH, &one, delta, 1, layer->bias_gradient, 1));
    }
}

/* weight -= rate * gradient; gradient *= momentum */
static void
update(cublasHandle_t blas, float *weight, float *gradient, int count, float rate)
{
    const float minus_rate = -rate, momentum = 0.9f;
    CHECK(cublasSaxpy(blas, count, &minus_rate, gradient, 1, weight, 1));
    CHECK(cublasSscal(blas, count, &momentum, gradient, 1));
}

int
main(int argc, char **argv)
{
    static struct perceptron net;
    options_parse(argc, argv);
    device_open();
    cudaStream_t stream = stream_create();
    cublasHandle_t blas = blas_create(stream);
    perceptron_create(&net, 0, 1, true);
    perceptron_annotate_gradients(&net);

    size_t first, count;
    DDP_SHARD(options.batch, &first, &count);
    for (int step = 0; step < options.steps; ++step) {
        size_t first_item = item_of(step, 0, 1, first);
        items_load(&net.items, first_item, count, stream);
        perceptron_forward(&net, first_item, (int)count, stream);
        for (int l = LAYERS - 1; l > 0; --l)
            dense_run_delta(&net.layers[l], &net.layers[l - 1], (int)count, stream);
        for (int place = 0; place < (int)count; ++place)
            backward_of_item(&net, blas, first_item + (size_t)place, place);
        DDP_STEP(stream);
        for (int l = 0; l < LAYERS; ++l) {
            const struct dense *layer = &net.layers[l];
            update(blas, layer->weight, layer->weight_gradient, WIDTH * WIDTH, 0.2f);
            update(blas, layer->bias, layer->bias_gradient, WIDTH, 0.2f);
        }
        record_step(step, stream);
    }
    record_save();
    return 0;
}
