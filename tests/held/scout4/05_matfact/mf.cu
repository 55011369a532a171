#include "mf.h"
#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime.h>

#define CUDA_CALL(x) do { if ((x) != cudaSuccess) { \
    printf("Error at %s:%d\n", __FILE__, __LINE__); exit(EXIT_FAILURE); } } while (0)

static float *d_sse = NULL;

static float *alloc_floats(size_t n)
{
    float *p;
    CUDA_CALL(cudaMalloc((void **)&p, n * sizeof(float)));
    return p;
}

void factors_alloc(factors_t *f)
{
    f->user = alloc_floats(NUM_USERS * RANK);
    f->item = alloc_floats(NUM_ITEMS * RANK);
    f->user_bias = alloc_floats(NUM_USERS);
    f->item_bias = alloc_floats(NUM_ITEMS);
}

void factors_zero(factors_t *f)
{
    CUDA_CALL(cudaMemset(f->user, 0, NUM_USERS * RANK * sizeof(float)));
    CUDA_CALL(cudaMemset(f->item, 0, NUM_ITEMS * RANK * sizeof(float)));
    CUDA_CALL(cudaMemset(f->user_bias, 0, NUM_USERS * sizeof(float)));
    CUDA_CALL(cudaMemset(f->item_bias, 0, NUM_ITEMS * sizeof(float)));
}

void factors_random(factors_t *f, unsigned seed)
{
    int n = NUM_USERS > NUM_ITEMS ? NUM_USERS : NUM_ITEMS;
    float *tmp = (float *)malloc(n * RANK * sizeof(float));
    srand(seed);
    factors_zero(f);
    for (int k = 0; k < NUM_USERS * RANK; k++) tmp[k] = 0.3f * ((float)rand() / RAND_MAX - 0.5f);
    CUDA_CALL(cudaMemcpy(f->user, tmp, NUM_USERS * RANK * sizeof(float), cudaMemcpyHostToDevice));
    for (int k = 0; k < NUM_ITEMS * RANK; k++) tmp[k] = 0.3f * ((float)rand() / RAND_MAX - 0.5f);
    CUDA_CALL(cudaMemcpy(f->item, tmp, NUM_ITEMS * RANK * sizeof(float), cudaMemcpyHostToDevice));
    free(tmp);
}

void factors_free(factors_t *f)
{
    cudaFree(f->user);
    cudaFree(f->item);
    cudaFree(f->user_bias);
    cudaFree(f->item_bias);
}

__global__ void mf_gradient_kernel(factors_t m, factors_t g, const int *users, const int *items,
                                   const float *ratings, int n, float mean, float lambda, float *sse)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    int u = users[t], i = items[t];
    const float *p = m.user + u * RANK;
    const float *q = m.item + i * RANK;
    float pred = mean + m.user_bias[u] + m.item_bias[i];
    for (int k = 0; k < RANK; k++) pred += p[k] * q[k];
    float e = pred - ratings[t];
    for (int k = 0; k < RANK; k++) {
        atomicAdd(&g.user[u * RANK + k], e * q[k] + lambda * p[k]);
        atomicAdd(&g.item[i * RANK + k], e * p[k] + lambda * q[k]);
    }
    atomicAdd(&g.user_bias[u], e + lambda * m.user_bias[u]);
    atomicAdd(&g.item_bias[i], e + lambda * m.item_bias[i]);
    atomicAdd(sse, e * e);
}

float mf_gradient(const factors_t *model, factors_t *grad, const int *users, const int *items, const float *ratings,
                  int n, float mean, float lambda)
{
    float sse;
    if (!d_sse) CUDA_CALL(cudaMalloc((void **)&d_sse, sizeof(float)));
    CUDA_CALL(cudaMemset(d_sse, 0, sizeof(float)));
    mf_gradient_kernel<<<(n + 63) / 64, 64>>>(*model, *grad, users, items, ratings, n, mean, lambda, d_sse);
    CUDA_CALL(cudaMemcpy(&sse, d_sse, sizeof(float), cudaMemcpyDeviceToHost));
    return sse;
}

__global__ void axpy_kernel(float *x, const float *g, float a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += a * g[i];
}

static void axpy(float *x, const float *g, float a, int n)
{
    axpy_kernel<<<(n + 255) / 256, 256>>>(x, g, a, n);
    CUDA_CALL(cudaGetLastError());
}

void mf_update(factors_t *model, const factors_t *grad, float lr)
{
    axpy(model->user, grad->user, -lr, NUM_USERS * RANK);
    axpy(model->item, grad->item, -lr, NUM_ITEMS * RANK);
    axpy(model->user_bias, grad->user_bias, -lr, NUM_USERS);
    axpy(model->item_bias, grad->item_bias, -lr, NUM_ITEMS);
}
