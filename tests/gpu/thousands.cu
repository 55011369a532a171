/*
 * thousands.cu - a trainer with 2,000 small launches a step, for tests/gpu/first.sh: what a world of one costs, where
 * it would show.
 *
 * thousands [STEPS]. Prints "trained for S s".
 */
#include "../lib/trainer_options.h"

#include <cuda_runtime.h>
#include <ddprun.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LAUNCHES = 2000, TENSORS = 50, ELEMENTS = 16 };

static float *weights[TENSORS], *gradients[TENSORS], *scratch[TENSORS];

__global__ void
combine(float *out, const float *a, const float *b, float *unused, int count)
{
    for (int i = 0; i < count; ++i)
        out[i] = 0.5f * a[i] + 0.25f * b[i];
    (void)unused;
}

__global__ void
descend(float *weight, const float *gradient, int count)
{
    for (int i = 0; i < count; ++i)
        weight[i] -= 0.01f * gradient[i];
}

extern "C" __attribute__((noinline)) void
train(int steps)
{
    for (int step = 0; step < steps; ++step) {
        for (int i = 0; i < LAUNCHES - 2 * TENSORS; ++i)
            combine<<<1, 1>>>(scratch[i % TENSORS], weights[i % TENSORS], scratch[(i + 1) % TENSORS],
                              scratch[(i + 2) % TENSORS], ELEMENTS);
        for (int t = 0; t < TENSORS; ++t)
            combine<<<1, 1>>>(gradients[t], scratch[t], weights[t], scratch[t], ELEMENTS);
        DDP_STEP(0);
        for (int t = 0; t < TENSORS; ++t)
            descend<<<1, 1>>>(weights[t], gradients[t], ELEMENTS);
        cudaDeviceSynchronize();
    }
}

static float *
allocate()
{
    float *memory = NULL;
    if (cudaMalloc(&memory, ELEMENTS * sizeof(float)) != cudaSuccess ||
        cudaMemset(memory, 0, ELEMENTS * sizeof(float)) != cudaSuccess)
        exit(1);
    return memory;
}

int
main(int argc, char **argv)
{
    const int steps = argc > 1 ? (int)whole_number(argv[1], 1, INT_MAX) : 50;
    for (int t = 0; t < TENSORS; ++t) {
        weights[t] = allocate();
        gradients[t] = allocate();
        scratch[t] = allocate();
        DDP_PARAMETER(weights[t], ELEMENTS, DDP_FLOAT32);
        DDP_GRADIENT(gradients[t], ELEMENTS, DDP_FLOAT32);
    }
    train(2); /* kernels, threads and caches are there */
    timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    train(steps);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("trained for %.6f s\n", (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec));
    return cudaGetLastError() == cudaSuccess ? 0 : 1;
}
