/*
 * public.h - what public_nets.cu, public_updates.cu and public_memory.cu share: a net of two layers with the kernels of
 * its forward and backward pass, data that can be learnt, and the memory of both. For these programs only, each of
 * which is one file of CUDA.
 */
#ifndef DDPRUN_TESTS_TOOLS_SCOUT_PUBLIC_H
#define DDPRUN_TESTS_TOOLS_SCOUT_PUBLIC_H

#include "tests/trainer.h"

#include <cstring>
#include <cuda_runtime.h>
#include <ddprun.h>
#include <utility>

enum { BATCH = 16, INPUTS = 24, HIDDEN = 32, OUTPUTS = 8, TENSORS = 4, STEPS = 48, BLOCK = 64 };

#define INDEX             ((int)(blockIdx.x * blockDim.x + threadIdx.x))
#define RUN(kernel, many) kernel<<<((many) + BLOCK - 1) / BLOCK, BLOCK>>>

static const float rate = 0.05f;

/* Weights and biases of the first layer, then of the second. */
static const int tensor_count[TENSORS] = {INPUTS * HIDDEN, HIDDEN, HIDDEN *OUTPUTS, OUTPUTS};
static float *w[TENSORS], *g[TENSORS];
static float *x, *wanted, *h, *y, *delta, *below; /* of the batch, as all activations */

/* y = act(x w + b), row by row; the weights' rows are `pitch` elements apart. */
__global__ void
dense(float *to, const float *from, const float *weights, const float *bias, int rows, int in, int out, int pitch,
      bool bends)
{
    int row = INDEX / out, k = INDEX % out;
    if (row >= rows)
        return;
    float sum = bias != NULL ? bias[k] : 0.0f;
    for (int i = 0; i < in; ++i)
        sum += from[row * in + i] * weights[i * pitch + k];
    to[row * out + k] = bends ? tanhf(sum) : sum;
}

__global__ void
square_delta(float *to, const float *from, const float *target, int count)
{
    if (INDEX < count)
        to[INDEX] = from[INDEX] - target[INDEX];
}

__global__ void
delta_below(float *to, const float *from, const float *weights, const float *value, int rows, int in, int out,
            int pitch)
{
    int row = INDEX / in, i = INDEX % in;
    if (row >= rows)
        return;
    float sum = 0;
    for (int k = 0; k < out; ++k)
        sum += from[row * out + k] * weights[i * pitch + k];
    to[row * in + i] = sum * (1 - value[row * in + i] * value[row * in + i]);
}

/* to = keep * to + from' error / BATCH; without `from`, of a bias. */
__global__ void
gradient_of(float *to, const float *from, const float *error, int rows, int in, int out, int pitch, bool adds)
{
    int i = INDEX / out, k = INDEX % out;
    if (i >= in)
        return;
    float sum = 0;
    for (int row = 0; row < rows; ++row)
        sum += (from != NULL ? from[row * in + i] : 1.0f) * error[row * out + k] / BATCH;
    to[i * pitch + k] = adds ? to[i * pitch + k] + sum : sum;
}

__global__ void
descend(float *weights, const float *gradient, float rate, int count)
{
    if (INDEX < count)
        weights[INDEX] -= rate * gradient[INDEX];
}

static float
random_number(void)
{
    static unsigned state = 1;
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / (float)(1 << 24);
}

static float *
floats(int count, float spread)
{
    float *memory, *host = (float *)calloc((size_t)count, sizeof(float));
    CHECK(cudaMalloc(&memory, (size_t)count * sizeof(float)));
    for (int i = 0; i < count && spread > 0; ++i)
        host[i] = spread * (random_number() - 0.5f);
    CHECK(cudaMemcpy(memory, host, (size_t)count * sizeof(float), cudaMemcpyHostToDevice));
    free(host);
    return memory;
}

/* A weight and its gradient, both annotated. */
static void
create_pair(float **weights, float **gradient, int count)
{
    *weights = floats(count, 0.5f);
    *gradient = floats(count, 0);
    DDP_PARAMETER(*weights, count, DDP_FLOAT32);
    DDP_GRADIENT(*gradient, count, DDP_FLOAT32);
}

static void
create_activations(void)
{
    x = floats(BATCH * INPUTS, 0);
    wanted = floats(BATCH * OUTPUTS, 0);
    h = floats(BATCH * HIDDEN, 0);
    y = floats(BATCH * OUTPUTS, 0);
    delta = floats(BATCH * OUTPUTS, 0);
    below = floats(BATCH * HIDDEN, 0);
}

static void
create_net(void)
{
    create_activations();
    for (int t = 0; t < TENSORS; ++t)
        create_pair(&w[t], &g[t], tensor_count[t]);
}

static void
draw_batch(float *to_x, float *to_wanted)
{
    for (int row = 0; row < BATCH; ++row) {
        int kind = (int)(random_number() * OUTPUTS);
        for (int i = 0; i < INPUTS; ++i)
            to_x[row * INPUTS + i] = (i % OUTPUTS == kind ? 1.0f : 0.0f) + 0.3f * random_number();
        for (int k = 0; k < OUTPUTS; ++k)
            to_wanted[row * OUTPUTS + k] = k == kind ? 1.0f : 0.0f;
    }
}

static void
load(void)
{
    static float host_x[BATCH * INPUTS], host_wanted[BATCH * OUTPUTS];
    draw_batch(host_x, host_wanted);
    CHECK(cudaMemcpy(x, host_x, sizeof(host_x), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(wanted, host_wanted, sizeof(host_wanted), cudaMemcpyHostToDevice));
}

static void
forward(void)
{
    RUN(dense, BATCH * HIDDEN)(h, x, w[0], w[1], BATCH, INPUTS, HIDDEN, HIDDEN, true);
    RUN(dense, BATCH * OUTPUTS)(y, h, w[2], w[3], BATCH, HIDDEN, OUTPUTS, OUTPUTS, false);
}

/* What the gradient of tensor t is computed from: a bias has no input. */
static void
compute_gradient(float *to, int t, bool adds)
{
    int in = t == 0 ? INPUTS : t == 2 ? HIDDEN : 1, out = t < 2 ? HIDDEN : OUTPUTS;
    RUN(gradient_of, in * out)
    (to, t == 0 ? x : t == 2 ? h : NULL, t < 2 ? below : delta, BATCH, in, out, out, adds);
}

static void
compute_deltas(void)
{
    RUN(square_delta, BATCH * OUTPUTS)(delta, y, wanted, BATCH * OUTPUTS);
    RUN(delta_below, BATCH * HIDDEN)(below, delta, w[2], h, BATCH, HIDDEN, OUTPUTS, OUTPUTS);
}

static void
backward(bool adds)
{
    compute_deltas();
    for (int t = 0; t < TENSORS; ++t)
        compute_gradient(g[t], t, adds);
}

static void
descend_all(void)
{
    for (int t = 0; t < TENSORS; ++t)
        RUN(descend, tensor_count[t])(w[t], g[t], rate, tensor_count[t]);
}

struct habit {
    const char *name;
    void (*train)(void);
};

/* Runs the habit that the command line names. */
static int
run_habit(const struct habit *habits, size_t count, const char *name)
{
    for (size_t i = 0; i < count; ++i)
        if (name != NULL && strcmp(habits[i].name, name) == 0) {
            habits[i].train();
            CHECK(cudaDeviceSynchronize());
            return 0;
        }
    fprintf(stderr, "name one of the habits that the head of the file lists\n");
    return 2;
}

#endif
