/*
 * kernels.h - a backward pass and an optimizer of trainers whose right weights are known: gradients are sums of what
 * was added, and a step takes half of them from the weights. One thread for each element.
 */
#ifndef TESTS_TRAINERS_KERNELS_H
#define TESTS_TRAINERS_KERNELS_H

#include "../lib/elementwise.h"

ELEMENTWISE_OF_ALL(add, (float *values, float summand), values[i] += summand)
ELEMENTWISE_OF_ALL(update, (float *weight, const float *gradient), weight[i] -= 0.5f * gradient[i])

/* For a log, or statistics of a batch: one number is read, or written. */
__global__ void
look(const float *values, float *out)
{
    *out = values[threadIdx.x];
}

__global__ void
set(float *value, float to)
{
    *value = to;
}

#endif
