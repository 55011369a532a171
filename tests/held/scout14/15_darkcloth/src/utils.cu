#include "dark.h"
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void check_error(cudaError_t status)
{
    if (status == cudaSuccess) return;
    fprintf(stderr, "CUDA Error: %s\n", cudaGetErrorString(status));
    exit(1);
}

float *cuda_make_array(const float *x, size_t n)
{
    float *x_gpu;
    check_error(cudaMalloc((void **)&x_gpu, n * sizeof(float)));
    if (x) check_error(cudaMemcpy(x_gpu, x, n * sizeof(float), cudaMemcpyHostToDevice));
    else check_error(cudaMemset(x_gpu, 0, n * sizeof(float)));
    return x_gpu;
}

void cuda_push_array(float *x_gpu, const float *x, size_t n)
{
    check_error(cudaMemcpy(x_gpu, x, n * sizeof(float), cudaMemcpyHostToDevice));
}

void cuda_pull_array(const float *x_gpu, float *x, size_t n)
{
    check_error(cudaMemcpy(x, x_gpu, n * sizeof(float), cudaMemcpyDeviceToHost));
}

float rand_uniform(float lo, float hi)
{
    return lo + (hi - lo) * ((float)rand() / RAND_MAX);
}

float *random_weights(int n, int fan_in)
{
    float scale = sqrtf(2.f / fan_in), *x = (float *)calloc(n, sizeof(float));
    for (int i = 0; i < n; ++i) x[i] = scale * rand_uniform(-1, 1);
    float *x_gpu = cuda_make_array(x, n);
    free(x);
    return x_gpu;
}

__global__ void axpy_kernel(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}

__global__ void scal_kernel(int n, float a, float *x)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= a;
}

void axpy_gpu(int n, float a, const float *x, float *y) { axpy_kernel<<<GRID(n)>>>(n, a, x, y); }
void scal_gpu(int n, float a, float *x) { scal_kernel<<<GRID(n)>>>(n, a, x); }
