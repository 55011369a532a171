/*
 * rows_kernels.h - the kernels of rows.cu. Every sum is taken by one thread in the order of the records, so that one
 * process gives the same bits in every run.
 */
#ifndef TESTS_TOOLS_CHECK_ROWS_KERNELS_H
#define TESTS_TOOLS_CHECK_ROWS_KERNELS_H

#include "tests/tools/frame.h"
#include "tests/tools/kernels.h"

#include <cuda_bf16.h>

enum { INPUTS = 12, HIDDEN = 16, CLASSES = 5, THREADS = 64 };

/* ---- forward and backward ---- */

ELEMENTWISE(dropout, (float *values, unsigned seed, int step, int count), count,
            values[i] *= hashed_float(seed + 977u * (unsigned)step, (unsigned)i) < 0.5f ? 0.0f : 2.0f)

/* Cross entropy. A record with a negative label has no loss. */
static __global__ void
loss_backward(float *deltas, float *losses, const float *hidden, const float *w, const float *b, const int *labels,
              float scale, int count)
{
    int item = INDEX;
    if (item >= count)
        return;
    float logits[CLASSES], largest = -1e30f, total = 0;
    for (int c = 0; c < CLASSES; ++c) {
        logits[c] = b[c];
        for (int k = 0; k < HIDDEN; ++k)
            logits[c] += w[c * HIDDEN + k] * hidden[item * HIDDEN + k];
        largest = fmaxf(largest, logits[c]);
    }
    for (int c = 0; c < CLASSES; ++c)
        total += expf(logits[c] - largest);
    for (int c = 0; c < CLASSES; ++c) {
        float p = expf(logits[c] - largest) / total;
        deltas[item * CLASSES + c] = labels[item] < 0 ? 0 : (p - (labels[item] == c ? 1.0f : 0.0f)) * scale;
    }
    losses[item] = labels[item] < 0 ? 0 : logf(total) + largest - logits[labels[item]];
}

/* Where the data set lies on the device: record `from[item]` of it. */
static __global__ void
gather(float *images, int *labels, const float *all_images, const int *all_labels, const int *from, int count)
{
    int i = INDEX, item = i / INPUTS;
    if (item >= count)
        return;
    images[i] = all_images[from[item] * INPUTS + i % INPUTS];
    labels[item] = all_labels[from[item]];
}

ELEMENTWISE(add_noise, (float *images, unsigned seed, int step, int count), count *INPUTS,
            images[i] += 0.2f * hashed_float(seed + 31u * (unsigned)step, (unsigned)i))

/* ---- gradients ---- */

ELEMENTWISE(fill, (float *g, int count, float value), count, g[i] = value * (float)(i % 7 - 3))

/* ---- updates ---- */

ELEMENTWISE(mean_error, (float *g, const float *w, const float *sums), INPUTS, g[i] = w[i] - sums[i] / sums[INPUTS])
ELEMENTWISE(sgd, (float *w, const float *g, int count, float rate, float decay), count,
            w[i] -= rate * (g[i] + decay * w[i]))
ELEMENTWISE(second_moment, (float *v, const float *g, int count), count, v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i])

/* `keeps_v`: second_moment() has been there. */
ELEMENTWISE(adam, (float *w, const float *g, float *m, float *v, int count, float rate, int step, bool keeps_v), count,
            v[i] = keeps_v ? v[i] : 0.99f * v[i] + 0.01f * g[i] * g[i];
            m[i] = 0.9f * m[i] + 0.1f * g[i];
            float mean = m[i] / (1 - powf(0.9f, (float)step)), square = v[i] / (1 - powf(0.99f, (float)step));
            w[i] -= rate * mean / (sqrtf(square) + 1e-8f))

/* ---- bfloat16 ---- */

ELEMENTWISE(narrow, (__nv_bfloat16 * to, const float *from, int count), count, to[i] = __float2bfloat16(from[i]))
ELEMENTWISE(widen, (float *to, const __nv_bfloat16 *from, int count), count, to[i] = __bfloat162float(from[i]))

#endif
