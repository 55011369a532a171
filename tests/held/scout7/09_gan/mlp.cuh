#pragma once
#include <cuda_runtime.h>
#include <cmath>
#include <random>
#include <vector>

__global__ void fc_forward(const float *x, const float *w, const float *b, float *y, int n, int in, int out, float slope)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * out) return;
    int r = i / out, c = i % out;
    float s = b[c];
    for (int k = 0; k < in; k++) s += x[r * in + k] * w[k * out + c];
    y[i] = s > 0 ? s : slope * s;
}

__global__ void fc_act_backward(const float *y, float *dy, int n, float slope)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && y[i] < 0) dy[i] *= slope;
}

// accumulates: the discriminator sees a real and a fake batch before it moves
__global__ void fc_param_backward(const float *x, const float *dy, float *dw, float *db, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= in * out) return;
    int k = i / out, c = i % out;
    float s = 0, sb = 0;
    for (int r = 0; r < n; r++) {
        s += x[r * in + k] * dy[r * out + c];
        sb += dy[r * out + c];
    }
    dw[i] += s;
    if (k == 0) db[c] += sb;
}

__global__ void fc_input_backward(const float *dy, const float *w, float *dx, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * in) return;
    int r = i / in, k = i % in;
    float s = 0;
    for (int c = 0; c < out; c++) s += dy[r * out + c] * w[k * out + c];
    dx[i] = s;
}

__global__ void adam_step(float *w, float *g, float *m, float *v, float lr, float b1, float b2, float c1, float c2, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = b1 * m[i] + (1 - b1) * g[i];
    v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
    w[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-8f);
    g[i] = 0; // ready for the next pass
}

class MLP {
    struct L {
        int in, out;
        float slope;
        float *w, *b, *dw, *db, *m[2], *v[2], *y, *dy;
    };
    std::vector<L> layers;
    int t = 0;
    const float *input = nullptr;
    float *dinput = nullptr;

    static float *alloc(int n)
    {
        float *p;
        cudaMalloc(&p, n * sizeof(float));
        cudaMemset(p, 0, n * sizeof(float));
        return p;
    }

public:
    MLP(const std::vector<int> &dims, int batch, unsigned seed)
    {
        std::mt19937 g(seed);
        for (size_t i = 0; i + 1 < dims.size(); i++) {
            L l;
            l.in = dims[i];
            l.out = dims[i + 1];
            l.slope = i + 2 == dims.size() ? 1.f : 0.2f;
            std::normal_distribution<float> d(0.f, std::sqrt(2.f / l.in));
            std::vector<float> h(l.in * l.out);
            for (auto &x : h) x = d(g);
            l.w = alloc(l.in * l.out);
            cudaMemcpy(l.w, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice);
            l.b = alloc(l.out);
            l.dw = alloc(l.in * l.out);
            l.db = alloc(l.out);
            l.m[0] = alloc(l.in * l.out);
            l.v[0] = alloc(l.in * l.out);
            l.m[1] = alloc(l.out);
            l.v[1] = alloc(l.out);
            l.y = alloc(batch * l.out);
            l.dy = alloc(batch * l.out);
            layers.push_back(l);
        }
        dinput = alloc(batch * dims[0]);
    }
    float *forward(const float *x, int n)
    {
        input = x;
        for (auto &l : layers) {
            fc_forward<<<(n * l.out + 127) / 128, 128>>>(x, l.w, l.b, l.y, n, l.in, l.out, l.slope);
            x = l.y;
        }
        return layers.back().y;
    }
    float *outputGrad() { return layers.back().dy; }
    // params == false: only pass the gradient through
    float *backward(int n, bool params = true)
    {
        for (int i = (int)layers.size() - 1; i >= 0; i--) {
            L &l = layers[i];
            const float *x = i ? layers[i - 1].y : input;
            float *dx = i ? layers[i - 1].dy : dinput;
            fc_act_backward<<<(n * l.out + 127) / 128, 128>>>(l.y, l.dy, n * l.out, l.slope);
            if (params)
                fc_param_backward<<<(l.in * l.out + 127) / 128, 128>>>(x, l.dy, l.dw, l.db, n, l.in, l.out);
            fc_input_backward<<<(n * l.in + 127) / 128, 128>>>(l.dy, l.w, dx, n, l.in, l.out);
        }
        return dinput;
    }
    void step(float lr)
    {
        t++;
        float c1 = 1 - std::pow(0.5f, t), c2 = 1 - std::pow(0.999f, t);
        for (auto &l : layers) {
            adam_step<<<(l.in * l.out + 127) / 128, 128>>>(l.w, l.dw, l.m[0], l.v[0], lr, 0.5f, 0.999f, c1, c2, l.in * l.out);
            adam_step<<<(l.out + 127) / 128, 128>>>(l.b, l.db, l.m[1], l.v[1], lr, 0.5f, 0.999f, c1, c2, l.out);
        }
    }
};
