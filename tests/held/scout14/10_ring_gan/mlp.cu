#include "mlp.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define BLOCKS(n) ((n) + 127) / 128, 128

__global__ void fc(const float *x, const float *w, const float *b, float *y, int n, int in, int out, float leak)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * out)
        return;
    float s = b[i % out];
    for (int k = 0; k < in; k++)
        s += x[i / out * in + k] * w[i % out * in + k];
    y[i] = s < 0 ? leak * s : s;
}

__global__ void fc_weights(const float *x, const float *dy, float *gw, float *gb, int n, int in, int out)
{
    int o = blockIdx.x, k = threadIdx.x; // k == in: the bias
    float s = 0;
    for (int r = 0; r < n; r++)
        s += dy[r * out + o] * (k < in ? x[r * in + k] : 1.f);
    if (k < in)
        gw[o * in + k] = s;
    else
        gb[o] = s;
}

__global__ void fc_input(const float *dy, const float *w, const float *x, float *dx, int n, int in, int out, float leak)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * in)
        return;
    float s = 0;
    for (int o = 0; o < out; o++)
        s += dy[i / in * out + o] * w[o * in + i % in];
    dx[i] = x[i] < 0 ? leak * s : s;
}

__global__ void adam(float *p, const float *g, float *m, float *v, int n, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    m[i] = 0.5f * m[i] + 0.5f * g[i];
    v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
    p[i] -= rate * m[i] / (sqrtf(v[i]) + 1e-6f);
}

static float *get(int n)
{
    float *p;
    if (cudaMalloc(&p, n * sizeof(float)) != cudaSuccess) {
        std::fprintf(stderr, "no memory\n");
        std::exit(1);
    }
    cudaMemset(p, 0, n * sizeof(float));
    return p;
}

Mlp::Mlp(const std::vector<int> &sizes, int capacity, std::mt19937 &rng)
{
    for (size_t i = 0; i + 1 < sizes.size(); i++) {
        Layer l;
        l.in = sizes[i];
        l.out = sizes[i + 1];
        l.w = get(l.in * l.out), l.gw = get(l.in * l.out), l.mw = get(l.in * l.out), l.vw = get(l.in * l.out);
        l.b = get(l.out), l.gb = get(l.out), l.mb = get(l.out), l.vb = get(l.out);
        l.y = get(capacity * l.out), l.dx = get(capacity * l.in);
        std::vector<float> h(l.in * l.out);
        std::normal_distribution<float> normal(0.f, std::sqrt(1.5f / l.in));
        for (float &x : h)
            x = normal(rng);
        cudaMemcpy(l.w, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice);
        layers_.push_back(l);
    }
}

Mlp::~Mlp()
{
    for (Layer &l : layers_)
        for (float *p : {l.w, l.b, l.gw, l.gb, l.mw, l.mb, l.vw, l.vb, l.y, l.dx})
            cudaFree(p);
}

float *Mlp::forward(const float *input, int n)
{
    const float *x = input_ = input;
    for (Layer &l : layers_) {
        fc<<<BLOCKS(n * l.out)>>>(x, l.w, l.b, l.y, n, l.in, l.out, &l == &layers_.back() ? 1.f : 0.2f);
        x = l.y;
    }
    return layers_.back().y;
}

float *Mlp::backward(const float *grad, int n, bool weights)
{
    for (int i = (int)layers_.size() - 1; i >= 0; i--) {
        Layer &l = layers_[i];
        const float *x = i > 0 ? layers_[i - 1].y : input_;
        if (weights)
            fc_weights<<<l.out, l.in + 1>>>(x, grad, l.gw, l.gb, n, l.in, l.out);
        fc_input<<<BLOCKS(n * l.in)>>>(grad, l.w, x, l.dx, n, l.in, l.out, i > 0 ? 0.2f : 1.f);
        grad = l.dx;
    }
    return layers_[0].dx;
}

void Mlp::step(float rate)
{
    t_++;
    float r = rate * std::sqrt(1.f - std::pow(0.99f, (float)t_)) / (1.f - std::pow(0.5f, (float)t_));
    for (Layer &l : layers_) {
        adam<<<BLOCKS(l.in * l.out)>>>(l.w, l.gw, l.mw, l.vw, l.in * l.out, r);
        adam<<<BLOCKS(l.out)>>>(l.b, l.gb, l.mb, l.vb, l.out, r);
    }
}
