#include "kernels.h"
#include <cuda_runtime.h>

namespace {
const int kThreads = 64;
int blocks(int count) { return (count + kThreads - 1) / kThreads; }

__global__ void linear_kernel(const float *x, const float *w, const float *b, float *y, int n, int in, int out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * out) return;
    const float *row = x + i / out * in;
    float s = b[i % out];
    for (int k = 0; k < in; k++) s += row[k] * w[k * out + i % out];
    y[i] = s;
}
__global__ void weight_kernel(const float *x, const float *dy, float *dw, int n, int in, int out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= in * out) return;
    float s = 0.f;
    for (int r = 0; r < n; r++) s += x[r * in + i / out] * dy[r * out + i % out];
    dw[i] = s;
}
__global__ void bias_kernel(const float *dy, float *db, int n, int out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= out) return;
    float s = 0.f;
    for (int r = 0; r < n; r++) s += dy[r * out + i];
    db[i] = s;
}
__global__ void input_kernel(const float *dy, const float *w, float *dx, int n, int in, int out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * in) return;
    float s = 0.f;
    for (int k = 0; k < out; k++) s += dy[i / in * out + k] * w[i % in * out + k];
    dx[i] = s;
}
__global__ void gather_kernel(const float *table, const int *index, float *rows, int n, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * width) rows[i] = table[index[i / width] * width + i % width];
}
__global__ void add_tanh_kernel(const float *a, const float *branch, float *y, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = a[i] + tanhf(branch[i]);
}
__global__ void add_tanh_grad_kernel(const float *branch, const float *dy, float *dbranch, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        float t = tanhf(branch[i]);
        dbranch[i] = dy[i] * (1.f - t * t);
    }
}
__global__ void add_kernel(float *a, const float *b, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) a[i] += b[i];
}
__global__ void logistic_kernel(const float *score, const float *label, float *dscore, float *loss, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float p = 1.f / (1.f + expf(-score[i]));
    dscore[i] = (p - label[i]) / n;
    loss[i] = fmaxf(score[i], 0.f) - score[i] * label[i] + log1pf(expf(-fabsf(score[i])));
}
__global__ void adam_kernel(float *w, const float *g, float *m, float *v, int count, float rate, float b1t, float b2t) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    m[i] += 0.1f * (g[i] - m[i]);
    v[i] += 0.001f * (g[i] * g[i] - v[i]);
    w[i] -= rate * (m[i] / (1.f - b1t)) / (sqrtf(v[i] / (1.f - b2t)) + 1e-7f);
}
}  // namespace

void linear(const float *x, const float *w, const float *b, float *y, int n, int in, int out) {
    linear_kernel<<<blocks(n * out), kThreads>>>(x, w, b, y, n, in, out);
}
void linear_weight_grad(const float *x, const float *dy, float *dw, float *db, int n, int in, int out) {
    weight_kernel<<<blocks(in * out), kThreads>>>(x, dy, dw, n, in, out);
    bias_kernel<<<blocks(out), kThreads>>>(dy, db, n, out);
}
void linear_input_grad(const float *dy, const float *w, float *dx, int n, int in, int out) {
    input_kernel<<<blocks(n * in), kThreads>>>(dy, w, dx, n, in, out);
}
void gather_rows(const float *table, const int *index, float *rows, int n, int width) {
    gather_kernel<<<blocks(n * width), kThreads>>>(table, index, rows, n, width);
}
void add_tanh(const float *a, const float *branch, float *y, int count) {
    add_tanh_kernel<<<blocks(count), kThreads>>>(a, branch, y, count);
}
void add_tanh_grad(const float *branch, const float *dy, float *dbranch, int count) {
    add_tanh_grad_kernel<<<blocks(count), kThreads>>>(branch, dy, dbranch, count);
}
void add_to(float *a, const float *b, int count) { add_kernel<<<blocks(count), kThreads>>>(a, b, count); }
void logistic_loss(const float *score, const float *label, float *dscore, float *loss, int n) {
    logistic_kernel<<<blocks(n), kThreads>>>(score, label, dscore, loss, n);
}
void adam_update(float *w, const float *g, float *m, float *v, int count, float rate, int t) {
    float b1t = 1.f, b2t = 1.f;
    for (int i = 0; i < t; i++) b1t *= 0.9f, b2t *= 0.999f;
    adam_kernel<<<blocks(count), kThreads>>>(w, g, m, v, count, rate, b1t, b2t);
}
