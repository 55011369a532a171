/*
 * plan_calls.cu - a trainer with 120 small launches in a batch's forward and backward pass, for bench/plan: what the
 * host spends on a launch that is made, and on one that a rank of `ddprun --plan` passes over.
 *
 * plan_calls [BATCHES]. Prints the host's time of a launch in us, best and median over batches, of those with an even
 * number and of those with an odd one: of two ranks by turns, rank 0 makes the first and passes over the others.
 */
#include "tests/trainer.h"

#include <algorithm>
#include <stdlib.h>
#include <time.h>
#include <vector>

enum { LAYERS = 24, ROWS = 4, WIDTH = 16, LAUNCHES_OF_LAYER = 5, LEARNED = 40 /* batches: not timed */ };

struct layer {
    float *weight, *gradient, *input, *error, *scratch;
};

static struct layer layers[LAYERS + 1];

__global__ void
multiply(float *out, const float *in, const float *weight)
{
    for (int i = 0; i < ROWS * WIDTH; ++i)
        out[i] = in[i] * weight[i % WIDTH];
}

__global__ void
multiply_add(float *out, const float *in, const float *weight, const float *rest)
{
    for (int i = 0; i < ROWS * WIDTH; ++i)
        out[i] = rest[i] + in[i] * weight[i % WIDTH];
}

__global__ void
squash(float *out, const float *in, const float *rest)
{
    for (int i = 0; i < ROWS * WIDTH; ++i)
        out[i] = rest[i] + in[i] / (1.0f + in[i] * in[i]);
}

__global__ void
squash_back(float *out, const float *error, const float *in)
{
    for (int i = 0; i < ROWS * WIDTH; ++i) {
        float square = in[i] * in[i];
        out[i] = error[i] * (1.0f - square) / ((1.0f + square) * (1.0f + square));
    }
}

__global__ void
sum_rows(float *gradient, const float *error, const float *in)
{
    for (int i = 0; i < WIDTH; ++i) {
        float sum = 0;
        for (int row = 0; row < ROWS; ++row)
            sum += error[row * WIDTH + i] * in[row * WIDTH + i];
        gradient[i] = sum / ROWS;
    }
}

__global__ void
descend(float *weight, const float *gradient)
{
    for (int i = 0; i < WIDTH; ++i)
        weight[i] -= 0.01f * gradient[i];
}

static __attribute__((noinline)) void
layer_forward(struct layer *layer, struct layer *next)
{
    multiply<<<1, 1>>>(layer->scratch, layer->input, layer->weight);
    squash<<<1, 1>>>(next->input, layer->scratch, layer->input);
    asm volatile(""); /* no tail calls: frames as those of larger programs */
}

static __attribute__((noinline)) void
layer_backward(struct layer *layer, struct layer *next)
{
    squash_back<<<1, 1>>>(layer->scratch, next->error, layer->scratch);
    sum_rows<<<1, 1>>>(layer->gradient, layer->scratch, layer->input);
    multiply_add<<<1, 1>>>(layer->error, layer->scratch, layer->weight, next->error);
    asm volatile("");
}

static __attribute__((noinline)) void
pass(void)
{
    for (int l = 0; l < LAYERS; ++l)
        layer_forward(&layers[l], &layers[l + 1]);
    for (int l = LAYERS - 1; l >= 0; --l)
        layer_backward(&layers[l], &layers[l + 1]);
    asm volatile("");
}

static double
now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e6 * (double)now.tv_sec + 1e-3 * (double)now.tv_nsec;
}

static float *
make(int rows, float value)
{
    float *memory, values[ROWS * WIDTH];
    for (int i = 0; i < rows * WIDTH; ++i)
        values[i] = value * (float)(i + 1);
    CHECK(cudaMalloc(&memory, (size_t)(rows * WIDTH) * sizeof(float)));
    CHECK(cudaMemcpy(memory, values, (size_t)(rows * WIDTH) * sizeof(float), cudaMemcpyHostToDevice));
    return memory;
}

int
main(int argc, char **argv)
{
    const int batches = argc > 1 ? atoi(argv[1]) : 40;
    std::vector<double> times[2];
    float batch[ROWS * WIDTH];
    for (int l = 0; l <= LAYERS; ++l)
        layers[l] = {make(1, 0.01f + 0.001f * (float)l), make(1, 0), make(ROWS, 0), make(ROWS, 0), make(ROWS, 0)};
    for (int k = 0; k < batches; ++k) {
        for (int i = 0; i < ROWS * WIDTH; ++i)
            batch[i] = (float)rand() / (float)RAND_MAX - 0.5f;
        CHECK(cudaMemcpy(layers[0].input, batch, sizeof(batch), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(layers[LAYERS].error, batch, sizeof(batch), cudaMemcpyHostToDevice));
        CHECK(cudaDeviceSynchronize());
        double begin_us = now_us();
        pass();
        if (k >= LEARNED)
            times[k % 2].push_back((now_us() - begin_us) / (LAYERS * LAUNCHES_OF_LAYER));
        for (int l = 0; l < LAYERS; ++l)
            descend<<<1, 1>>>(layers[l].weight, layers[l].gradient);
        CHECK(cudaDeviceSynchronize());
    }
    for (int odd = 0; odd < 2 && times[odd].size() > 0; ++odd) {
        std::sort(times[odd].begin(), times[odd].end());
        printf("%s: best %.3f, median %.3f\n", odd ? "odd" : "even", times[odd][0], times[odd][times[odd].size() / 2]);
    }
    return 0;
}
