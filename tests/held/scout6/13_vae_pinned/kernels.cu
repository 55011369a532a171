#include "kernels.cuh"
#include <cmath>

static inline int nb(int n) { return (n + 127) / 128; }

__global__ void fc_forward_k(const float *x, const float *w, const float *b, float *y, int n, int in, int out, int act)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * out) return;
    int r = i / out, c = i % out;
    float s = b[c];
    for (int k = 0; k < in; k++)
        s += x[r * in + k] * w[k * out + c];
    if (act == ACT_RELU) s = fmaxf(s, 0.f);
    if (act == ACT_SIGMOID) s = 1.f / (1.f + expf(-s));
    y[i] = s;
}

__global__ void relu_mask_k(float *dy, const float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && y[i] <= 0.f) dy[i] = 0.f;
}

__global__ void fc_dw_k(const float *x, const float *dy, float *dw, float *db, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < in * out) {
        int k = i / out, c = i % out;
        float s = 0.f;
        for (int r = 0; r < n; r++)
            s += x[r * in + k] * dy[r * out + c];
        dw[i] = s;
    }
    if (i < out) {
        float s = 0.f;
        for (int r = 0; r < n; r++)
            s += dy[r * out + i];
        db[i] = s;
    }
}

__global__ void fc_dx_k(const float *w, const float *dy, float *dx, int n, int in, int out, bool accumulate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * in) return;
    int r = i / in, k = i % in;
    float s = accumulate ? dx[i] : 0.f;
    for (int c = 0; c < out; c++)
        s += dy[r * out + c] * w[k * out + c];
    dx[i] = s;
}

__global__ void reparam_k(const float *mu, const float *lv, const float *eps, float *z, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = mu[i] + expf(0.5f * lv[i]) * eps[i];
}

__global__ void latent_back_k(const float *mu, const float *lv, const float *eps, const float *dz, float *dmu, float *dlv, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        dmu[i] = dz[i] + mu[i];
        dlv[i] = dz[i] * eps[i] * 0.5f * expf(0.5f * lv[i]) + 0.5f * (expf(lv[i]) - 1.f);
    }
}

__global__ void elbo_k(const float *p, const float *x, const float *mu, const float *lv, float *d, float *loss, int n, int dim,
                       int latent)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float s = 0.f;
    for (int j = r * dim; j < (r + 1) * dim; j++) {
        float q = fminf(fmaxf(p[j], 1e-6f), 1.f - 1e-6f);
        s -= x[j] * logf(q) + (1.f - x[j]) * logf(1.f - q);
        d[j] = p[j] - x[j];
    }
    for (int j = r * latent; j < (r + 1) * latent; j++)
        s += 0.5f * (mu[j] * mu[j] + expf(lv[j]) - 1.f - lv[j]);
    loss[r] = s;
}

__global__ void adam_k(float *p, const float *g, float *m, float *v, int n, float step, float bc2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        m[i] += 0.1f * (g[i] - m[i]);
        v[i] += 0.001f * (g[i] * g[i] - v[i]);
        p[i] -= step * m[i] / (sqrtf(v[i] / bc2) + 1e-8f);
    }
}

void fc_forward(const float *x, const float *w, const float *b, float *y, int n, int in, int out, Activation act,
                cudaStream_t s)
{
    fc_forward_k<<<nb(n * out), 128, 0, s>>>(x, w, b, y, n, in, out, act);
}

void fc_backward(const float *x, const float *w, const float *y, float *dy, float *dw, float *db, float *dx, int n, int in,
                 int out, Activation act, bool accumulate, cudaStream_t s)
{
    if (act == ACT_RELU)
        relu_mask_k<<<nb(n * out), 128, 0, s>>>(dy, y, n * out);
    fc_dw_k<<<nb(in * out), 128, 0, s>>>(x, dy, dw, db, n, in, out);
    if (dx)
        fc_dx_k<<<nb(n * in), 128, 0, s>>>(w, dy, dx, n, in, out, accumulate);
}

void reparameterize(const float *mu, const float *logvar, const float *eps, float *z, int n, cudaStream_t s)
{
    reparam_k<<<nb(n), 128, 0, s>>>(mu, logvar, eps, z, n);
}

void latent_backward(const float *mu, const float *logvar, const float *eps, const float *dz, float *dmu, float *dlogvar,
                     int n, cudaStream_t s)
{
    latent_back_k<<<nb(n), 128, 0, s>>>(mu, logvar, eps, dz, dmu, dlogvar, n);
}

void elbo(const float *recon, const float *x, const float *mu, const float *logvar, float *dlogits, float *loss, int n,
          int dim, int latent, cudaStream_t s)
{
    elbo_k<<<nb(n), 128, 0, s>>>(recon, x, mu, logvar, dlogits, loss, n, dim, latent);
}

void adam(float *p, const float *g, float *m, float *v, int n, float lr, int t, cudaStream_t s)
{
    adam_k<<<nb(n), 128, 0, s>>>(p, g, m, v, n, lr / (1.f - powf(0.9f, t)), 1.f - powf(0.999f, t));
}
