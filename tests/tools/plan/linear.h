/*
 * linear.h - the linear classifier of unseen.cu and sums.cu: its memory, a batch that can be learnt, and the kernels of
 * its gradient. A thread for each element; a sum is taken by one thread in the order of its rows.
 */
#ifndef TESTS_TOOLS_PLAN_LINEAR_H
#define TESTS_TOOLS_PLAN_LINEAR_H

#include "tests/tools/plan/program.h"

enum { INPUTS = 24, CLASSES = 6, ROWS = 8, WEIGHTS = INPUTS * CLASSES, LABELS = ROWS * CLASSES };

static float *weights, *gradient, *x, *delta;
static float host_x[ROWS][INPUTS];

static void
create_classifier(void)
{
    weights = device_floats(WEIGHTS);
    gradient = device_floats(WEIGHTS);
    x = device_floats(ROWS * INPUTS);
    delta = device_floats(LABELS);
    keep("weight", weights, WEIGHTS);
    keep("gradient", gradient, WEIGHTS, GRADIENT);
}

/* Draws the label of a row, and its inputs. */
static int
draw_row(int row)
{
    int label = (int)(random_number() * CLASSES);
    for (int i = 0; i < INPUTS; ++i)
        host_x[row][i] = random_number() - 0.5f + (i % CLASSES == label ? 0.6f : 0.0f);
    return label;
}

/* ---- kernels ---- */

/* What class c of a row gets. */
__device__ float
score_of(const float *w, const float *x, int row, int c)
{
    float sum = 0;
    for (int i = 0; i < INPUTS; ++i)
        sum += w[i * CLASSES + c] * x[row * INPUTS + i];
    return sum;
}

/* Of the weight that the thread has. */
__device__ float
gradient_of(const float *delta, const float *x)
{
    int i = (int)threadIdx.x / CLASSES, c = (int)threadIdx.x % CLASSES;
    float sum = 0;
    for (int row = 0; row < ROWS; ++row)
        sum += delta[row * CLASSES + c] * x[row * INPUTS + i];
    return sum / ROWS;
}

__global__ void
backward_kernel(const float *delta, const float *x, float *gradient)
{
    gradient[threadIdx.x] = gradient_of(delta, x);
}

/* Adds up the squared errors of a batch. */
__global__ void
sum_kernel(const float *delta, float *loss)
{
    for (int i = 0; i < LABELS; ++i)
        *loss += delta[i] * delta[i];
}

#endif
