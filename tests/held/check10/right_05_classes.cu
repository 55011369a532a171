// Classifier with a normalised hidden layer; statistics of the whole batch, learned scale and shift.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

namespace cfg {
const int in = 16, hid = 20, cls = 4, batch = 48, rows = 480;
const float eps = 1e-4f;
}

__device__ __host__ static unsigned mix(unsigned x)
{
    x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; x ^= x >> 16;
    return x;
}
static float unit(unsigned i) { return (mix(i + 0x51ed270bu) >> 8) / 16777216.0f; }

struct Layer { float *w, *g, *m; int n; };
static Layer make(const std::vector<float> &init)
{
    Layer l;
    l.n = (int)init.size();
    cudaMalloc(&l.w, l.n * 4);
    cudaMalloc(&l.g, l.n * 4);
    cudaMalloc(&l.m, l.n * 4);
    cudaMemset(l.m, 0, l.n * 4);
    cudaMemcpy(l.w, init.data(), l.n * 4, cudaMemcpyHostToDevice);
    DDP_PARAMETER(l.w, l.n, DDP_FLOAT32);
    DDP_STATE(l.m, l.n, DDP_FLOAT32);
    DDP_GRADIENT(l.g, l.n, DDP_FLOAT32);
    return l;
}

__global__ void project(const float *x, const float *w, float *a)
{
    int i = blockIdx.x, k = threadIdx.x;
    float s = 0;
    for (int j = 0; j < cfg::in; ++j) s += x[i * cfg::in + j] * w[j * cfg::hid + k];
    a[i * cfg::hid + k] = s;
}
// st: [0] sum, [1] sum of squares
__global__ void moments(const float *a, float *st, int n)
{
    int k = threadIdx.x;
    float s = 0, q = 0;
    for (int i = 0; i < n; ++i) { s += a[i * cfg::hid + k]; q += a[i * cfg::hid + k] * a[i * cfg::hid + k]; }
    st[k] = s;
    st[cfg::hid + k] = q;
}
__global__ void normalise(const float *a, const float *st, const float *gamma, const float *beta, float *xhat, float *y, float total)
{
    int i = blockIdx.x * cfg::hid + threadIdx.x, k = threadIdx.x;
    float mu = st[k] / total, var = st[cfg::hid + k] / total - mu * mu;
    xhat[i] = (a[i] - mu) * rsqrtf(var + cfg::eps);
    y[i] = tanhf(gamma[k] * xhat[i] + beta[k]);
}
__global__ void head(const float *y, const float *v, const int *label, float *dz, float *loss, int n)
{
    int i = threadIdx.x;
    if (i >= n) return;
    float z[cfg::cls], top = -1e30f, s = 0;
    for (int c = 0; c < cfg::cls; ++c) {
        z[c] = 0;
        for (int k = 0; k < cfg::hid; ++k) z[c] += y[i * cfg::hid + k] * v[k * cfg::cls + c];
        top = fmaxf(top, z[c]);
    }
    for (int c = 0; c < cfg::cls; ++c) s += expf(z[c] - top);
    for (int c = 0; c < cfg::cls; ++c) dz[i * cfg::cls + c] = (expf(z[c] - top) / s - (label[i] == c)) / n;
    loss[i] = logf(s) + top - z[label[i]];
}
__global__ void head_gradient(const float *y, const float *dz, float *gv, int n)
{
    float s = 0;
    for (int i = 0; i < n; ++i) s += y[i * cfg::hid + blockIdx.x] * dz[i * cfg::cls + threadIdx.x];
    gv[blockIdx.x * cfg::cls + threadIdx.x] = s;
}
__global__ void to_hidden(const float *dz, const float *v, const float *y, float *d)
{
    int i = blockIdx.x, k = threadIdx.x;
    float s = 0, o = y[i * cfg::hid + k];
    for (int c = 0; c < cfg::cls; ++c) s += dz[i * cfg::cls + c] * v[k * cfg::cls + c];
    d[i * cfg::hid + k] = s * (1 - o * o);
}
__global__ void scale_gradients(const float *d, const float *xhat, float *ggamma, float *gbeta, float *bs, int n)
{
    int k = threadIdx.x;
    float s = 0, q = 0;
    for (int i = 0; i < n; ++i) { s += d[i * cfg::hid + k]; q += d[i * cfg::hid + k] * xhat[i * cfg::hid + k]; }
    gbeta[k] = s;
    ggamma[k] = q;
    bs[k] = s;
    bs[cfg::hid + k] = q;
}
__global__ void through_norm(float *d, const float *xhat, const float *st, const float *bs, const float *gamma, float total)
{
    int i = blockIdx.x * cfg::hid + threadIdx.x, k = threadIdx.x;
    float mu = st[k] / total, var = st[cfg::hid + k] / total - mu * mu;
    d[i] = gamma[k] * rsqrtf(var + cfg::eps) * (d[i] - (bs[k] + xhat[i] * bs[cfg::hid + k]) / total);
}
__global__ void project_gradient(const float *x, const float *d, float *g, int n)
{
    float s = 0;
    for (int i = 0; i < n; ++i) s += x[i * cfg::in + blockIdx.x] * d[i * cfg::hid + threadIdx.x];
    g[blockIdx.x * cfg::hid + threadIdx.x] = s;
}
__global__ void learn(float *w, float *m, const float *g, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { m[i] = 0.8f * m[i] + g[i]; w[i] -= rate * m[i]; }
}

int main(int argc, char **argv)
{
    using namespace cfg;
    const int steps = argc > 2 ? atoi(argv[2]) : 60;
    std::vector<float> x(rows * in), w(in * hid), v(hid * cls);
    std::vector<int> y(rows);
    for (int i = 0; i < rows; ++i) {
        y[i] = (int)(unit(i) * cls);
        for (int j = 0; j < in; ++j)
            x[i * in + j] = 3 * unit(70000 + y[i] * in + j) * (1 + 0.2f * j) + 4 * (unit(100000 + i * in + j) - 0.5f);
    }
    for (int i = 0; i < in * hid; ++i) w[i] = unit(500000 + i) - 0.5f;
    for (int i = 0; i < hid * cls; ++i) v[i] = 0.6f * (unit(600000 + i) - 0.5f);
    float *dx, *a, *xhat, *act, *st, *bs, *dz, *d, *loss;
    int *dy;
    cudaMalloc(&dx, x.size() * 4); cudaMalloc(&dy, rows * 4);
    for (float **p : {&a, &xhat, &act, &d}) cudaMalloc(p, batch * hid * 4);
    for (float **p : {&st, &bs}) cudaMalloc(p, 2 * hid * 4);
    cudaMalloc(&dz, batch * cls * 4); cudaMalloc(&loss, batch * 4);
    cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), rows * 4, cudaMemcpyHostToDevice);
    Layer W = make(w), gamma = make(std::vector<float>(hid, 1.0f)), beta = make(std::vector<float>(hid, 0.0f)), V = make(v);
    Layer *all[] = {&W, &gamma, &beta, &V};

    for (int s = 0; s < steps; ++s) {
        size_t first, count;
        DDP_SHARD(batch, &first, &count);
        int n = (int)count, at = s * batch % rows + (int)first;
        const float *xb = dx + at * in;
        project<<<n, hid>>>(xb, W.w, a);
        moments<<<1, hid>>>(a, st, n);
        DDP_REDUCE(st, 2 * hid, DDP_FLOAT32, DDP_OP_SUM, 0);
        normalise<<<n, hid>>>(a, st, gamma.w, beta.w, xhat, act, (float)batch);
        head<<<1, batch>>>(act, V.w, dy + at, dz, loss, n);
        head_gradient<<<hid, cls>>>(act, dz, V.g, n);
        to_hidden<<<n, hid>>>(dz, V.w, act, d);
        scale_gradients<<<1, hid>>>(d, xhat, gamma.g, beta.g, bs, n);
        DDP_REDUCE(bs, 2 * hid, DDP_FLOAT32, DDP_OP_SUM, 0);
        through_norm<<<n, hid>>>(d, xhat, st, bs, gamma.w, (float)batch);
        project_gradient<<<in, hid>>>(xb, d, W.g, n);
        DDP_STEP(0);
        for (Layer *l : all) learn<<<(l->n + 31) / 32, 32>>>(l->w, l->m, l->g, 0.05f, l->n);
        if (s % 20 == 19 || s == 0) {
            std::vector<float> h(n);
            cudaMemcpy(h.data(), loss, n * 4, cudaMemcpyDeviceToHost);
            float mean = 0;
            for (float q : h) mean += q / n;
            DDP_MEAN(&mean);
            printf("step %d loss %.4f\n", s + 1, mean);
        }
    }
    FILE *f = argc > 1 && DDP_RANK() == 0 ? fopen(argv[1], "wb") : nullptr;
    for (Layer *l : all) {
        std::vector<float> h(l->n);
        cudaMemcpy(h.data(), l->w, l->n * 4, cudaMemcpyDeviceToHost);
        if (f) fwrite(h.data(), 4, h.size(), f);
    }
    if (f) fclose(f);
    return 0;
}
