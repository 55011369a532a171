#include "kernels.h"
#include <cuda_runtime.h>

#define IDX (blockIdx.x * blockDim.x + threadIdx.x)
#define LAUNCH(n) ((n) + 127) / 128, 128

__global__ static void k_gemm_bias(const float *x, const float *w, const float *b, float *y, int n, int in, int out)
{
    int i = IDX;
    if (i >= n * out) return;
    int r = i / out, c = i % out;
    float s = b[c];
    for (int k = 0; k < in; k++) s += x[r * in + k] * w[k * out + c];
    y[i] = s;
}
__global__ static void k_relu(float *x, int n) { int i = IDX; if (i < n && x[i] < 0) x[i] = 0; }
__global__ static void k_relu_grad(const float *y, float *dy, int n) { int i = IDX; if (i < n && y[i] <= 0) dy[i] = 0; }
__global__ static void k_grad_w(const float *x, const float *dy, float *dw, int n, int in, int out)
{
    int i = IDX;
    if (i >= in * out) return;
    float s = 0;
    for (int r = 0; r < n; r++) s += x[r * in + i / out] * dy[r * out + i % out];
    dw[i] = s;
}
__global__ static void k_grad_b(const float *dy, float *db, int n, int out)
{
    int i = IDX;
    if (i >= out) return;
    float s = 0;
    for (int r = 0; r < n; r++) s += dy[r * out + i];
    db[i] = s;
}
__global__ static void k_grad_x(const float *dy, const float *w, float *dx, int n, int in, int out, bool acc)
{
    int i = IDX;
    if (i >= n * in) return;
    int r = i / in, k = i % in;
    float s = acc ? dx[i] : 0.f;
    for (int c = 0; c < out; c++) s += dy[r * out + c] * w[k * out + c];
    dx[i] = s;
}
__global__ static void k_sample(const float *mulv, const float *eps, float *z, int n, int l)
{
    int i = IDX;
    if (i >= n * l) return;
    int r = i / l, c = i % l;
    z[i] = mulv[r * 2 * l + c] + eps[i] * expf(0.5f * mulv[r * 2 * l + l + c]);
}
__global__ static void k_sample_grad(const float *mulv, const float *eps, const float *dz, float *d, float *kl, int n, int l, float beta)
{
    int i = IDX;
    if (i >= n * l) return;
    int r = i / l, c = i % l;
    float mu = mulv[r * 2 * l + c], lv = mulv[r * 2 * l + l + c];
    d[r * 2 * l + c] = dz[i] + beta * mu;
    d[r * 2 * l + l + c] = dz[i] * eps[i] * 0.5f * expf(0.5f * lv) + beta * 0.5f * (expf(lv) - 1.f);
    kl[i] = -0.5f * (1.f + lv - mu * mu - expf(lv));
}
__global__ static void k_bce(const float *o, const float *x, float *d, float *loss, int n)
{
    int i = IDX;
    if (i >= n) return;
    float p = 1.f / (1.f + expf(-o[i]));
    d[i] = p - x[i];
    loss[i] = fmaxf(o[i], 0.f) - o[i] * x[i] + log1pf(expf(-fabsf(o[i])));
}
__global__ static void k_rmsprop(float *w, const float *g, float *s, float lr, float scale, int n)
{
    int i = IDX;
    if (i >= n) return;
    float gi = g[i] * scale;
    s[i] = 0.9f * s[i] + 0.1f * gi * gi;
    w[i] -= lr * gi / (sqrtf(s[i]) + 1e-6f);
}

void gemm_bias(const float *x, const float *w, const float *b, float *y, int n, int in, int out) { k_gemm_bias<<<LAUNCH(n * out)>>>(x, w, b, y, n, in, out); }
void relu(float *x, int n) { k_relu<<<LAUNCH(n)>>>(x, n); }
void relu_grad(const float *y, float *dy, int n) { k_relu_grad<<<LAUNCH(n)>>>(y, dy, n); }
void grad_w(const float *x, const float *dy, float *dw, int n, int in, int out) { k_grad_w<<<LAUNCH(in * out)>>>(x, dy, dw, n, in, out); }
void grad_b(const float *dy, float *db, int n, int out) { k_grad_b<<<LAUNCH(out)>>>(dy, db, n, out); }
void grad_x(const float *dy, const float *w, float *dx, int n, int in, int out, bool acc) { k_grad_x<<<LAUNCH(n * in)>>>(dy, w, dx, n, in, out, acc); }
void sample_z(const float *mulv, const float *eps, float *z, int n, int l) { k_sample<<<LAUNCH(n * l)>>>(mulv, eps, z, n, l); }
void sample_z_grad(const float *mulv, const float *eps, const float *dz, float *d, float *kl, int n, int l, float beta) { k_sample_grad<<<LAUNCH(n * l)>>>(mulv, eps, dz, d, kl, n, l, beta); }
void bce_logits(const float *o, const float *x, float *d, float *loss, int n) { k_bce<<<LAUNCH(n)>>>(o, x, d, loss, n); }
void rmsprop(float *w, const float *g, float *s, float lr, float scale, int n) { k_rmsprop<<<LAUNCH(n)>>>(w, g, s, lr, scale, n); }
