// A three-layer network with layer normalisation in one arena of parameters; Nesterov momentum; ten ore classes.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include "ddprun.h"

struct Shape { int in, out; };
static const int kLayers = 3, kBatch = 40, kItems = 1200, kInputs = 20, kClasses = 7, kWide = 28;
static const Shape kShape[kLayers] = {{kInputs, kWide}, {kWide, kWide}, {kWide, kClasses}};

// The arena: the weights of all layers, then the biases of all layers, then the gain of the normalisation.
struct Arena {
    float *value = nullptr, *grad = nullptr, *momentum = nullptr;
    size_t weights = 0, total = 0, w[kLayers], b[kLayers], gain;
    Arena()
    {
        for (int l = 0; l < kLayers; ++l) { w[l] = total; total += kShape[l].in * kShape[l].out; }
        weights = total;
        for (int l = 0; l < kLayers; ++l) { b[l] = total; total += kShape[l].out; }
        gain = total;
        total += kWide;
        cudaMalloc(&value, total * sizeof(float));
        cudaMalloc(&grad, total * sizeof(float));
        cudaMalloc(&momentum, total * sizeof(float));
        cudaMemset(grad, 0, total * sizeof(float));
        cudaMemset(momentum, 0, total * sizeof(float));
    }
};

__global__ void affine(const float *x, const float *w, const float *b, float *y, int rows, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * out) return;
    float a = b[i % out];
    for (int k = 0; k < in; ++k) a += x[i / out * in + k] * w[k * out + i % out];
    y[i] = a;
}

__global__ void relu(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}

__global__ void relu_back(const float *y, float *d, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && y[i] <= 0) d[i] = 0;
}

// y = gain * x / rms(x)
__global__ void rms_norm(const float *x, const float *gain, float *y, float *inv, int rows, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float s = 0;
    for (int k = 0; k < n; ++k) s += x[r * n + k] * x[r * n + k];
    inv[r] = rsqrtf(s / n + 1e-5f);
    for (int k = 0; k < n; ++k) y[r * n + k] = gain[k] * x[r * n + k] * inv[r];
}

__global__ void rms_norm_back(const float *x, const float *gain, const float *inv, const float *dy, float *dx, int rows, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float s = 0;
    for (int k = 0; k < n; ++k) s += dy[r * n + k] * gain[k] * x[r * n + k];
    for (int k = 0; k < n; ++k)
        dx[r * n + k] = inv[r] * (gain[k] * dy[r * n + k] - x[r * n + k] * inv[r] * inv[r] * s / n);
}

__global__ void gain_gradient(const float *x, const float *inv, const float *dy, float *g, int rows, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n) return;
    float a = 0;
    for (int r = 0; r < rows; ++r) a += dy[r * n + k] * x[r * n + k] * inv[r];
    g[k] = a;
}

__global__ void cross_entropy(const float *z, const int *label, float *d, float *nll, int rows, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float top = -1e30f, sum = 0;
    for (int c = 0; c < n; ++c) top = fmaxf(top, z[r * n + c]);
    for (int c = 0; c < n; ++c) sum += expf(z[r * n + c] - top);
    nll[r] = logf(sum) + top - z[r * n + label[r]];
    for (int c = 0; c < n; ++c) d[r * n + c] = (expf(z[r * n + c] - top) / sum - (label[r] == c)) / rows;
}

__global__ void affine_back(const float *x, const float *d, float *gw, float *gb, int rows, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (in + 1) * out) return;
    int k = i / out, j = i % out;
    float a = 0;
    for (int r = 0; r < rows; ++r) a += (k < in ? x[r * in + k] : 1.0f) * d[r * out + j];
    if (k < in) gw[i] = a; else gb[j] = a;
}

__global__ void affine_input(const float *d, const float *w, float *dx, int rows, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * in) return;
    float a = 0;
    for (int j = 0; j < out; ++j) a += d[i / in * out + j] * w[i % in * out + j];
    dx[i] = a;
}

__global__ void nesterov(float *w, float *m, const float *g, size_t n, float rate, float mu)
{
    size_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = mu * m[i] + g[i];
    w[i] -= rate * (g[i] + mu * m[i]);
}

static inline int blocks(size_t n) { return (int)((n + 63) / 64); }

int main(int argc, char **argv)
{
    const int steps = argc > 2 ? atoi(argv[2]) : 60;
    unsigned long long r = 0x1234abcdULL;
    auto uni = [&r]() { r = r * 6364136223846793005ULL + 1442695040888963407ULL; return (float)(r >> 40) / 8388608.0f - 1.0f; };
    std::vector<float> centre(kClasses * 2 * kInputs), x(kItems * kInputs);
    std::vector<int> label(kItems);
    for (float &e : centre) e = uni();
    for (int i = 0; i < kItems; ++i) {
        label[i] = (int)((uni() + 1) * 0.5f * kClasses) % kClasses;
        int mode = uni() > 0;
        for (int k = 0; k < kInputs; ++k) x[i * kInputs + k] = centre[(label[i] * 2 + mode) * kInputs + k] + 0.9f * uni();
    }
    Arena a;
    std::vector<float> init(a.total, 0.0f);
    for (size_t i = 0; i < a.weights; ++i) init[i] = 0.33f * uni();
    for (size_t i = a.gain; i < a.total; ++i) init[i] = 1;
    cudaMemcpy(a.value, init.data(), a.total * sizeof(float), cudaMemcpyHostToDevice);
    DDP_PARAMETER(a.value, a.total, DDP_FLOAT32);
    DDP_GRADIENT(a.grad, a.weights, DDP_FLOAT32);

    float *dx, *z0, *h0, *z1, *n1, *h1, *z2, *inv, *d2, *dh1, *dz1, *dh0, *nll;
    int *dl;
    cudaMalloc(&dx, x.size() * 4); cudaMalloc(&dl, label.size() * 4);
    for (float **p : {&z0, &h0, &z1, &n1, &h1, &z2, &d2, &dh1, &dz1, &dh0}) cudaMalloc(p, kBatch * kWide * 4);
    cudaMalloc(&inv, kBatch * 4); cudaMalloc(&nll, kBatch * 4);
    cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dl, label.data(), label.size() * 4, cudaMemcpyHostToDevice);

    for (int s = 0; s < steps; ++s) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        const int n = (int)count, at = s * kBatch % kItems + (int)first;
        const float *in = dx + at * kInputs, *v = a.value;
        float *g = a.grad;
        affine<<<blocks(n * kWide), 64>>>(in, v + a.w[0], v + a.b[0], z0, n, kInputs, kWide);
        relu<<<blocks(n * kWide), 64>>>(z0, h0, n * kWide);
        affine<<<blocks(n * kWide), 64>>>(h0, v + a.w[1], v + a.b[1], z1, n, kWide, kWide);
        rms_norm<<<blocks(n), 64>>>(z1, v + a.gain, n1, inv, n, kWide);
        relu<<<blocks(n * kWide), 64>>>(n1, h1, n * kWide);
        affine<<<blocks(n * kClasses), 64>>>(h1, v + a.w[2], v + a.b[2], z2, n, kWide, kClasses);
        cross_entropy<<<blocks(n), 64>>>(z2, dl + at, d2, nll, n, kClasses);
        affine_back<<<blocks((kWide + 1) * kClasses), 64>>>(h1, d2, g + a.w[2], g + a.b[2], n, kWide, kClasses);
        affine_input<<<blocks(n * kWide), 64>>>(d2, v + a.w[2], dh1, n, kWide, kClasses);
        relu_back<<<blocks(n * kWide), 64>>>(h1, dh1, n * kWide);
        gain_gradient<<<1, 64>>>(z1, inv, dh1, g + a.gain, n, kWide);
        rms_norm_back<<<blocks(n), 64>>>(z1, v + a.gain, inv, dh1, dz1, n, kWide);
        affine_back<<<blocks((kWide + 1) * kWide), 64>>>(h0, dz1, g + a.w[1], g + a.b[1], n, kWide, kWide);
        affine_input<<<blocks(n * kWide), 64>>>(dz1, v + a.w[1], dh0, n, kWide, kWide);
        relu_back<<<blocks(n * kWide), 64>>>(h0, dh0, n * kWide);
        affine_back<<<blocks((kInputs + 1) * kWide), 64>>>(in, dh0, g + a.w[0], g + a.b[0], n, kInputs, kWide);
        DDP_STEP(0);
        nesterov<<<blocks(a.total), 64>>>(a.value, a.momentum, a.grad, a.total, 0.03f, 0.8f);
        if (s % 10 == 0 || s == steps - 1) {
            std::vector<float> l(n);
            cudaMemcpy(l.data(), nll, n * 4, cudaMemcpyDeviceToHost);
            float m = 0;
            for (float e : l) m += e / n;
            DDP_MEAN_AS("loss", &m);
            printf("%d\t%.4f\n", s, m);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "w");
        cudaMemcpy(init.data(), a.value, a.total * 4, cudaMemcpyDeviceToHost);
        for (float e : init) fprintf(f, "%.9g\n", e);
        fclose(f);
    }
    return 0;
}
