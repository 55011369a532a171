/*
 * batched.cu - heads whose products are one batched call: cublasSgemmBatched finds the heads' gradients through an
 * array of pointers in device memory, which was filled before training. The other layers' gradients are written as
 * usual.
 */
#include "perceptron.h"

enum { HEADS = 4 };

/* Heads read the last layer's output; head h has weights [WIDTH][WIDTH], and all heads' outputs are added up. */
static float *head_weight[HEADS], *head_gradient[HEADS], *head_momentum[HEADS], *head_output[HEADS];
static float *head_outputs;    /* [HEADS][batch][WIDTH] */
static float *sum, *sum_delta; /* [batch][WIDTH] */
static float **weights_array, **gradients_array, **outputs_array, **input_array, **delta_array; /* device: [HEADS] */

static float **
array_create(float *const *pointers)
{
    float **array = (float **)device_allocate(HEADS * sizeof(float *));
    device_upload(array, pointers, HEADS * sizeof(float *), 0);
    device_wait();
    return array;
}

static void
heads_create(const struct dense *below)
{
    size_t rows = (size_t)(options.batch * WIDTH);
    float *inputs[HEADS], *deltas[HEADS];
    head_outputs = device_floats(HEADS * rows);
    sum = device_floats(rows);
    sum_delta = device_floats(rows);
    for (int h = 0; h < HEADS; ++h) {
        head_weight[h] = weights_create(50 + (unsigned)h, WIDTH * WIDTH, HEADS * WIDTH);
        head_gradient[h] = device_floats(WIDTH * WIDTH);
        head_momentum[h] = device_floats(WIDTH * WIDTH);
        head_output[h] = head_outputs + (size_t)h * rows;
        inputs[h] = below->output;
        deltas[h] = sum_delta;
        DDP_PARAMETER(head_weight[h], WIDTH * WIDTH, DDP_FLOAT32);
        DDP_GRADIENT(head_gradient[h], WIDTH * WIDTH, DDP_FLOAT32);
        record_add("head", h, head_weight[h], WIDTH * WIDTH);
    }
    weights_array = array_create(head_weight);
    gradients_array = array_create(head_gradient);
    outputs_array = array_create(head_output);
    input_array = array_create(inputs);
    delta_array = array_create(deltas);
}

static __global__ void
add_up(float *sum, const float *parts, int parts_count, int stride, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count)
        return;
    float total = 0.0f;
    for (int p = 0; p < parts_count; ++p)
        total += parts[p * stride + i];
    sum[i] = tanhf(total);
}

static void
heads_forward_backward(cublasHandle_t blas, const struct perceptron *net, const float *target, int count,
                       cudaStream_t stream)
{
    const float one = 1.0f, zero = 0.0f;
    const struct dense *below = &net->layers[LAYERS - 1];
    CHECK(cublasSgemmBatched(blas, CUBLAS_OP_T, CUBLAS_OP_N, WIDTH, count, WIDTH, &one, weights_array, WIDTH,
                             input_array, WIDTH, &zero, outputs_array, WIDTH, HEADS));
    LAUNCH(add_up, (size_t)(WIDTH * count), stream)
    (sum, head_outputs, HEADS, options.batch * WIDTH, WIDTH * count);
    LAUNCH(loss_delta, (size_t)(WIDTH * count), stream)(sum_delta, sum, target, WIDTH, count);
    CHECK(cublasSgemmBatched(blas, CUBLAS_OP_N, CUBLAS_OP_T, WIDTH, WIDTH, count, &one, input_array, WIDTH, delta_array,
                             WIDTH, &zero, gradients_array, WIDTH, HEADS));
    for (int h = 0; h < HEADS; ++h) {
        const float keep = h > 0 ? 1.0f : 0.0f;
        CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, WIDTH, count, WIDTH, &one, head_weight[h], WIDTH, sum_delta,
                          WIDTH, &keep, below->delta, WIDTH));
    }
    LAUNCH(through_tanh, (size_t)(WIDTH * count), stream)(below->delta, below->output, WIDTH * count);
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
    heads_create(&net.layers[LAYERS - 1]);

    size_t first, count;
    DDP_SHARD(options.batch, &first, &count);
    for (int step = 0; step < options.steps; ++step) {
        size_t first_item = item_of(step, 0, 1, first);
        const float *target = net.items.device_targets + first_item * WIDTH;
        items_load(&net.items, first_item, count, stream);
        perceptron_forward(&net, first_item, (int)count, stream);
        heads_forward_backward(blas, &net, target, (int)count, stream);
        perceptron_backward(&net, first_item, (int)count, 0.0f, 1.0f, stream);
        DDP_STEP(stream);
        perceptron_update(&net, 0.2f, stream);
        for (int h = 0; h < HEADS; ++h)
            LAUNCH(sgd, WIDTH * WIDTH, stream)(head_weight[h], head_momentum[h], head_gradient[h], WIDTH * WIDTH, 0.1f);
        record_step(step, stream);
    }
    record_save();
    return 0;
}
