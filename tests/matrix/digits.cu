/*
 * digits.cu - the perceptron of samples/digits in one file: handwritten digits, products by cuBLAS, softmax and
 * cross-entropy, each tensor in memory of its own.
 */
#include "layers.h"

extern "C" {
#include "digits/data.h"
}

enum { LAYERS = 3 };

static const int widths[LAYERS + 1] = {IMAGE_PIXELS, 48, 32, CLASSES};
static struct dense layers[LAYERS];
static float *pixels_device, *pixels_host;
static int *labels_device, *labels_host;
static cublasHandle_t blas;
static cudaStream_t stream;

static __global__ void
add_bias(float *matrix, const float *bias, int columns, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * columns)
        matrix[i] += bias[i % columns];
}

/* Of the mean of the cross-entropies of `count` rows; one thread a row. */
static __global__ void
softmax_delta(float *delta, const float *logits, const int *labels, int classes, int count)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= count)
        return;
    const float *z = logits + row * classes;
    float largest = z[0], sum = 0.0f;
    for (int c = 1; c < classes; ++c)
        largest = fmaxf(largest, z[c]);
    for (int c = 0; c < classes; ++c)
        sum += expf(z[c] - largest);
    for (int c = 0; c < classes; ++c)
        delta[row * classes + c] = (expf(z[c] - largest) / sum - (c == labels[row] ? 1.0f : 0.0f)) / (float)count;
}

static void
batch_load(const struct data *images, size_t first, size_t count)
{
    for (size_t n = first; n < first + count; ++n) {
        size_t image = n % images->count;
        memcpy(pixels_host + n * IMAGE_PIXELS, images->pixels + image * IMAGE_PIXELS, IMAGE_PIXELS * sizeof(float));
        labels_host[n] = images->labels[image];
    }
    device_upload(pixels_device + first * IMAGE_PIXELS, pixels_host + first * IMAGE_PIXELS,
                  count * IMAGE_PIXELS * sizeof(float), stream);
    device_upload(labels_device + first, labels_host + first, count * sizeof(int), stream);
}

static void
forward_backward(size_t first_item, int count)
{
    const float *x = pixels_device + first_item * IMAGE_PIXELS;
    for (int l = 0; l < LAYERS; ++l) {
        const struct dense *layer = &layers[l];
        blas_forward(blas, layer->output, l > 0 ? layers[l - 1].output : x, layer->weight, layer->inputs,
                     layer->outputs, count);
        if (l < LAYERS - 1)
            LAUNCH(add_bias_tanh, (size_t)(layer->outputs * count), stream)
        (layer->output, layer->bias, layer->outputs, count);
        else LAUNCH(add_bias, (size_t)(layer->outputs * count), stream)(layer->output, layer->bias, layer->outputs,
                                                                        count);
    }
    LAUNCH(softmax_delta, (size_t)count, stream)
    (layers[LAYERS - 1].delta, layers[LAYERS - 1].output, labels_device + first_item, CLASSES, count);
    for (int l = LAYERS - 1; l >= 0; --l) {
        const struct dense *layer = &layers[l];
        blas_weight_gradient(blas, layer->weight_gradient, layer->delta, l > 0 ? layers[l - 1].output : x,
                             layer->inputs, layer->outputs, count, 0.0f);
        LAUNCH(bias_gradient, (size_t)layer->outputs, stream)
        (layer->bias_gradient, layer->delta, layer->outputs, count, 0.0f, 1.0f);
        if (l > 0) {
            blas_input_delta(blas, layers[l - 1].delta, layer->weight, layer->delta, layer->inputs, layer->outputs,
                             count);
            LAUNCH(through_tanh, (size_t)(layer->inputs * count), stream)
            (layers[l - 1].delta, layers[l - 1].output, layer->inputs * count);
        }
    }
}

int
main(int argc, char **argv)
{
    options_parse(argc, argv);
    struct data images, test;
    const char *path = getenv("MATRIX_DIGITS");
    data_load(path != NULL ? path : "samples/data/digits.csv", &images, &test);
    device_open();
    stream = stream_create();
    blas = blas_create(stream);

    size_t all = (size_t)(options.steps * options.batch);
    pixels_host = (float *)pinned_allocate(all * IMAGE_PIXELS * sizeof(float));
    labels_host = (int *)pinned_allocate(all * sizeof(int));
    pixels_device = device_floats(all * IMAGE_PIXELS);
    labels_device = (int *)device_allocate(all * sizeof(int));
    for (int l = 0; l < LAYERS; ++l) {
        dense_create(&layers[l], l, widths[l], widths[l + 1], true);
        dense_annotate_gradients(&layers[l]);
    }

    size_t first, count;
    bool weighs = getenv("MATRIX_WEIGHT") != NULL; /* with shares of unequal size */
    DDP_SHARD(options.batch, &first, &count);
    for (int step = 0; step < options.steps; ++step) {
        size_t first_item = (size_t)(step * options.batch) + first;
        batch_load(&images, first_item, count);
        if (weighs)
            DDP_WEIGHT(count, options.batch);
        forward_backward(first_item, (int)count);
        DDP_STEP(stream);
        for (int l = 0; l < LAYERS; ++l)
            dense_update(&layers[l], 0.1f, stream);
        record_step(step, stream);
    }
    record_save();
    data_free(&images);
    data_free(&test);
    return 0;
}
