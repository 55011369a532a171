#include "nn.h"
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void *nn_alloc(size_t bytes)
{
    void *p = NULL;
    cudaError_t e = cudaMalloc(&p, bytes);
    if (e != cudaSuccess) {
        fprintf(stderr, "out of device memory: %s\n", cudaGetErrorString(e));
        abort();
    }
    cudaMemset(p, 0, bytes);
    return p;
}

nn_param *nn_register(nn_registry *reg, const char *name, int rows, int cols, float scale)
{
    nn_param *p = &reg->params[reg->count++];
    size_t n = (size_t)rows * cols, bytes = n * sizeof(float);
    p->name = name;
    p->rows = rows;
    p->cols = cols;
    p->data = (float *)nn_alloc(bytes);
    p->grad = (float *)nn_alloc(bytes);
    p->moment1 = (float *)nn_alloc(bytes);
    p->moment2 = (float *)nn_alloc(bytes);
    float *h = (float *)malloc(bytes);
    for (size_t i = 0; i < n; i++) h[i] = scale * (2.f * rand() / RAND_MAX - 1.f);
    cudaMemcpy(p->data, h, bytes, cudaMemcpyHostToDevice);
    free(h);
    return p;
}

void nn_zero_grad(nn_registry *reg)
{
    for (int i = 0; i < reg->count; i++)
        cudaMemset(reg->params[i].grad, 0, (size_t)reg->params[i].rows * reg->params[i].cols * sizeof(float));
}

__global__ void adamw_kernel(nn_param p, float lr, float wd, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p.rows * p.cols) return;
    float g = p.grad[i];
    p.moment1[i] = 0.9f * p.moment1[i] + 0.1f * g;
    p.moment2[i] = 0.98f * p.moment2[i] + 0.02f * g * g;
    p.data[i] -= lr * (p.moment1[i] / c1 / (sqrtf(p.moment2[i] / c2) + 1e-8f) + wd * p.data[i]);
}

void nn_adamw(nn_registry *reg, float lr, float weight_decay)
{
    reg->step++;
    float c1 = 1.f - powf(0.9f, (float)reg->step), c2 = 1.f - powf(0.98f, (float)reg->step);
    for (int i = 0; i < reg->count; i++) {
        int n = reg->params[i].rows * reg->params[i].cols;
        adamw_kernel<<<(n + 127) / 128, 128>>>(reg->params[i], lr, weight_decay, c1, c2);
    }
}
