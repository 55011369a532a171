/*
 * layers.h - the arithmetic that most trainers of the matrix have in common: dense layers with tanh, by kernels or by
 * cuBLAS, the gradient of a squared error, and stochastic gradient descent. Included by tests/matrix/NAME.cu.
 *
 * Matrices are stored row by row: activations [items][width], weights [outputs][inputs].
 */
#ifndef TESTS_MATRIX_LAYERS_H
#define TESTS_MATRIX_LAYERS_H

#include "trainer.h"

static __global__ void
dense_forward(float *output, const float *input, const float *weight, const float *bias, int inputs, int outputs,
              int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= outputs * count)
        return;
    float sum = bias[i % outputs];
    for (int k = 0; k < inputs; ++k)
        sum += weight[(i % outputs) * inputs + k] * input[(i / outputs) * inputs + k];
    output[i] = tanhf(sum);
}

/* matrix[r][c] = tanh(matrix[r][c] + bias[c]). */
static __global__ void
add_bias_tanh(float *matrix, const float *bias, int columns, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * columns)
        matrix[i] = tanhf(matrix[i] + bias[i % columns]);
}

/* Of the mean over the items of the squared error's half, before the tanh of the last layer. */
static __global__ void
loss_delta(float *delta, const float *output, const float *target, int width, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < width * count)
        delta[i] = (output[i] - target[i]) * (1.0f - output[i] * output[i]) / (float)count;
}

/* gradient = keep * gradient + scale * delta' input. */
static __global__ void
weight_gradient(float *gradient, const float *delta, const float *input, int inputs, int outputs, int count, float keep,
                float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= inputs * outputs)
        return;
    float sum = 0.0f;
    for (int b = 0; b < count; ++b)
        sum += delta[b * outputs + i / inputs] * input[b * inputs + i % inputs];
    gradient[i] = (keep != 0.0f ? keep * gradient[i] : 0.0f) + scale * sum;
}

/* gradient = keep * gradient + scale * the sum of delta's rows. */
static __global__ void
bias_gradient(float *gradient, const float *delta, int outputs, int count, float keep, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= outputs)
        return;
    float sum = 0.0f;
    for (int b = 0; b < count; ++b)
        sum += delta[b * outputs + i];
    gradient[i] = (keep != 0.0f ? keep * gradient[i] : 0.0f) + scale * sum;
}

/* delta_in = (delta weight) * tanh' of the layer below, whose output is `output_in`. */
static __global__ void
input_delta(float *delta_in, const float *weight, const float *delta, const float *output_in, int inputs, int outputs,
            int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= inputs * count)
        return;
    float sum = 0.0f;
    for (int k = 0; k < outputs; ++k)
        sum += weight[k * inputs + i % inputs] * delta[(i / inputs) * outputs + k];
    delta_in[i] = sum * (1.0f - output_in[i] * output_in[i]);
}

/* delta *= tanh' of the layer whose output is given. */
static __global__ void
through_tanh(float *delta, const float *output, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        delta[i] *= 1.0f - output[i] * output[i];
}

static __global__ void
sgd(float *weight, float *momentum, const float *gradient, int count, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        momentum[i] = 0.9f * momentum[i] + gradient[i];
        weight[i] -= rate * momentum[i];
    }
}

/* sum = (adds ? sum : 0) + the squares of all values. */
static __global__ void
square_sum(float *sum, const float *values, int count, int adds)
{
    if (blockIdx.x * blockDim.x + threadIdx.x > 0)
        return;
    float total = adds ? *sum : 0.0f;
    for (int i = 0; i < count; ++i)
        total += values[i] * values[i];
    *sum = total;
}

/* ---- the same products by cuBLAS, which stores column by column: each is written for the transposes ---- */

/* output = input weight' */
static inline void
blas_forward(cublasHandle_t blas, float *output, const float *input, const float *weight, int inputs, int outputs,
             int count)
{
    const float one = 1.0f, zero = 0.0f;
    CHECK(cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, outputs, count, inputs, &one, weight, inputs, input, inputs,
                      &zero, output, outputs));
}

/* gradient = keep * gradient + delta' input */
static inline void
blas_weight_gradient(cublasHandle_t blas, float *gradient, const float *delta, const float *input, int inputs,
                     int outputs, int count, float keep)
{
    const float one = 1.0f;
    CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, inputs, outputs, count, &one, input, inputs, delta, outputs,
                      &keep, gradient, inputs));
}

/* delta_in = delta weight */
static inline void
blas_input_delta(cublasHandle_t blas, float *delta_in, const float *weight, const float *delta, int inputs, int outputs,
                 int count)
{
    const float one = 1.0f, zero = 0.0f;
    CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, inputs, count, outputs, &one, weight, inputs, delta, outputs,
                      &zero, delta_in, inputs));
}

/* ---- a dense layer's memory ---- */

struct dense {
    int inputs, outputs;
    float *weight, *bias, *weight_gradient, *bias_gradient, *weight_momentum, *bias_momentum;
    float *output, *delta; /* [batch][outputs] */
};

/* With gradients if `with_gradients`; parameters are recorded, and annotated with DDP_PARAMETER. */
static inline void
dense_create(struct dense *layer, int number, int inputs, int outputs, bool with_gradients)
{
    size_t matrix = (size_t)inputs * (size_t)outputs, rows = (size_t)options.batch * (size_t)outputs;
    *layer = (struct dense){inputs, outputs};
    layer->weight = weights_create((unsigned)number, matrix, inputs);
    layer->bias = device_floats((size_t)outputs);
    layer->weight_momentum = device_floats(matrix);
    layer->bias_momentum = device_floats((size_t)outputs);
    layer->output = device_floats(rows);
    layer->delta = device_floats(rows);
    if (with_gradients) {
        layer->weight_gradient = device_floats(matrix);
        layer->bias_gradient = device_floats((size_t)outputs);
    }
    DDP_PARAMETER(layer->weight, matrix, DDP_FLOAT32);
    DDP_PARAMETER(layer->bias, outputs, DDP_FLOAT32);
    record_add("w", number, layer->weight, matrix);
    record_add("b", number, layer->bias, (size_t)outputs);
}

static inline void
dense_annotate_gradients(const struct dense *layer)
{
    DDP_GRADIENT(layer->weight_gradient, (size_t)layer->inputs * (size_t)layer->outputs, DDP_FLOAT32);
    DDP_GRADIENT(layer->bias_gradient, layer->outputs, DDP_FLOAT32);
}

static inline void
dense_run_forward(const struct dense *layer, const float *input, int count, cudaStream_t stream)
{
    LAUNCH(dense_forward, (size_t)(layer->outputs * count), stream)
    (layer->output, input, layer->weight, layer->bias, layer->inputs, layer->outputs, count);
}

/* Both gradients of the layer: keep * what is there + scale * those of these items. */
static inline void
dense_run_gradients(const struct dense *layer, const float *input, int count, float keep, float scale,
                    cudaStream_t stream)
{
    LAUNCH(weight_gradient, (size_t)(layer->inputs * layer->outputs), stream)
    (layer->weight_gradient, layer->delta, input, layer->inputs, layer->outputs, count, keep, scale);
    LAUNCH(bias_gradient, (size_t)layer->outputs, stream)
    (layer->bias_gradient, layer->delta, layer->outputs, count, keep, scale);
}

/* What the layer below gets. */
static inline void
dense_run_delta(const struct dense *layer, const struct dense *below, int count, cudaStream_t stream)
{
    LAUNCH(input_delta, (size_t)(layer->inputs * count), stream)
    (below->delta, layer->weight, layer->delta, below->output, layer->inputs, layer->outputs, count);
}

static inline void
dense_update(const struct dense *layer, float rate, cudaStream_t stream)
{
    int matrix = layer->inputs * layer->outputs;
    LAUNCH(sgd, (size_t)matrix, stream)
    (layer->weight, layer->weight_momentum, layer->weight_gradient, matrix, rate);
    LAUNCH(sgd, (size_t)layer->outputs, stream)
    (layer->bias, layer->bias_momentum, layer->bias_gradient, layer->outputs, rate);
}

#endif
