#include "optim.h"
#include <cmath>
#include <cuda_runtime.h>

__global__ void sum_of_squares(const float *g, int n, float *out)
{
    __shared__ float s[256];
    float a = 0;
    for (int i = threadIdx.x; i < n; i += 256)
        a += g[i] * g[i];
    s[threadIdx.x] = a;
    __syncthreads();
    for (int k = 128; k; k /= 2) {
        if (threadIdx.x < k)
            s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *out += s[0];
}

__global__ void scale(float *g, int n, float f)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        g[i] *= f;
}

__global__ void adagrad(float *w, float *cache, const float *g, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        cache[i] += g[i] * g[i];
        w[i] -= lr * g[i] / (sqrtf(cache[i]) + 1e-7f);
    }
}

Adagrad::Adagrad(std::vector<Parameter *> params, float lr) : params_(params), lr_(lr)
{
    cudaMalloc(&norm_, sizeof(float));
}
Adagrad::~Adagrad()
{
    cudaFree(norm_);
}

float Adagrad::clip(float max_norm)
{
    float total;
    cudaMemset(norm_, 0, sizeof(float));
    for (auto *p : params_)
        sum_of_squares<<<1, 256>>>(p->grad, p->size, norm_);
    cudaMemcpy(&total, norm_, sizeof(float), cudaMemcpyDeviceToHost);
    total = std::sqrt(total);
    if (total > max_norm)
        for (auto *p : params_)
            scale<<<(p->size + 127) / 128, 128>>>(p->grad, p->size, max_norm / total);
    return total;
}

void Adagrad::step()
{
    for (auto *p : params_)
        adagrad<<<(p->size + 127) / 128, 128>>>(p->data, p->cache, p->grad, p->size, lr_);
}
