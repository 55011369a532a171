/*
 * trainer_dense.h - the kernels of a dense layer whose weights are [outputs][inputs]: forward with tanh, gradients of
 * weights and bias, and the error of the layer below. For the trainers of all tests; includes nothing of the product.
 * (Weights that are [inputs][outputs]: tools/scout/layers.h.)
 *
 * Activations are [items][width]. A kernel has one thread for each element of what it writes, which takes its sum in
 * the order of the items: one process gives the same bits every time.
 */
#ifndef DDPRUN_TESTS_TRAINER_DENSE_H
#define DDPRUN_TESTS_TRAINER_DENSE_H

#include "elementwise.h"

#include <cuda_runtime.h>
#include <math.h>

/* output = tanh(input weight' + bias); without a bias where it is NULL. */
static __global__ void
dense_forward(float *output, const float *input, const float *weight, const float *bias, int inputs, int outputs,
              int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= outputs * count)
        return;
    float sum = bias != NULL ? bias[i % outputs] : 0.0f;
    for (int k = 0; k < inputs; ++k)
        sum += weight[(i % outputs) * inputs + k] * input[(i / outputs) * inputs + k];
    output[i] = tanhf(sum);
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

#endif
