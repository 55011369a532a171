// Regression with a residual block on heavy-tailed targets. Gradient norm is limited; every module owns its tensors.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>
#include "ddprun.h"

constexpr int D = 14, H = 20, BATCH = 32, N = 384;

struct Lcg {
    unsigned s;
    float operator()() { s = s * 1664525u + 1013904223u; return (s >> 8) / 16777216.0f; }
};

__global__ void affine(const float *x, const float *w, const float *b, float *y, int in, int out)
{
    int i = blockIdx.x, k = threadIdx.x;
    float s = b[k];
    for (int j = 0; j < in; ++j) s += x[i * in + j] * w[j * out + k];
    y[i * out + k] = s;
}
__global__ void affine_dx(const float *dy, const float *w, float *dx, int in, int out, int accumulate)
{
    int i = blockIdx.x, j = threadIdx.x;
    float s = 0;
    for (int k = 0; k < out; ++k) s += dy[i * out + k] * w[j * out + k];
    dx[i * in + j] = accumulate ? dx[i * in + j] + s : s;
}
__global__ void affine_dw(const float *x, const float *dy, float *dw, float *db, int in, int out, int n)
{
    int j = blockIdx.x, k = threadIdx.x;
    float s = 0;
    for (int i = 0; i < n; ++i) s += (j < in ? x[i * in + j] : 1.0f) * dy[i * out + k];
    if (j < in) dw[j * out + k] = s;
    else db[k] = s;
}
__global__ void gelu_like(const float *a, float *y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = a[i] / (1 + expf(-1.7f * a[i])); }
__global__ void gelu_like_back(const float *a, float *d, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = 1 / (1 + expf(-1.7f * a[i]));
    d[i] *= s + 1.7f * a[i] * s * (1 - s);
}
__global__ void add(const float *a, const float *b, float *c, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) c[i] = a[i] + b[i]; }
__global__ void squared(const float *y, const float *t, float *d, float *loss, int n)
{
    int i = threadIdx.x;
    if (i < n) { float e = y[i] - t[i]; d[i] = e / n; loss[i] = 0.5f * e * e; }
}
__global__ void sum_of_squares(const float *g, int n, float *acc)
{
    __shared__ float part[64];
    float s = 0;
    for (int i = threadIdx.x; i < n; i += 64) s += g[i] * g[i];
    part[threadIdx.x] = s;
    __syncthreads();
    if (threadIdx.x == 0) { for (int k = 1; k < 64; ++k) s += part[k]; *acc += s; }
}
__global__ void limit(float *g, int n, const float *acc, float most)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float norm = sqrtf(*acc);
    if (i < n && norm > most) g[i] *= most / norm;
}
__global__ void adam(float *w, const float *g, float *m, float *v, float lr, float c1, float c2, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
    w[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-4f);
}

struct Linear {
    int in, out;
    float *w, *b, *dw, *db, *m, *v;
    Linear(int in_, int out_, Lcg &rng) : in(in_), out(out_)
    {
        int n = in * out + out;
        std::vector<float> h(n, 0.0f);
        for (int i = 0; i < in * out; ++i) h[i] = (2 * rng() - 1) / std::sqrt((float)in);
        cudaMalloc(&w, n * 4); cudaMalloc(&dw, n * 4); cudaMalloc(&m, n * 4); cudaMalloc(&v, n * 4);
        b = w + in * out;
        db = dw + in * out;
        cudaMemcpy(w, h.data(), n * 4, cudaMemcpyHostToDevice);
        cudaMemset(m, 0, n * 4); cudaMemset(v, 0, n * 4);
        DDP_PARAMETER(w, n, DDP_FLOAT32);
        DDP_STATE(m, n, DDP_FLOAT32);
        DDP_STATE(v, n, DDP_FLOAT32);
        DDP_GRADIENT(dw, n, DDP_FLOAT32);
    }
    int size() const { return in * out + out; }
    void forward(const float *x, float *y, int n) const { affine<<<n, out>>>(x, w, b, y, in, out); }
    void backward(const float *x, const float *dy, float *dx, bool add_to, int n) const
    {
        affine_dw<<<in + 1, out>>>(x, dy, dw, db, in, out, n);
        if (dx) affine_dx<<<n, in>>>(dy, w, dx, in, out, add_to);
    }
};

int main(int argc, char **argv)
{
    int steps = argc > 2 ? std::atoi(argv[2]) : 60;
    Lcg rng{31337};
    std::vector<float> x(N * D), t(N), lh(BATCH);
    for (int i = 0; i < N; ++i) {
        float s = 0;
        for (int j = 0; j < D; ++j) { x[i * D + j] = 2 * rng() - 1; s += x[i * D + j] * (j % 2 ? 1.0f : -0.7f); }
        t[i] = 1.5f * std::sin(s) + s;
        if (rng() < 0.12f) t[i] *= 5.0f;
    }
    float *dx_, *dt;
    cudaMalloc(&dx_, N * D * 4); cudaMalloc(&dt, N * 4);
    cudaMemcpy(dx_, x.data(), N * D * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dt, t.data(), N * 4, cudaMemcpyHostToDevice);
    Linear first_layer(D, H, rng), mid(H, H, rng), last(H, 1, rng);
    Linear *layers[] = {&first_layer, &mid, &last};
    float *a0, *a1, *u, *r, *y, *dy, *dr, *du, *loss, *acc;
    for (float **p : {&a0, &a1, &u, &r, &y, &dy, &dr, &du, &loss, &acc}) cudaMalloc(p, BATCH * H * 4);

    for (int it = 1; it <= steps; ++it) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count, e = n * H, blocks = (e + 63) / 64;
        size_t at = (size_t)((it - 1) * BATCH % N) + first;
        const float *xb = dx_ + at * D;
        first_layer.forward(xb, a0, n);
        mid.forward(a0, a1, n);
        gelu_like<<<blocks, 64>>>(a1, u, e);
        add<<<blocks, 64>>>(a0, u, r, e);
        last.forward(r, y, n);
        squared<<<1, BATCH>>>(y, dt + at, dy, loss, n);
        last.backward(r, dy, dr, false, n);
        cudaMemcpyAsync(du, dr, e * 4, cudaMemcpyDeviceToDevice, 0);
        gelu_like_back<<<blocks, 64>>>(a1, du, e);
        mid.backward(a0, du, dr, true, n);
        first_layer.backward(xb, dr, nullptr, false, n);
        cudaMemsetAsync(acc, 0, 4, 0);
        for (Linear *l : layers) sum_of_squares<<<1, 64>>>(l->dw, l->size(), acc);
        for (Linear *l : layers) limit<<<(l->size() + 63) / 64, 64>>>(l->dw, l->size(), acc, 1.0f);
        DDP_STEP(0);
        for (Linear *l : layers)
            adam<<<(l->size() + 63) / 64, 64>>>(l->w, l->dw, l->m, l->v, 0.02f, 1 - std::pow(0.9f, it), 1 - std::pow(0.99f, it), l->size());
        if (it % 12 == 0) {
            cudaMemcpy(lh.data(), loss, n * 4, cudaMemcpyDeviceToHost);
            float sum = 0;
            for (int i = 0; i < n; ++i) sum += lh[i] / n;
            DDP_MEAN(&sum);
            std::printf("it %d loss %.4f\n", it, sum);
        }
    }
    FILE *f = argc > 1 && DDP_RANK() == 0 ? std::fopen(argv[1], "wb") : nullptr;
    for (Linear *l : layers) {
        std::vector<float> h(l->size());
        cudaMemcpy(h.data(), l->w, h.size() * 4, cudaMemcpyDeviceToHost);
        if (f) std::fwrite(h.data(), 4, h.size(), f);
    }
    if (f) std::fclose(f);
    return 0;
}
