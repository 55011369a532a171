// Fruit spectra: a one-hidden-layer classifier trained with mixed-up examples (Zhang et al., "mixup").
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include "ddprun.h"

static const int kIn = 24, kHid = 40, kOut = 5, kBatch = 48, kTrain = 960;

struct Lcg {
    unsigned long long s;
    explicit Lcg(unsigned long long seed) : s(seed * 2862933555777941757ULL + 3037000493ULL) {}
    float uniform() { s = s * 6364136223846793005ULL + 1442695040888963407ULL; return (float)(s >> 40) / 16777216.0f; }
    float normal() { float a = 0; for (int i = 0; i < 12; ++i) a += uniform(); return a - 6.0f; }
};

__global__ void mix_rows(const float *x, const float *y, float *mx, float *my, int rows, int in, int out, float lam)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    int partner = rows - 1 - r;
    for (int k = 0; k < in; ++k) mx[r * in + k] = lam * x[r * in + k] + (1 - lam) * x[partner * in + k];
    for (int k = 0; k < out; ++k) my[r * out + k] = lam * y[r * out + k] + (1 - lam) * y[partner * out + k];
}

__global__ void hidden_layer(const float *x, const float *w, const float *b, float *h, int rows, int in, int hid)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * hid) return;
    int r = i / hid, j = i % hid;
    float a = b[j];
    for (int k = 0; k < in; ++k) a += x[r * in + k] * w[k * hid + j];
    h[i] = a > 0 ? a : 0.1f * a;
}

__global__ void softmax_layer(const float *h, const float *w, const float *b, const float *y, float *dz, float *loss,
                              int rows, int hid, int out)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float z[8], top = -1e30f, sum = 0, l = 0;
    for (int o = 0; o < out; ++o) {
        z[o] = b[o];
        for (int j = 0; j < hid; ++j) z[o] += h[r * hid + j] * w[j * out + o];
        top = fmaxf(top, z[o]);
    }
    for (int o = 0; o < out; ++o) sum += expf(z[o] - top);
    for (int o = 0; o < out; ++o) {
        float p = expf(z[o] - top) / sum;
        dz[r * out + o] = (p - y[r * out + o]) / rows;
        l -= y[r * out + o] * logf(p + 1e-12f);
    }
    loss[r] = l;
}

__global__ void back_hidden(const float *dz, const float *w, const float *h, float *dh, int rows, int hid, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * hid) return;
    int r = i / hid, j = i % hid;
    float a = 0;
    for (int o = 0; o < out; ++o) a += dz[r * out + o] * w[j * out + o];
    dh[i] = h[i] > 0 ? a : 0.1f * a;
}

// dw[k][j] = sum over rows of a[r][k] * d[r][j]; row `n` of the result goes to the bias
__global__ void outer(const float *a, const float *d, float *dw, float *db, int rows, int n, int m)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (n + 1) * m) return;
    int k = i / m, j = i % m;
    float s = 0;
    for (int r = 0; r < rows; ++r) s += (k < n ? a[r * n + k] : 1.0f) * d[r * m + j];
    if (k < n) dw[i] = s; else db[j] = s;
}

__global__ void momentum_step(float *w, float *v, const float *g, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    v[i] = 0.8f * v[i] + g[i];
    w[i] -= lr * v[i];
}

struct Weight {
    float *value, *grad, *vel;
    int n;
    Weight(int n_, float scale, Lcg &g) : n(n_)
    {
        std::vector<float> t(n);
        for (auto &e : t) e = scale * g.normal();
        cudaMalloc(&value, n * sizeof(float)); cudaMalloc(&grad, n * sizeof(float)); cudaMalloc(&vel, n * sizeof(float));
        cudaMemcpy(value, t.data(), n * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemset(grad, 0, n * sizeof(float)); cudaMemset(vel, 0, n * sizeof(float));
        DDP_PARAMETER(value, n, DDP_FLOAT32);
        DDP_GRADIENT(grad, n, DDP_FLOAT32);
    }
    void step(float lr) { momentum_step<<<(n + 127) / 128, 128>>>(value, vel, grad, n, lr); }
    void write(FILE *f)
    {
        std::vector<float> t(n);
        cudaMemcpy(t.data(), value, n * sizeof(float), cudaMemcpyDeviceToHost);
        for (float e : t) fprintf(f, "%.9g\n", e);
    }
};

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    Lcg gen(11);
    std::vector<float> centre(kOut * kIn), x(kTrain * kIn), y(kTrain * kOut, 0.0f);
    for (auto &c : centre) c = gen.normal();
    for (int i = 0; i < kTrain; ++i) {
        int c = (int)(gen.uniform() * kOut);
        y[i * kOut + c] = 1;
        for (int k = 0; k < kIn; ++k) x[i * kIn + k] = 0.7f * centre[c * kIn + k] + 1.2f * gen.normal();
    }
    float *dx, *dy, *mx, *my, *h, *dh, *dz, *loss;
    cudaMalloc(&dx, x.size() * 4); cudaMalloc(&dy, y.size() * 4);
    cudaMalloc(&mx, kBatch * kIn * 4); cudaMalloc(&my, kBatch * kOut * 4);
    cudaMalloc(&h, kBatch * kHid * 4); cudaMalloc(&dh, kBatch * kHid * 4);
    cudaMalloc(&dz, kBatch * kOut * 4); cudaMalloc(&loss, kBatch * 4);
    cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), y.size() * 4, cudaMemcpyHostToDevice);

    Weight w1(kIn * kHid, 0.2f, gen), b1(kHid, 0, gen), w2(kHid * kOut, 0.15f, gen), b2(kOut, 0, gen);
    for (int s = 0; s < steps; ++s) {
        float lam = 0.6f + 0.4f * gen.uniform();
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        int at = (s * kBatch) % kTrain + (int)first, rows = (int)count;
        mix_rows<<<(rows + 31) / 32, 32>>>(dx + at * kIn, dy + at * kOut, mx, my, rows, kIn, kOut, lam);
        hidden_layer<<<(rows * kHid + 127) / 128, 128>>>(mx, w1.value, b1.value, h, rows, kIn, kHid);
        softmax_layer<<<(rows + 31) / 32, 32>>>(h, w2.value, b2.value, my, dz, loss, rows, kHid, kOut);
        back_hidden<<<(rows * kHid + 127) / 128, 128>>>(dz, w2.value, h, dh, rows, kHid, kOut);
        outer<<<((kHid + 1) * kOut + 127) / 128, 128>>>(h, dz, w2.grad, b2.grad, rows, kHid, kOut);
        outer<<<((kIn + 1) * kHid + 127) / 128, 128>>>(mx, dh, w1.grad, b1.grad, rows, kIn, kHid);
        DDP_STEP(0);
        for (Weight *w : {&w1, &b1, &w2, &b2}) w->step(0.08f);
        if (s % 10 == 0 || s == steps - 1) {
            std::vector<float> l(rows);
            cudaMemcpy(l.data(), loss, rows * 4, cudaMemcpyDeviceToHost);
            double m = 0;
            for (float e : l) m += e / rows;
            DDP_MEAN_AS("loss", &m);
            printf("step %d loss %.4f\n", s, m);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "w");
        w1.write(f); b1.write(f); w2.write(f); b2.write(f);
        fclose(f);
    }
    return 0;
}
