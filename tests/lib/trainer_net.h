/*
 * trainer_net.h - the arithmetic that trainers of the tests have in common: dense layers with tanh, by kernels or by
 * cuBLAS, the gradient of a squared error, stochastic gradient descent, and numbers to begin with. For the trainers of
 * all tests; includes nothing of the product.
 *
 * Matrices are stored row by row: activations [items][width], weights [outputs][inputs]. A kernel has one thread for
 * each element of what it writes, and every sum is taken in a fixed order: one process gives the same bits every time.
 */
#ifndef DDPRUN_TESTS_TRAINER_NET_H
#define DDPRUN_TESTS_TRAINER_NET_H

#include "trainer.h"
#include "trainer_dense.h"
#include "trainer_draws.h"

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <math.h>

enum { THREADS = 64 }; /* of a block */

/* In headers that several files of a program include. */
#define STATIC_ELEMENTWISE(...) static ELEMENTWISE(__VA_ARGS__)

static inline unsigned
blocks_for(size_t count)
{
    return (unsigned)((count + THREADS - 1) / THREADS);
}

/* matrix[r][c] = tanh(matrix[r][c] + bias[c]). */
STATIC_ELEMENTWISE(add_bias_tanh, (float *matrix, const float *bias, int columns, int rows), (rows * columns),
                   matrix[i] = tanhf(matrix[i] + bias[i % columns]))

/* Of the mean over the items of the squared error's half, before the tanh of the last layer. */
STATIC_ELEMENTWISE(loss_delta, (float *delta, const float *output, const float *target, int width, int count),
                   (width * count), delta[i] = (output[i] - target[i]) * (1.0f - output[i] * output[i]) / (float)count)

/* delta *= tanh' of the layer whose output is given. */
STATIC_ELEMENTWISE(through_tanh, (float *delta, const float *output, int count), count,
                   delta[i] *= 1.0f - output[i] * output[i])

STATIC_ELEMENTWISE(sgd, (float *weight, float *momentum, const float *gradient, int count, float rate), count,
                   momentum[i] = 0.9f * momentum[i] + gradient[i];
                   weight[i] -= rate * momentum[i])

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

/* gradient = keep * gradient + scale * delta' input */
static inline void
blas_weight_gradient(cublasHandle_t blas, float *gradient, const float *delta, const float *input, int inputs,
                     int outputs, int count, float keep, float scale)
{
    CHECK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, inputs, outputs, count, &scale, input, inputs, delta, outputs,
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

#endif
