/*
 * tied.cu - a model with tied weights: one table is the embedding and the output layer. Its gradient is written by the
 * product of the output layer, first of all gradients, and added to by the embedding's kernel, last of all.
 */
#include "layers.h"

enum { WORDS = 40, WIDTH = 24, CONTEXT = 3 };

static struct dense hidden[2];
static float *table, *table_gradient, *table_momentum; /* [WORDS][WIDTH] */
static float *embedded, *embedded_delta;               /* [batch][CONTEXT * WIDTH] */
static float *logits;                                  /* [batch][WORDS] */
static int *words_host, *words_device;                 /* [items][CONTEXT + 1]: the last one is to be found */
static cublasHandle_t blas;
static cudaStream_t stream;

static __global__ void
embed(float *out, const float *table, const int *words, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count * CONTEXT * WIDTH)
        return;
    int place = i / WIDTH;
    out[i] = table[words[place / CONTEXT * (CONTEXT + 1) + place % CONTEXT] * WIDTH + i % WIDTH];
}

/* gradient[word] += what the places of this word got; one thread an element, so the order of the sum is fixed. */
static __global__ void
embed_backward(float *gradient, const float *delta, const int *words, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= WORDS * WIDTH)
        return;
    float sum = 0.0f;
    for (int place = 0; place < count * CONTEXT; ++place) {
        if (words[place / CONTEXT * (CONTEXT + 1) + place % CONTEXT] == i / WIDTH)
            sum += delta[place * WIDTH + i % WIDTH];
    }
    gradient[i] += sum;
}

/* logits become the gradient of the mean cross-entropy; one thread an item. */
static __global__ void
softmax_backward(float *logits, const int *words, int count)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= count)
        return;
    float *z = logits + row * WORDS, largest = z[0], sum = 0.0f;
    for (int c = 1; c < WORDS; ++c)
        largest = fmaxf(largest, z[c]);
    for (int c = 0; c < WORDS; ++c)
        sum += expf(z[c] - largest);
    for (int c = 0; c < WORDS; ++c)
        z[c] = (expf(z[c] - largest) / sum - (c == words[row * (CONTEXT + 1) + CONTEXT] ? 1.0f : 0.0f)) / (float)count;
}

static void
batch_load(size_t first, size_t count)
{
    size_t each = CONTEXT + 1;
    for (size_t i = first * each; i < (first + count) * each; ++i)
        words_host[i] = (int)((noise(3, (unsigned)i) + 1.0f) * 0.5f * WORDS) % WORDS;
    device_upload(words_device + first * each, words_host + first * each, count * each * sizeof(int), stream);
}

static void
forward_backward(const int *words, int count)
{
    LAUNCH(embed, (size_t)(count * CONTEXT * WIDTH), stream)(embedded, table, words, count);
    dense_run_forward(&hidden[0], embedded, count, stream);
    dense_run_forward(&hidden[1], hidden[0].output, count, stream);
    blas_forward(blas, logits, hidden[1].output, table, WIDTH, WORDS, count);

    LAUNCH(softmax_backward, (size_t)count, stream)(logits, words, count);
    blas_weight_gradient(blas, table_gradient, logits, hidden[1].output, WIDTH, WORDS, count, 0.0f, 1.0f);
    blas_input_delta(blas, hidden[1].delta, table, logits, WIDTH, WORDS, count);
    LAUNCH(through_tanh, (size_t)(WIDTH * count), stream)(hidden[1].delta, hidden[1].output, WIDTH * count);
    dense_run_gradients(&hidden[1], hidden[0].output, count, 0.0f, 1.0f, stream);
    dense_run_delta(&hidden[1], &hidden[0], count, stream);
    dense_run_gradients(&hidden[0], embedded, count, 0.0f, 1.0f, stream);
    blas_input_delta(blas, embedded_delta, hidden[0].weight, hidden[0].delta, CONTEXT * WIDTH, WIDTH, count);
    LAUNCH(embed_backward, WORDS * WIDTH, stream)(table_gradient, embedded_delta, words, count);
}

int
main(int argc, char **argv)
{
    stream = trainer_start(argc, argv);
    blas = blas_create(stream);
    size_t items = (size_t)(options.steps * options.batch), rows = (size_t)options.batch;
    words_host = (int *)pinned_allocate(items * (CONTEXT + 1) * sizeof(int));
    words_device = (int *)device_allocate(items * (CONTEXT + 1) * sizeof(int));
    embedded = device_floats(rows * CONTEXT * WIDTH);
    embedded_delta = device_floats(rows * CONTEXT * WIDTH);
    logits = device_floats(rows * WORDS);
    table = weights_create(77, WORDS * WIDTH, WIDTH);
    table_gradient = device_floats(WORDS * WIDTH);
    table_momentum = device_floats(WORDS * WIDTH);
    DDP_PARAMETER(table, WORDS * WIDTH, DDP_FLOAT32);
    record_add("table", 0, table, WORDS * WIDTH);
    dense_create(&hidden[0], 0, CONTEXT * WIDTH, WIDTH, true);
    dense_create(&hidden[1], 1, WIDTH, WIDTH, true);
    DDP_GRADIENT(table_gradient, WORDS * WIDTH, DDP_FLOAT32);
    dense_annotate_gradients(&hidden[0]);
    dense_annotate_gradients(&hidden[1]);

    return train_all(stream, [&](int, size_t first_item, int count) {
        batch_load(first_item, (size_t)count);
        forward_backward(words_device + first_item * (CONTEXT + 1), count);
        DDP_STEP(stream);
        LAUNCH(sgd, WORDS * WIDTH, stream)(table, table_momentum, table_gradient, WORDS * WIDTH, 0.2f);
        dense_update(&hidden[0], 0.2f, stream);
        dense_update(&hidden[1], 0.2f, stream);
    });
}
