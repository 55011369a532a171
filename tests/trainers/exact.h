/*
 * exact.h - a trainer whose weights are known, for trainers of this folder whose point is not the model but what lies
 * around its steps. Included by them, behind an enum that says how many LAYERS of how many elements (COUNT) there are.
 *
 * Weights and gradients begin as zeros. In each step rank r adds 1 + r to every element of each gradient, an update
 * takes a half of the mean from the weight, and expect() takes the same from what the host expects. Everything is exact
 * in float32 where the number of ranks is a power of two. The program's exit code is 0 only if every weight is what it
 * must be at the end.
 */
#ifndef TESTS_TRAINERS_EXACT_H
#define TESTS_TRAINERS_EXACT_H

#include "../lib/numbers.h"
#include "common.h"
#include "kernels.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BYTES = COUNT * 4, THREADS = 64, BLOCKS = COUNT / THREADS };

static int steps = 12;
static float *weights[LAYERS], *gradients[LAYERS];
static double expected[LAYERS]; /* what every element of a weight must be */
static cudaStream_t stream, side __attribute__((unused));
static cudaEvent_t event __attribute__((unused));

/* MODE [STEPS] */
static inline void
take_mode(int argc, char **argv, const char *otherwise)
{
    mode = argc > 1 ? argv[1] : otherwise;
    if (argc > 2)
        steps = (int)whole_number(argv[2], 0, INT_MAX);
}

static inline void
layers_create(void)
{
    stream = stream_create();
    side = stream_create();
    event = event_create();
    for (int l = 0; l < LAYERS; ++l) {
        weights[l] = device_floats(COUNT);
        gradients[l] = device_floats(COUNT);
    }
}

static inline void
annotate_parameters(void)
{
    for (int l = 0; l < LAYERS; ++l)
        DDP_PARAMETER(weights[l], COUNT, DDP_FLOAT32);
}

static inline void
annotate_gradients(void)
{
    for (int l = 0; l < LAYERS; ++l)
        DDP_GRADIENT(gradients[l], COUNT, DDP_FLOAT32);
}

static inline void
layers_annotate(void)
{
    annotate_parameters();
    annotate_gradients();
}

static inline void
layer_backward(int layer, cudaStream_t on)
{
    add<<<BLOCKS, THREADS, 0, on>>>(gradients[layer], mine());
}

/* The last layer first, and down to layer `end`. */
static inline void
layers_backward(int end, cudaStream_t on)
{
    for (int l = LAYERS - 1; l >= end; --l)
        layer_backward(l, on);
}

static inline void
layers_update(void)
{
    for (int l = 0; l < LAYERS; ++l) {
        update<<<BLOCKS, THREADS, 0, stream>>>(weights[l], gradients[l]);
        CHECK(cudaMemsetAsync(gradients[l], 0, BYTES, stream));
    }
}

/* `amount` has been taken from every weight. */
static inline void
expect(double amount)
{
    for (double &one : expected)
        one -= amount;
}

/* What so many steps take from it. */
static inline void
expect_steps(int count)
{
    expect(0.5 * mean_of_all() * count);
}

/* All work on weights comes before what is on `stream`. Prints the first that is not right. `allowed`: relative; 0
 * where all numbers are exact. */
static inline bool
weights_are_right(double allowed)
{
    static float host[COUNT];
    CHECK(cudaStreamSynchronize(stream));
    for (int l = 0; l < LAYERS; ++l) {
        CHECK(cudaMemcpy(host, weights[l], BYTES, cudaMemcpyDeviceToHost));
        for (int i = 0; i < COUNT; ++i) {
            if (fabs((double)host[i] - expected[l]) <= allowed * fabs(expected[l]))
                continue;
            fprintf(stderr, "%s: weight %d of layer %d is %.9g, not %.9g\n", program_invocation_short_name, i, l,
                    (double)host[i], expected[l]);
            return false;
        }
    }
    return true;
}

#endif
