#include "nn.h"
#include <cmath>
#include <cuda_runtime.h>
#include <random>

namespace nn {

static std::default_random_engine engine(5);

static float *alloc(int n)
{
    float *p = nullptr;
    cudaMalloc((void **)&p, sizeof(float) * n);
    cudaMemset(p, 0, sizeof(float) * n);
    return p;
}

static float *allocNormal(int n, float sd)
{
    float *p = alloc(n);
    std::normal_distribution<float> g(0, sd);
    std::vector<float> h(n);
    for (int i = 0; i < n; ++i) h[i] = g(engine);
    cudaMemcpy(p, h.data(), sizeof(float) * n, cudaMemcpyHostToDevice);
    return p;
}

static int gridFor(int n) { return (n + 127) / 128; }

// ---------------------------------------------------------------- conv1d
// layout: [batch][channel][position], zero padding keeps the length
__global__ void convForward(const float *x, const float *w, const float *b, float *y, int B, int ci, int co, int L, int K)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= B * co * L) return;
    int l = t % L, o = t / L % co, n = t / (L * co);
    float s = b[o];
    for (int c = 0; c < ci; ++c)
        for (int k = 0; k < K; ++k) {
            int p = l + k - K / 2;
            if (p >= 0 && p < L) s += x[(n * ci + c) * L + p] * w[(o * ci + c) * K + k];
        }
    y[t] = s;
}

__global__ void convWeightGrad(const float *x, const float *dy, float *dw, float *db, int B, int ci, int co, int L, int K)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= co * ci * K) return;
    int k = t % K, c = t / K % ci, o = t / (K * ci);
    float s = 0, sb = 0;
    for (int n = 0; n < B; ++n)
        for (int l = 0; l < L; ++l) {
            float g = dy[(n * co + o) * L + l];
            int p = l + k - K / 2;
            if (p >= 0 && p < L) s += g * x[(n * ci + c) * L + p];
            sb += g;
        }
    dw[t] += s;
    if (c == 0 && k == 0) db[o] += sb;
}

__global__ void convInputGrad(const float *dy, const float *w, float *dx, int B, int ci, int co, int L, int K)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= B * ci * L) return;
    int p = t % L, c = t / L % ci, n = t / (L * ci);
    float s = 0;
    for (int o = 0; o < co; ++o)
        for (int k = 0; k < K; ++k) {
            int l = p - k + K / 2;
            if (l >= 0 && l < L) s += dy[(n * co + o) * L + l] * w[(o * ci + c) * K + k];
        }
    dx[t] = s;
}

class Conv1d : public Module {
    std::string name;
    int ci, co, L, K;
    float *w, *b, *gw, *gb, *y, *dx;
    const float *in = nullptr;

public:
    Conv1d(const std::string &n, int ci_, int co_, int L_, int K_, int maxB) : name(n), ci(ci_), co(co_), L(L_), K(K_)
    {
        w = allocNormal(co * ci * K, sqrtf(2.f / (ci * K)));
        gw = alloc(co * ci * K);
        b = alloc(co);
        gb = alloc(co);
        y = alloc(maxB * co * L);
        dx = alloc(maxB * ci * L);
    }
    const float *forward(const float *x, int B) override
    {
        in = x;
        convForward<<<gridFor(B * co * L), 128>>>(x, w, b, y, B, ci, co, L, K);
        return y;
    }
    const float *backward(const float *dy, int B) override
    {
        convWeightGrad<<<gridFor(co * ci * K), 128>>>(in, dy, gw, gb, B, ci, co, L, K);
        convInputGrad<<<gridFor(B * ci * L), 128>>>(dy, w, dx, B, ci, co, L, K);
        return dx;
    }
    void collect(std::vector<Parameter> &out) override
    {
        out.push_back({name + ".weight", w, gw, co * ci * K});
        out.push_back({name + ".bias", b, gb, co});
    }
};

// ---------------------------------------------------------------- relu
__global__ void reluF(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] > 0 ? x[i] : 0;
}
__global__ void reluB(const float *y, const float *dy, float *dx, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dx[i] = y[i] > 0 ? dy[i] : 0;
}
class Relu : public Module {
    int width;
    float *y, *dx;

public:
    Relu(int w, int maxB) : width(w), y(alloc(w * maxB)), dx(alloc(w * maxB)) {}
    const float *forward(const float *x, int B) override
    {
        reluF<<<gridFor(B * width), 128>>>(x, y, B * width);
        return y;
    }
    const float *backward(const float *dy, int B) override
    {
        reluB<<<gridFor(B * width), 128>>>(y, dy, dx, B * width);
        return dx;
    }
};

// ---------------------------------------------------------------- mean over positions
__global__ void poolF(const float *x, float *y, int n, int L)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = 0;
    for (int l = 0; l < L; ++l) s += x[i * L + l];
    y[i] = s / L;
}
__global__ void poolB(const float *dy, float *dx, int n, int L)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * L) dx[i] = dy[i / L] / L;
}
class MeanPool : public Module {
    int C, L;
    float *y, *dx;

public:
    MeanPool(int c, int l, int maxB) : C(c), L(l), y(alloc(c * maxB)), dx(alloc(c * l * maxB)) {}
    const float *forward(const float *x, int B) override
    {
        poolF<<<gridFor(B * C), 128>>>(x, y, B * C, L);
        return y;
    }
    const float *backward(const float *dy, int B) override
    {
        poolB<<<gridFor(B * C * L), 128>>>(dy, dx, B * C, L);
        return dx;
    }
};

Module *conv1d(const std::string &n, int ci, int co, int L, int K, int B) { return new Conv1d(n, ci, co, L, K, B); }
Module *relu(int w, int B) { return new Relu(w, B); }
Module *meanPool(int c, int l, int B) { return new MeanPool(c, l, B); }
// a dense layer is a convolution over one position
Module *dense(const std::string &n, int in, int out, int B) { return new Conv1d(n, in, out, 1, 1, B); }

}  // namespace nn
