/*
 * conv_kernels.h - the kernels of conv.cu. Every sum is taken by one thread in the order of the items, so that one
 * process gives the same bits in every run. `count` is always the number of items in this process's share.
 */
#ifndef TESTS_TOOLS_CHECK_CONV_KERNELS_H
#define TESTS_TOOLS_CHECK_CONV_KERNELS_H

#include "tests/tools/kernels.h"

enum {
    SIDE = 8, /* an image is SIDE x SIDE */
    PIXELS = SIDE * SIDE,
    CHANNELS = 8,
    KERNEL = 3,
    WINDOW = KERNEL * KERNEL,
    PLANE_SIDE = SIDE - KERNEL + 1,
    PLANE = PLANE_SIDE * PLANE_SIDE,
    POOLED_SIDE = PLANE_SIDE / 2,
    POOLED = POOLED_SIDE * POOLED_SIDE,
    TOKENS = 40,
    WIDTH = 16, /* floats of a token */
    FEATURES = CHANNELS * POOLED + WIDTH,
    CLASSES = 10,
    THREADS = 64
};

/* ---- forward ---- */

static __global__ void
conv_forward(float *planes, const float *images, const float *weight, const float *bias, int count)
{
    int i = INDEX;
    if (i >= count * CHANNELS * PLANE)
        return;
    int x = i % PLANE_SIDE, y = i / PLANE_SIDE % PLANE_SIDE, channel = i / PLANE % CHANNELS, n = i / PLANE / CHANNELS;
    float sum = bias[channel];
    for (int k = 0; k < WINDOW; ++k)
        sum += weight[channel * WINDOW + k] * images[n * PIXELS + (y + k / KERNEL) * SIDE + x + k % KERNEL];
    planes[i] = sum;
}

/* Batch normalisation without weights: mean and variance of a channel are those of this process's share. */
static __global__ void
normalise_forward(float *planes, float *scale, float *running, int count)
{
    int channel = INDEX;
    if (channel >= CHANNELS)
        return;
    float mean = 0.0f, variance = 0.0f;
    for (int i = 0; i < count * PLANE; ++i)
        mean += planes[(i / PLANE * CHANNELS + channel) * PLANE + i % PLANE];
    mean /= (float)(count * PLANE);
    for (int i = 0; i < count * PLANE; ++i) {
        float off = planes[(i / PLANE * CHANNELS + channel) * PLANE + i % PLANE] - mean;
        variance += off * off;
    }
    variance /= (float)(count * PLANE);
    scale[channel] = rsqrtf(variance + 1e-5f);
    for (int i = 0; i < count * PLANE; ++i) {
        float *value = &planes[(i / PLANE * CHANNELS + channel) * PLANE + i % PLANE];
        *value = (*value - mean) * scale[channel];
    }
    running[channel] = 0.9f * running[channel] + 0.1f * mean;
    running[CHANNELS + channel] = 0.9f * running[CHANNELS + channel] + 0.1f * variance;
}

/* The largest of each 2 x 2, if it is positive; `from` says which one, or -1. */
static __global__ void
pool_forward(float *features, int *from, const float *planes, int count)
{
    int i = INDEX;
    if (i >= count * CHANNELS * POOLED)
        return;
    int x = i % POOLED_SIDE, y = i / POOLED_SIDE % POOLED_SIDE, plane = i / POOLED, n = plane / CHANNELS;
    float largest = 0.0f;
    int at = -1;
    for (int k = 0; k < 4; ++k) {
        int place = plane * PLANE + (2 * y + k / 2) * PLANE_SIDE + 2 * x + k % 2;
        if (planes[place] > largest) {
            largest = planes[place];
            at = place;
        }
    }
    from[i] = at;
    features[n * FEATURES + i % (CHANNELS * POOLED)] = largest;
}

ELEMENTWISE(
    embedding_forward, (float *features, const float *table, const int *tokens, int count), count *WIDTH,
    features[i / WIDTH * FEATURES + CHANNELS * POOLED + i % WIDTH] = table[tokens[i / WIDTH] * WIDTH + i % WIDTH])

/* Keeps a feature or not, by lot, and doubles what is kept. `place` is the feature's place in this process's share. */
static __device__ inline float
dropout_factor(unsigned seed, int step, int place)
{
    unsigned x = (seed * 31u + (unsigned)step) * 2654435761u + (unsigned)place * 40503u;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    return (x & 1u) != 0 ? 2.0f : 0.0f;
}

ELEMENTWISE(dropout, (float *features, unsigned seed, int step, int count), count *FEATURES,
            features[i] *= dropout_factor(seed, step, i))

/* Cross-entropy of each item, and its derivative times `factor`. */
static __global__ void
softmax_loss(float *losses, float *deltas, const float *logits, const float *bias, const int *labels, float factor,
             int count)
{
    int n = INDEX;
    if (n >= count)
        return;
    float largest = -1e30f, sum = 0.0f;
    for (int c = 0; c < CLASSES; ++c)
        largest = fmaxf(largest, logits[n * CLASSES + c] + bias[c]);
    for (int c = 0; c < CLASSES; ++c)
        sum += expf(logits[n * CLASSES + c] + bias[c] - largest);
    for (int c = 0; c < CLASSES; ++c) {
        float probability = expf(logits[n * CLASSES + c] + bias[c] - largest) / sum;
        deltas[n * CLASSES + c] = (probability - (c == labels[n] ? 1.0f : 0.0f)) * factor;
    }
    losses[n] = largest + logf(sum) - logits[n * CLASSES + labels[n]] - bias[labels[n]];
}

/* ---- backward ---- */

static __global__ void
fc_data_backward(float *feature_deltas, const float *deltas, const float *weight, int count)
{
    int i = INDEX;
    if (i >= count * FEATURES)
        return;
    float sum = 0.0f;
    for (int c = 0; c < CLASSES; ++c)
        sum += deltas[i / FEATURES * CLASSES + c] * weight[c * FEATURES + i % FEATURES];
    feature_deltas[i] = sum;
}

static __global__ void
embedding_backward(float *gradient, const float *feature_deltas, const int *tokens, int count)
{
    int i = INDEX;
    if (i >= TOKENS * WIDTH)
        return;
    float sum = 0.0f;
    for (int n = 0; n < count; ++n)
        if (tokens[n] == i / WIDTH)
            sum += feature_deltas[n * FEATURES + CHANNELS * POOLED + i % WIDTH];
    gradient[i] = sum;
}

/* `plane_deltas` is zero before: windows of the pool do not overlap. */
static __global__ void
pool_backward(float *plane_deltas, const float *feature_deltas, const int *from, int count)
{
    int i = INDEX;
    if (i < count * CHANNELS * POOLED && from[i] >= 0)
        plane_deltas[from[i]] = feature_deltas[i / (CHANNELS * POOLED) * FEATURES + i % (CHANNELS * POOLED)];
}

static __global__ void
normalise_backward(float *plane_deltas, const float *planes, const float *scale, int count)
{
    int channel = INDEX;
    if (channel >= CHANNELS)
        return;
    float sum = 0.0f, product = 0.0f;
    for (int i = 0; i < count * PLANE; ++i) {
        int at = (i / PLANE * CHANNELS + channel) * PLANE + i % PLANE;
        sum += plane_deltas[at];
        product += plane_deltas[at] * planes[at];
    }
    sum /= (float)(count * PLANE);
    product /= (float)(count * PLANE);
    for (int i = 0; i < count * PLANE; ++i) {
        int at = (i / PLANE * CHANNELS + channel) * PLANE + i % PLANE;
        plane_deltas[at] = scale[channel] * (plane_deltas[at] - sum - product * planes[at]);
    }
}

static __global__ void
conv_weight_backward(float *gradient, const float *plane_deltas, const float *images, int count)
{
    int i = INDEX;
    if (i >= CHANNELS * WINDOW)
        return;
    int channel = i / WINDOW, k = i % WINDOW;
    float sum = 0.0f;
    for (int n = 0; n < count; ++n)
        for (int p = 0; p < PLANE; ++p)
            sum += plane_deltas[(n * CHANNELS + channel) * PLANE + p] *
                   images[n * PIXELS + (p / PLANE_SIDE + k / KERNEL) * SIDE + p % PLANE_SIDE + k % KERNEL];
    gradient[i] = sum;
}

static __global__ void
conv_bias_backward(float *gradient, const float *plane_deltas, int count)
{
    int channel = INDEX;
    if (channel >= CHANNELS)
        return;
    float sum = 0.0f;
    for (int n = 0; n < count; ++n)
        for (int p = 0; p < PLANE; ++p)
            sum += plane_deltas[(n * CHANNELS + channel) * PLANE + p];
    gradient[channel] = sum;
}

/* ---- norms, scales, the optimizer ---- */

static __global__ void
square_sum(float *sum, const float *values, int count)
{
    if (INDEX > 0)
        return;
    float total = 0.0f;
    for (int i = 0; i < count; ++i)
        total += values[i] * values[i];
    *sum = total;
}

static __global__ void
norm_factor(float *factor, const float *sums, int count, float limit)
{
    if (INDEX > 0)
        return;
    float total = 0.0f;
    for (int i = 0; i < count; ++i)
        total += sums[i];
    float norm = sqrtf(total);
    *factor = norm > limit ? limit / norm : 1.0f;
}

ELEMENTWISE(scale_by_factor, (float *values, const float *factor, int count), count, values[i] *= *factor)

/* With gradients that are too long scaled down where they are used. */
ELEMENTWISE(sgd_momentum_scaled, (float *w, const float *g, float *m, int n, float lr, const float *factor), n,
            m[i] = 0.9f * m[i] + *factor * g[i];
            w[i] -= lr * m[i])

#endif
