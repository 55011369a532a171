/*
 * fused.cu - a trainer whose kernel computes a gradient and updates the weight at once, so that no memory holds the
 * gradient. Two ways to train it on several ranks:
 *   fused    the kernel stays, and DDP_STEP_PARAMETERS averages the weights: for SGD, whose update is linear
 *   unfused  (the default) the gradient gets memory, and the update a kernel after DDP_STEP: for any optimizer
 */
#include <cuda_runtime.h>
#include <ddprun.h>
#include <stdio.h>
#include <string.h>

enum { ITEMS = 24, WEIGHTS = 4, STEPS = 30 };

__device__ static float
gradient_of(const float *w, size_t first, size_t count)
{
    float sum = 0;
    for (size_t i = first; i < first + count; ++i)
        sum += (w[threadIdx.x] - 0.0625f * (float)(i * threadIdx.x)) / (float)count;
    return sum;
}

__global__ void
backward_and_sgd(float *w, size_t first, size_t count)
{
    w[threadIdx.x] -= 0.25f * gradient_of(w, first, count);
}

__global__ void
backward(float *gradient, const float *w, size_t first, size_t count)
{
    gradient[threadIdx.x] = gradient_of(w, first, count);
}

/* Adam without a correction of the bias. */
__global__ void
adam(float *w, const float *gradient, float *moments)
{
    int j = threadIdx.x;
    float g = gradient[j];
    moments[2 * j] = 0.9f * moments[2 * j] + 0.1f * g;
    moments[2 * j + 1] = 0.99f * moments[2 * j + 1] + 0.01f * g * g;
    w[j] -= 0.05f * moments[2 * j] / (sqrtf(moments[2 * j + 1]) + 1e-3f);
}

int
main(int argc, char **argv)
{
    bool fused = argc > 1 && strcmp(argv[1], "fused") == 0;
    float *w, *gradient, *moments, result[WEIGHTS];
    cudaMalloc((void **)&w, sizeof(result));
    cudaMalloc((void **)&gradient, sizeof(result));
    cudaMalloc((void **)&moments, 2 * sizeof(result));
    cudaMemset(w, 0, sizeof(result));
    cudaMemset(moments, 0, 2 * sizeof(result));
    DDP_PARAMETER(w, WEIGHTS, DDP_FLOAT32);
    if (!fused)
        DDP_GRADIENT(gradient, WEIGHTS, DDP_FLOAT32);
    size_t first, count;
    DDP_SHARD(ITEMS, &first, &count);
    for (int step = 0; step < STEPS; ++step) {
        if (fused) {
            backward_and_sgd<<<1, WEIGHTS>>>(w, first, count);
            DDP_STEP_PARAMETERS(0);
            continue;
        }
        backward<<<1, WEIGHTS>>>(gradient, w, first, count);
        DDP_STEP(0);
        adam<<<1, WEIGHTS>>>(w, gradient, moments);
    }
    cudaMemcpy(result, w, sizeof(result), cudaMemcpyDeviceToHost);
    if (DDP_RANK() == 0)
        printf("w %.4f %.4f %.4f %.4f\n", result[0], result[1], result[2], result[3]);
}
