/*
 * kernels.h - the device code of habits.cu: a net of two layers as public programs write it, one thread for an element,
 * and what single habits do on the device.
 */
#ifndef TESTS_TOOLS_PLAN_HABITS_KERNELS_H
#define TESTS_TOOLS_PLAN_HABITS_KERNELS_H

#include "tests/tools/scout/layers.h"

#include <cuda_fp16.h>
#include <curand_kernel.h>
#include <stdint.h>

enum { BATCH = 16, INPUTS = 48, HIDDEN = 40, CLASSES = 10, BATCHES = 20, BLOCK = 64 };

#define RUN(kernel, many) kernel<<<((many) + BLOCK - 1) / BLOCK, BLOCK>>>

/* ---- forward ---- */

/* Cross-entropy of each row, and `scale` times its derivative by the row's logits. */
__global__ void
softmax(float *delta, float *losses, const float *y, const int *labels, int rows, float scale)
{
    if (INDEX >= rows)
        return;
    const float *row = y + INDEX * CLASSES;
    float sum = 0;
    for (int k = 0; k < CLASSES; ++k)
        sum += expf(row[k]);
    for (int k = 0; k < CLASSES; ++k)
        delta[INDEX * CLASSES + k] = scale * (expf(row[k]) / sum - (k == labels[INDEX])) / rows;
    losses[INDEX] = logf(sum) - row[labels[INDEX]];
}

/* The net learns the label and half of what its target net says. */
__global__ void
bootstrap(float *delta, float *losses, const float *y, const float *future, const int *labels, int rows)
{
    if (INDEX >= rows)
        return;
    losses[INDEX] = 0;
    for (int i = INDEX * CLASSES; i < (INDEX + 1) * CLASSES; ++i) {
        float error = y[i] - (i % CLASSES == labels[INDEX]) - 0.5f * future[i];
        delta[i] = error / rows;
        losses[INDEX] += error * error / 2;
    }
}

__global__ void
mean(float *to, const float *from, int count)
{
    float sum = 0;
    for (int i = 0; i < count; ++i)
        sum += from[i];
    *to = sum / count;
}

ELEMENTWISE(drop, (float *values, float *mask, curandState *states, int count), count,
            mask[i] = curand_uniform(&states[i]) < 0.8f ? 1.25f : 0.0f;
            values[i] *= mask[i])
ELEMENTWISE(seed, (curandState * states, int count), count, curand_init(7, (unsigned long long)i, 0, &states[i]))
ELEMENTWISE(add_noise, (float *values, unsigned *states, int count), count,
            states[i] = states[i] * 1664525u + 1013904223u;
            values[i] += 0.4f * ((float)(states[i] >> 8) / (1 << 24) - 0.5f))

/* to = tanh(to + before weights) */
ELEMENTWISE(add_recurrent, (float *to, const float *before, const float *weights, int rows), rows *HIDDEN,
            to[i] = tanhf(to[i] + dot(HIDDEN, before + i / HIDDEN * HIDDEN, 1, weights + i % HIDDEN, HIDDEN)))

/* Means and deviations of the batch, in `to`; the running ones follow them. */
__global__ void
statistics(float *to, float *running, const float *values, int rows)
{
    int k = INDEX;
    float sum = 0, squares = 0;
    if (k >= HIDDEN)
        return;
    for (int row = 0; row < rows; ++row)
        sum += values[row * HIDDEN + k] / rows;
    for (int row = 0; row < rows; ++row)
        squares += (values[row * HIDDEN + k] - sum) * (values[row * HIDDEN + k] - sum) / rows;
    to[k] = sum;
    to[HIDDEN + k] = sqrtf(squares + 1e-3f);
    running[k] = 0.9f * running[k] + 0.1f * to[k];
    running[HIDDEN + k] = 0.9f * running[HIDDEN + k] + 0.1f * to[HIDDEN + k];
}

ELEMENTWISE(normalise_rows, (float *to, float *normal, const float *statistics, const float *scale, int rows),
            rows *HIDDEN, normal[i] = (to[i] - statistics[i % HIDDEN]) / statistics[HIDDEN + i % HIDDEN];
            to[i] = tanhf(scale[i % HIDDEN] * normal[i]))

__device__ float device_bias[CLASSES];

ELEMENTWISE(add_device_bias, (float *y, int rows), rows *CLASSES, y[i] += device_bias[i % CLASSES])

/* A bias behind a rectifier. */
ELEMENTWISE(add_gate, (float *y, const float *gate, int rows), rows *CLASSES, y[i] += fmaxf(gate[i % CLASSES], 0.0f))

/* ---- backward ---- */

/* Without `from`: of a bias. */
template <typename G>
__global__ void
gradient(G *to, const float *from, const float *delta, int rows, int in, int out)
{
    int i = INDEX / out, k = INDEX % out;
    if (i >= in)
        return;
    float sum = 0;
    for (int row = 0; row < rows; ++row)
        sum += (from != NULL ? from[row * in + i] : 1.0f) * delta[row * out + k];
    to[i * out + k] = (G)sum;
}

/* The derivative by the scale, and by what was normalised in place of `below`. */
__global__ void
normalise_backward(float *below, float *of_scale, const float *normal, const float *statistics, const float *scale,
                   int rows)
{
    int k = INDEX;
    float sum = 0, weighted = 0;
    if (k >= HIDDEN)
        return;
    for (int i = k; i < rows * HIDDEN; i += HIDDEN) {
        sum += below[i];
        weighted += below[i] * normal[i];
    }
    of_scale[k] = weighted;
    for (int i = k; i < rows * HIDDEN; i += HIDDEN)
        below[i] = scale[k] / statistics[HIDDEN + k] * (below[i] - sum / rows - normal[i] * weighted / rows);
}

__global__ void
gradient_of_gate(float *to, const float *gate, const float *delta, int rows)
{
    float sum = 0;
    for (int row = 0; row < rows && INDEX < CLASSES; ++row)
        sum += gate[INDEX] > 0 ? delta[row * CLASSES + INDEX] : 0.0f;
    if (INDEX < CLASSES)
        to[INDEX] = sum;
}

/* ---- updates ---- */

__global__ void
learn_device_bias(const float *delta, float rate, int rows)
{
    for (int row = 0; row < rows && INDEX < CLASSES; ++row)
        device_bias[INDEX] -= rate * delta[row * CLASSES + INDEX];
}

ELEMENTWISE(sgd_half, (float *weights, __half *copy, const __half *gradient, float rate, int count), count,
            weights[i] -= rate * __half2float(gradient[i]);
            copy[i] = __float2half(weights[i]))

ELEMENTWISE(find_overflow, (int *found, const __half *gradient, int count), count,
            if (!isfinite(__half2float(gradient[i]))) *found = 1)

/* Each block of BLOCK moments has a scale. */
__global__ void
momentum_in_bytes(float *weights, int8_t *moments, float *scales, const float *gradient, float rate, int count)
{
    int first = INDEX * BLOCK, end = min(first + BLOCK, count);
    float most = 0, moment[BLOCK];
    for (int i = first; i < end; ++i) {
        moment[i - first] = 0.8f * moments[i] * scales[INDEX] + gradient[i];
        most = fmaxf(most, fabsf(moment[i - first]));
        weights[i] -= rate * moment[i - first];
    }
    for (int i = first; i < end; ++i)
        moments[i] = (int8_t)rintf(most > 0 ? 127 * moment[i - first] / most : 0.0f);
    if (first < end)
        scales[INDEX] = most / 127;
}

ELEMENTWISE(rmsprop, (float *weights, float *squares, const float *gradient, float rate, int count), count,
            squares[i] = 0.9f * squares[i] + 0.1f * gradient[i] * gradient[i];
            weights[i] -= rate * gradient[i] / (sqrtf(squares[i]) + 1e-3f))

/* The delta rule, without a gradient. */
__global__ void
learn(float *weights, float *bias, const float *from, const float *delta, float rate, int in, int out)
{
    int i = INDEX / out, k = INDEX % out;
    for (int row = 0; row < BATCH && i < in; ++row)
        weights[i * out + k] += rate * from[row * in + i] * -delta[row * out + k];
    for (int row = 0; row < BATCH && i == in; ++row)
        bias[k] += rate * -delta[row * out + k];
}

/* ---- data and figures on the device ---- */

/* Brings row order[BATCH * batch + i] to row i; `counter`, if there is one, says which batch. */
__global__ void
gather(float *x, int *labels, const float *all_x, const int *all_labels, const int *order, const int *counter,
       int batch)
{
    int row = INDEX / INPUTS;
    if (row >= BATCH)
        return;
    int from = order[(counter != NULL ? *counter : batch) % BATCHES * BATCH + row];
    x[INDEX] = all_x[from * INPUTS + INDEX % INPUTS];
    if (INDEX % INPUTS == 0)
        labels[row] = all_labels[from];
}

ELEMENTWISE(advance, (int *counter), 1, ++*counter)

__global__ void
shuffle(int *order, unsigned *state, int count)
{
    for (int i = count - 1; i > 0; --i) {
        *state = *state * 1664525u + 1013904223u;
        int other = (int)((*state >> 8) % (unsigned)(i + 1)), moved = order[i];
        order[i] = order[other];
        order[other] = moved;
    }
}

static __device__ bool
is_hit(const float *y, const int *labels, int row)
{
    int best = 0;
    for (int k = 1; k < CLASSES; ++k)
        best = y[row * CLASSES + k] > y[row * CLASSES + best] ? k : best;
    return best == labels[row];
}

__global__ void
add_up(float *loss_sum, int *hit_sum, const float *losses, const float *y, const int *labels, int rows)
{
    for (int row = 0; row < rows; ++row) {
        if (loss_sum != NULL)
            *loss_sum += losses[row];
        if (hit_sum != NULL)
            *hit_sum += is_hit(y, labels, row);
    }
}

ELEMENTWISE(note_hits, (int *hits, const float *y, const int *labels, int rows), rows, hits[i] = is_hit(y, labels, i))

__global__ void
find_worst(float *worst, const float *losses, int rows)
{
    for (int row = 0; row < rows; ++row)
        *worst = fmaxf(*worst, losses[row]);
}

ELEMENTWISE(note, (float *history, const float *loss, int step), 1, history[step] = *loss)

/* ---- counts in front of weights, in one struct ---- */

enum { COUNTED = 64 };
struct counted {
    int hits, steps;
    float weights[COUNTED];
};

__global__ void
counted_gradient(float *gradient, const float *batch, const struct counted *net)
{
    float sum = 0;
    for (int k = 0; k < COUNTED; ++k)
        sum += batch[k * COUNTED + INDEX];
    gradient[INDEX] = (net->weights[INDEX] - 0.25f * (float)(INDEX % 7)) * 0.125f + sum * 0.0625f;
}

__global__ void
counted_update(struct counted *net, const float *gradient)
{
    net->weights[INDEX] -= 0.0625f * gradient[INDEX];
    if (INDEX == 0) {
        net->hits += gradient[0] > 0;
        net->steps += 1;
    }
}

#endif
