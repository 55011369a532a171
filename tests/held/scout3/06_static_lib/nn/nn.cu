#include "nn.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>

namespace nn {

namespace {

const int kBlock = 64;
int grid(int n) { return (n + kBlock - 1) / kBlock; }

__global__ void forward_k(const float *x, const float *w, const float *b, float *y, int rows, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * out) return;
    const float *xr = x + (i / out) * in;
    const float *wr = w + (i % out) * in;
    float s = b[i % out];
    for (int k = 0; k < in; k++) s += xr[k] * wr[k];
    y[i] = s;
}

__global__ void weight_grad_k(const float *x, const float *dy, float *dw, int rows, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= in * out) return;
    int o = i / in, k = i % in;
    float s = 0;
    for (int r = 0; r < rows; r++) s += dy[r * out + o] * x[r * in + k];
    dw[i] = s;
}

__global__ void bias_grad_k(const float *dy, float *db, int rows, int out)
{
    int o = blockIdx.x * blockDim.x + threadIdx.x;
    if (o >= out) return;
    float s = 0;
    for (int r = 0; r < rows; r++) s += dy[r * out + o];
    db[o] = s;
}

__global__ void input_grad_k(const float *dy, const float *w, float *dx, int rows, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * in) return;
    int r = i / in, k = i % in;
    float s = 0;
    for (int o = 0; o < out; o++) s += dy[r * out + o] * w[o * in + k];
    dx[i] = s;
}

__global__ void sigmoid_k(float *a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = 1.f / (1.f + expf(-a[i]));
}

__global__ void sigmoid_grad_k(const float *a, float *d, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) d[i] *= a[i] * (1.f - a[i]);
}

__global__ void cross_entropy_k(const float *z, const int *t, float *dz, float *loss, int rows, int classes)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    const float *zr = z + r * classes;
    float m = zr[0], s = 0;
    for (int c = 1; c < classes; c++) m = fmaxf(m, zr[c]);
    for (int c = 0; c < classes; c++) s += expf(zr[c] - m);
    for (int c = 0; c < classes; c++)
        dz[r * classes + c] = (expf(zr[c] - m) / s - (c == t[r])) / rows;
    loss[r] = logf(s) + m - zr[t[r]];
}

__global__ void count_k(const float *z, const int *t, int rows, int classes, int *count)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    int best = 0;
    for (int c = 1; c < classes; c++) if (z[r * classes + c] > z[r * classes + best]) best = c;
    if (best == t[r]) atomicAdd(count, 1);
}

__global__ void sgd_k(float *p, const float *g, int n, float lr, float wd)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] -= lr * (g[i] + wd * p[i]);
}

Param param_create(int n)
{
    Param p = {device_array<float>(n), device_array<float>(n), n};
    cudaMemset(p.value, 0, n * sizeof(float));
    cudaMemset(p.grad, 0, n * sizeof(float));
    return p;
}

}  // namespace

template <typename T>
T *device_array(size_t n)
{
    void *p = nullptr;
    cudaError_t e = cudaMalloc(&p, n * sizeof(T));
    if (e != cudaSuccess) {
        std::fprintf(stderr, "nn: %s\n", cudaGetErrorString(e));
        std::exit(1);
    }
    return static_cast<T *>(p);
}
template float *device_array<float>(size_t);
template int *device_array<int>(size_t);

Linear linear_create(int in, int out, unsigned &seed)
{
    Linear l = {in, out, param_create(in * out), param_create(out)};
    std::vector<float> h(in * out);
    float r = std::sqrt(6.f / in);
    for (float &v : h) {
        seed = seed * 1103515245u + 12345u;
        v = (2.f * ((seed >> 16) & 0x7fff) / 32767.f - 1.f) * r;
    }
    cudaMemcpy(l.w.value, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice);
    return l;
}

void linear_destroy(Linear &l)
{
    for (Param *p : {&l.w, &l.b}) {
        cudaFree(p->value);
        cudaFree(p->grad);
    }
}

void linear_forward(const Linear &l, const float *x, float *y, int rows)
{
    forward_k<<<grid(rows * l.out), kBlock>>>(x, l.w.value, l.b.value, y, rows, l.in, l.out);
}

void linear_backward(Linear &l, const float *x, const float *dy, float *dx, int rows)
{
    weight_grad_k<<<grid(l.in * l.out), kBlock>>>(x, dy, l.w.grad, rows, l.in, l.out);
    bias_grad_k<<<grid(l.out), kBlock>>>(dy, l.b.grad, rows, l.out);
    if (dx) input_grad_k<<<grid(rows * l.in), kBlock>>>(dy, l.w.value, dx, rows, l.in, l.out);
}

void sigmoid_forward(float *a, int n) { sigmoid_k<<<grid(n), kBlock>>>(a, n); }
void sigmoid_backward(const float *a, float *d, int n) { sigmoid_grad_k<<<grid(n), kBlock>>>(a, d, n); }

void cross_entropy(const float *logits, const int *target, float *dlogits, float *row_loss, int rows, int classes)
{
    cross_entropy_k<<<grid(rows), kBlock>>>(logits, target, dlogits, row_loss, rows, classes);
}

void count_correct(const float *logits, const int *target, int rows, int classes, int *count)
{
    count_k<<<grid(rows), kBlock>>>(logits, target, rows, classes, count);
}

void sgd(Param &p, float lr, float weight_decay)
{
    sgd_k<<<grid(p.count), kBlock>>>(p.value, p.grad, p.count, lr, weight_decay);
}

}  // namespace nn
