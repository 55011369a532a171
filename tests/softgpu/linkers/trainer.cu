/*
 * trainer.cu - a small annotated trainer as part of a program that another compiler links: kernels with dynamic shared
 * memory, device variables and functions that ask where they are, and a sum of cuBLAS.
 */
#include "trainer.h"

#include "ddprun.h"

#include <cublas_v2.h>

#ifndef TRAINER
#define TRAINER train
#endif

enum { N = 1000, BLOCK = 128 };

extern __shared__ float tile[];
__device__ float target = 1.0f;
__constant__ float rate = 0.1f;

__device__ int
place()
{
    return static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
}

__global__ void
difference(float *gradient, const float *weight, float shift)
{
    const int i = place();
    tile[threadIdx.x] = i < N ? weight[i] : 0.0f;
    __syncthreads();
    if (i < N)
        gradient[i] = 2.0f * (tile[threadIdx.x] - target - shift);
}

__global__ void
update(float *weight, const float *gradient)
{
    const int i = place();
    if (i < N)
        weight[i] -= rate * gradient[i];
}

int
TRAINER(float *first)
{
    float *weight, *gradient;
    const float minus_rate = -0.1f;
    cublasHandle_t blas;
    if (cublasCreate(&blas) != CUBLAS_STATUS_SUCCESS || cudaMalloc(&weight, N * sizeof(float)) != cudaSuccess ||
        cudaMalloc(&gradient, N * sizeof(float)) != cudaSuccess)
        return 1;
    cudaMemset(weight, 0, N * sizeof(float));
    DDP_PARAMETER(weight, N, DDP_FLOAT32);
    DDP_GRADIENT(gradient, N, DDP_FLOAT32);
    for (int step = 0; step < 10; ++step) {
        difference<<<(N + BLOCK - 1) / BLOCK, BLOCK, BLOCK * sizeof(float)>>>(gradient, weight, (float)DDP_RANK());
        DDP_STEP(0);
        if (step % 2 == 0)
            update<<<(N + BLOCK - 1) / BLOCK, BLOCK>>>(weight, gradient);
        else
            cublasSaxpy(blas, N, &minus_rate, gradient, 1, weight, 1);
    }
    cudaMemcpy(first, weight, sizeof(float), cudaMemcpyDeviceToHost);
    cudaFree(weight);
    cudaFree(gradient);
    cublasDestroy(blas);
    return cudaGetLastError() != cudaSuccess;
}
