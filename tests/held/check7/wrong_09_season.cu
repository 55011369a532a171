// Fourier feature regression of a seasonal series. Progress is judged on held-out points every few steps; a worse
// model is thrown away and the rate is halved.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

static const int F = 48, HID = 16, BATCH = 16, TRAIN = 320, HELD = 60, PERIOD = 5;

static void run(cudaError_t rc, int line) { if (rc != cudaSuccess) { fprintf(stderr, "%d: %s\n", line, cudaGetErrorString(rc)); exit(1); } }
#define RUN(c) run((c), __LINE__)

struct Lehmer {
    unsigned long long s;
    float operator()() { s = s * 48271ull % 2147483647ull; return (float)s / 2147483647.0f; }
};

__global__ void predict(const float *x, const float *y, const float *par, float *h, float *diff, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float *w1 = par, *w2 = par + HID * F;
    float o = 0;
    for (int j = 0; j < HID; ++j) {
        float a = 0;
        for (int k = 0; k < F; ++k) a += w1[j * F + k] * x[i * F + k];
        a = tanhf(a);
        h[i * HID + j] = a;
        o += w2[j] * a;
    }
    diff[i] = o - y[i];
}

__global__ void gradient(const float *x, const float *par, const float *h, const float *diff, float *g, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= HID * F + HID) return;
    const float *w2 = par + HID * F;
    int j = k < HID * F ? k / F : k - HID * F;
    float a = 0;
    for (int i = 0; i < n; ++i) {
        float hj = h[i * HID + j];
        a += k < HID * F ? diff[i] * w2[j] * (1 - hj * hj) * x[i * F + k % F] : diff[i] * hj;
    }
    g[k] = a / n;
}

__global__ void move(float *par, const float *g, float rate, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < n) par[k] -= rate * g[k];
}

struct Series {
    float *x, *y;
    Series(int n, Lehmer &r, float noise)
    {
        std::vector<float> hx(n * F), hy(n);
        for (int i = 0; i < n; ++i) {
            float t = r() * 6.2831853f;
            for (int k = 0; k < F; ++k) hx[i * F + k] = (k % 2 ? sinf((k / 2 + 1) * t) : cosf((k / 2) * t)) / (1 + 0.1f * k);
            hy[i] = sinf(2 * t) + 0.5f * cosf(5 * t + 1) + noise * (r() + r() + r() - 1.5f);
        }
        RUN(cudaMalloc(&x, hx.size() * 4));
        RUN(cudaMalloc(&y, hy.size() * 4));
        RUN(cudaMemcpy(x, hx.data(), hx.size() * 4, cudaMemcpyHostToDevice));
        RUN(cudaMemcpy(y, hy.data(), hy.size() * 4, cudaMemcpyHostToDevice));
    }
};

int main(int argc, char **argv)
{
    Lehmer r = {20240};
    Series train(TRAIN, r, 0.9f), held(HELD, r, 0.9f);
    const int np = HID * F + HID;
    std::vector<float> w(np), hd(HELD);
    for (auto &v : w) v = (r() - 0.5f) * 0.8f;
    float *par, *kept, *g, *h, *diff, *hh, *hdiff;
    RUN(cudaMalloc(&par, np * 4)); RUN(cudaMalloc(&kept, np * 4)); RUN(cudaMalloc(&g, np * 4));
    RUN(cudaMalloc(&h, BATCH * HID * 4)); RUN(cudaMalloc(&diff, BATCH * 4));
    RUN(cudaMalloc(&hh, HELD * HID * 4)); RUN(cudaMalloc(&hdiff, HELD * 4));
    RUN(cudaMemcpy(par, w.data(), np * 4, cudaMemcpyHostToDevice));
    DDP_PARAMETER(par, np, DDP_FLOAT32);
    DDP_GRADIENT(g, np, DDP_FLOAT32);
    RUN(cudaMemcpy(kept, par, np * 4, cudaMemcpyDeviceToDevice));

    float best = 1e30f, rate = 0.8f;
    for (int step = 0; step < 60; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t at = (size_t)step * BATCH % TRAIN + first;
        int n = (int)count;
        predict<<<1, BATCH>>>(train.x + at * F, train.y + at, par, h, diff, n);
        gradient<<<(np + 63) / 64, 64>>>(train.x + at * F, par, h, diff, g, n);
        DDP_STEP(0);
        move<<<(np + 63) / 64, 64>>>(par, g, rate, np);
        if (step % PERIOD == PERIOD - 1) {
            DDP_SHARD(HELD, &first, &count);
            predict<<<1, 64>>>(held.x + first * F, held.y + first, par, hh, hdiff, (int)count);
            RUN(cudaMemcpy(hd.data(), hdiff, count * 4, cudaMemcpyDeviceToHost));
            float val = 0;
            for (size_t i = 0; i < count; ++i) val += hd[i] * hd[i] / count;
            if (val < best) {
                best = val;
                RUN(cudaMemcpy(kept, par, np * 4, cudaMemcpyDeviceToDevice));
            } else {
                rate *= 0.5f;
                RUN(cudaMemcpy(par, kept, np * 4, cudaMemcpyDeviceToDevice));
            }
            if (DDP_RANK() == 0) printf("step %d, held-out error %.4f, rate %.4f\n", step, val, rate);
        }
    }
    RUN(cudaMemcpy(w.data(), par, np * 4, cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(w.data(), 4, np, f);
        fclose(f);
    }
    return 0;
}
