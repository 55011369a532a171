/*
 * layers.h - the kernels of a dense layer whose weights are [inputs][outputs], for the trainers of scout and of plans,
 * each of which is one file of CUDA. Values of a batch are [items][width]. One thread takes a sum in the order of the
 * items.
 */
#ifndef DDPRUN_TESTS_TOOLS_SCOUT_LAYERS_H
#define DDPRUN_TESTS_TOOLS_SCOUT_LAYERS_H

#include "tests/tools/kernels.h"

enum { STRAIGHT, BENT, RECTIFIED }; /* the layer's values: as they are, by tanh, or nothing below zero */

/* y = act(x w + b), row by row; the weights' rows are `pitch` elements apart. */
template <typename W>
__global__ void
dense(float *to, const float *from, const W *weights, const W *bias, int rows, int in, int out, int pitch, int act)
{
    int row = INDEX / out, k = INDEX % out;
    if (row >= rows)
        return;
    float sum = bias != NULL ? (float)bias[k] : 0.0f;
    for (int i = 0; i < in; ++i)
        sum += from[row * in + i] * (float)weights[i * pitch + k];
    to[row * out + k] = act == RECTIFIED ? fmaxf(sum, 0.0f) : act == BENT ? tanhf(sum) : sum;
}

/* Through the layer, and the tanh that `value` came from. */
template <typename W>
__global__ void
delta_below(float *to, const float *from, const W *weights, const float *value, int rows, int in, int out, int pitch)
{
    int row = INDEX / in, i = INDEX % in;
    if (row >= rows)
        return;
    float sum = 0;
    for (int k = 0; k < out; ++k)
        sum += from[row * out + k] * (float)weights[i * pitch + k];
    to[row * in + i] = sum * (1 - value[row * in + i] * value[row * in + i]);
}

/* to = keep * to + from' error / rows; without `from`, of a bias. */
__global__ void
gradient_of(float *to, const float *from, const float *error, int rows, int in, int out, int pitch, bool adds)
{
    int i = INDEX / out, k = INDEX % out;
    if (i >= in)
        return;
    float sum = 0;
    for (int row = 0; row < rows; ++row)
        sum += (from != NULL ? from[row * in + i] : 1.0f) * error[row * out + k] / rows;
    to[i * pitch + k] = adds ? to[i * pitch + k] + sum : sum;
}

/* Batch normalisation of each unit, in place; the running mean and variance follow the batch's. */
__global__ void
normalise(float *to, float *mean, float *variance, int rows, int width)
{
    if (INDEX >= width)
        return;
    float sum = 0, squares = 0;
    for (int row = 0; row < rows; ++row)
        sum += to[row * width + INDEX] / rows;
    for (int row = 0; row < rows; ++row)
        squares += (to[row * width + INDEX] - sum) * (to[row * width + INDEX] - sum) / rows;
    for (int row = 0; row < rows; ++row)
        to[row * width + INDEX] = (to[row * width + INDEX] - sum) / sqrtf(squares + 1e-2f);
    mean[INDEX] = 0.9f * mean[INDEX] + 0.1f * sum;
    variance[INDEX] = 0.9f * variance[INDEX] + 0.1f * squares;
}

#endif
