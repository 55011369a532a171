#pragma once
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

inline void cudaTry(cudaError_t e)
{
    if (e == cudaSuccess) return;
    std::fprintf(stderr, "cuda: %s\n", cudaGetErrorString(e));
    std::exit(1);
}

struct Identity {
    static __device__ float f(float x) { return x; }
    static __device__ float df(float) { return 1.f; } // from the output
};
struct Elu {
    static __device__ float f(float x) { return x > 0.f ? x : expf(x) - 1.f; }
    static __device__ float df(float y) { return y > 0.f ? 1.f : y + 1.f; }
};

// A piece of trainable memory.
struct Slice {
    float *w, *g, *cache;
    int n;
};

template <int IN, int OUT, class Act>
__global__ void linearForward(const float *x, const float *w, const float *b, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * OUT) return;
    float s = b[i % OUT];
    for (int k = 0; k < IN; ++k) s += x[i / OUT * IN + k] * w[k * OUT + i % OUT];
    y[i] = Act::f(s);
}

// d: gradient of the output, which becomes that of the sum inside
template <int IN, int OUT, class Act> __global__ void linearInside(const float *y, float *d, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * OUT) d[i] *= Act::df(y[i]);
}

template <int IN, int OUT> __global__ void linearGradient(const float *x, const float *d, float *gw, float *gb, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (IN + 1) * OUT) return;
    float s = 0.f;
    for (int r = 0; r < n; ++r) s += d[r * OUT + i % OUT] * (i < IN * OUT ? x[r * IN + i / OUT] : 1.f);
    if (i < IN * OUT)
        gw[i] += s;
    else
        gb[i - IN * OUT] += s;
}

template <int IN, int OUT> __global__ void linearInput(const float *d, const float *w, float *dx, int n, bool add)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * IN) return;
    float s = add ? dx[i] : 0.f;
    for (int o = 0; o < OUT; ++o) s += d[i / IN * OUT + o] * w[i % IN * OUT + o];
    dx[i] = s;
}

template <int IN, int OUT, class Act> class Linear {
public:
    Linear(int rows, std::mt19937 &rng)
    {
        std::vector<float> h(IN * OUT);
        std::uniform_real_distribution<float> u(-std::sqrt(3.f / IN), std::sqrt(3.f / IN));
        for (float &v : h) v = u(rng);
        for (float **p : {&w_.w, &w_.g, &w_.cache}) *p = zeros(IN * OUT);
        for (float **p : {&b_.w, &b_.g, &b_.cache}) *p = zeros(OUT);
        w_.n = IN * OUT;
        b_.n = OUT;
        cudaTry(cudaMemcpy(w_.w, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice));
        y = zeros(rows * OUT);
        d = zeros(rows * OUT);
    }
    void forward(const float *x, int n) { linearForward<IN, OUT, Act><<<blocks(n * OUT), 64>>>(x, w_.w, b_.w, y, n); }
    void backward(const float *x, float *dx, int n, bool add = false)
    {
        linearInside<IN, OUT, Act><<<blocks(n * OUT), 64>>>(y, d, n);
        linearGradient<IN, OUT><<<blocks((IN + 1) * OUT), 64>>>(x, d, w_.g, b_.g, n);
        if (dx) linearInput<IN, OUT><<<blocks(n * IN), 64>>>(d, w_.w, dx, n, add);
    }
    void collect(std::vector<Slice> &all) const
    {
        all.push_back(w_);
        all.push_back(b_);
    }
    static int blocks(int n) { return (n + 63) / 64; }
    static float *zeros(int n)
    {
        float *p;
        cudaTry(cudaMalloc(&p, n * sizeof(float)));
        cudaTry(cudaMemset(p, 0, n * sizeof(float)));
        return p;
    }
    float *y, *d;

private:
    Slice w_, b_;
};
