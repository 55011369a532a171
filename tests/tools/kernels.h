/*
 * kernels.h - the kernels that trainers of check/, plan/ and scout/ have in common: one operation on each element, and
 * the gradients of a dense layer. For these programs only, each of which is one file of CUDA.
 *
 * Weights of a layer are [outputs][inputs], values of a batch [items][width]. One thread takes a sum in the order of
 * the items, so that one process gives the same bits in every run.
 */
#ifndef TESTS_TOOLS_KERNELS_H
#define TESTS_TOOLS_KERNELS_H

#include "tests/lib/elementwise.h"

#include <cuda_runtime.h>
#include <math.h>

#define INDEX ((int)(blockIdx.x * blockDim.x + threadIdx.x))

/* ---- each element ---- */

ELEMENTWISE(scale_by, (float *values, float by, int count), count, values[i] *= by)
ELEMENTWISE(multiply, (float *values, const float *by, int count), count, values[i] *= by[i])
ELEMENTWISE(add_scaled, (float *to, const float *from, float by, int count), count, to[i] += by * from[i])
ELEMENTWISE(descend, (float *weights, const float *gradient, float rate, int count), count,
            weights[i] -= rate * gradient[i])
ELEMENTWISE(descend_with_momentum,
            (float *weights, const float *gradient, float *momentum, float keep, float rate, int count), count,
            momentum[i] = keep * momentum[i] + gradient[i];
            weights[i] -= rate * momentum[i])
ELEMENTWISE(move_average, (float *average, const float *values, float keep, int count), count,
            average[i] = keep * average[i] + (1 - keep) * values[i])

/* ---- norms ---- */

__global__ void
add_squares(float *sum, const float *values, int count)
{
    float squares = 0;
    for (int i = 0; INDEX == 0 && i < count; ++i)
        squares += values[i] * values[i];
    if (INDEX == 0)
        *sum += squares;
}

/* `squares`: the sum of the values' squares. A norm that is larger than `most` becomes that. */
__global__ void
scale_to_norm(float *values, const float *squares, float most, int count)
{
    if (INDEX<count && * squares> most * most)
        values[INDEX] *= most / sqrtf(*squares);
}

/* ---- a dense layer ---- */

/* keep: 0 overwrites the gradient, 1 adds to it. */
__global__ void
weight_gradient(float *gradient, const float *delta, const float *input, int outputs, int inputs, int count, float keep)
{
    if (INDEX >= outputs * inputs)
        return;
    float sum = 0;
    for (int item = 0; item < count; ++item)
        sum += delta[item * outputs + INDEX / inputs] * input[item * inputs + INDEX % inputs];
    gradient[INDEX] = keep != 0 ? keep * gradient[INDEX] + sum : sum;
}

__global__ void
bias_gradient(float *gradient, const float *delta, int outputs, int count, float keep)
{
    if (INDEX >= outputs)
        return;
    float sum = 0;
    for (int item = 0; item < count; ++item)
        sum += delta[item * outputs + INDEX];
    gradient[INDEX] = keep != 0 ? keep * gradient[INDEX] + sum : sum;
}

/* Through the layer and the tanh that `input` came from. */
__global__ void
input_delta(float *before, const float *delta, const float *weight, const float *input, int inputs, int outputs,
            int count)
{
    if (INDEX >= count * inputs)
        return;
    float sum = 0;
    for (int k = 0; k < outputs; ++k)
        sum += delta[INDEX / inputs * outputs + k] * weight[k * inputs + INDEX % inputs];
    before[INDEX] = sum * (1 - input[INDEX] * input[INDEX]);
}

#endif
