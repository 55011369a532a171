// Regression network with a normalised hidden layer (mean and variance of the batch), scale and shift learned.
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#include "ddprun.h"

#define Q(x) do { cudaError_t q = (x); if (q) { fprintf(stderr, "line %d: %s\n", __LINE__, cudaGetErrorString(q)); exit(1); } } while (0)

enum { IN = 9, H = 16, BATCH = 32, ROWS = 320, NW = H * IN };

__global__ void mul(const float *x, const float *w, float *a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * H) return;
    float s = 0;
    for (int k = 0; k < IN; ++k) s += w[i % H * IN + k] * x[i / H * IN + k];
    a[i] = s;
}
// sums[0..H) of the values, sums[H..2H) of their squares
__global__ void moments(const float *a, float *sums, int n)
{
    int j = threadIdx.x;
    float s = 0, q = 0;
    for (int i = 0; i < n; ++i) { s += a[i * H + j]; q += a[i * H + j] * a[i * H + j]; }
    sums[j] = s;
    sums[H + j] = q;
}
__global__ void head(const float *a, const float *sums, const float *gamma, const float *beta, const float *v, const float *y,
                     float *hat, float *dact, float *h, float *diff, float *sq, int n, int whole)
{
    int i = threadIdx.x;
    if (i >= n) return;
    float o = v[H];
    for (int j = 0; j < H; ++j) {
        float mu = sums[j] / whole, var = sums[H + j] / whole - mu * mu;
        float t = (a[i * H + j] - mu) * rsqrtf(var + 1e-3f);
        hat[i * H + j] = t;
        t = tanhf(gamma[j] * t + beta[j]);
        h[i * H + j] = t;
        o += v[j] * t;
    }
    float d = o - y[i];
    sq[i] = d * d;
    diff[i] = d / n;
    for (int j = 0; j < H; ++j) dact[i * H + j] = diff[i] * v[j] * (1 - h[i * H + j] * h[i * H + j]);
}
__global__ void back_sums(const float *dact, const float *hat, float *sums, float *dgamma, float *dbeta, int n)
{
    int j = threadIdx.x;
    float s = 0, q = 0;
    for (int i = 0; i < n; ++i) { s += dact[i * H + j]; q += dact[i * H + j] * hat[i * H + j]; }
    dbeta[j] = s;
    dgamma[j] = q;
    sums[j] = s;
    sums[H + j] = q;
}
__global__ void back_norm(float *dact, const float *hat, const float *sums, const float *back, const float *gamma, int n, int whole)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * H) return;
    int j = i % H;
    float mu = sums[j] / whole, var = sums[H + j] / whole - mu * mu;
    dact[i] = gamma[j] * rsqrtf(var + 1e-3f) * (dact[i] - back[j] / whole - hat[i] * back[H + j] / whole);
}
__global__ void outer(const float *d, const float *x, float *g, int nd, int nx, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= nd * nx) return;
    float s = 0;
    for (int i = 0; i < n; ++i) s += d[i * nd + k / nx] * x[i * nx + k % nx];
    g[k] = s;
}
__global__ void total(const float *d, float *g, int n) { float s = 0; for (int i = 0; i < n; ++i) s += d[i]; *g = s; }
__global__ void follow(float *running, const float *sums, int whole)
{
    int j = threadIdx.x;
    running[j] = 0.9f * running[j] + 0.1f * sums[j] / whole;
}
__global__ void sgd(float *w, const float *g, float lr, int n) { int k = blockIdx.x * blockDim.x + threadIdx.x; if (k < n) w[k] -= lr * g[k]; }

static float *fresh(const std::vector<float> &h)
{
    float *p;
    Q(cudaMalloc(&p, h.size() * sizeof(float)));
    Q(cudaMemcpy(p, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice));
    return p;
}

int main(int argc, char **argv)
{
    unsigned long long z = 3;
    auto rnd = [&z] { z = z * 6364136223846793005ULL + 1; return (float)(z >> 40) / 16777216.f - .5f; };
    std::vector<float> x(ROWS * IN), y(ROWS), w(NW), v(H + 1);
    for (int r = 0; r < ROWS; ++r) {
        float level = r % 32 < 16 ? 1.f : -1.f;
        for (int k = 0; k < IN; ++k) x[r * IN + k] = 3 * rnd() + level;
        y[r] = sinf(x[r * IN]) + .3f * x[r * IN + 1] * x[r * IN + 2] - .5f * x[r * IN + 3];
    }
    for (float &f : w) f = rnd();
    for (float &f : v) f = rnd();
    const std::vector<float> none(BATCH * H, 0.f);
    float *dx = fresh(x), *dy = fresh(y), *pw = fresh(w), *pv = fresh(v);
    float *pg = fresh(std::vector<float>(H, 1.f)), *pb = fresh(std::vector<float>(H, 0.f));
    float *gw = fresh(std::vector<float>(NW)), *gv = fresh(std::vector<float>(H + 1));
    float *gg = fresh(std::vector<float>(H)), *gb = fresh(std::vector<float>(H));
    float *a = fresh(none), *hat = fresh(none), *h = fresh(none), *dact = fresh(none), *diff = fresh(none), *sq = fresh(none);
    float *sums = fresh(std::vector<float>(2 * H)), *back = fresh(std::vector<float>(2 * H)), *running = fresh(std::vector<float>(2 * H));
    DDP_PARAMETER(pw, NW, DDP_FLOAT32);
    DDP_PARAMETER(pv, H + 1, DDP_FLOAT32);
    DDP_PARAMETER(pg, H, DDP_FLOAT32);
    DDP_PARAMETER(pb, H, DDP_FLOAT32);
    DDP_GRADIENT(gw, NW, DDP_FLOAT32);
    DDP_GRADIENT(gv, H + 1, DDP_FLOAT32);
    DDP_GRADIENT(gg, H, DDP_FLOAT32);
    DDP_GRADIENT(gb, H, DDP_FLOAT32);

    for (int it = 0; it < 60; ++it) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count, at = it * BATCH % ROWS + (int)first;
        mul<<<(n * H + 63) / 64, 64>>>(dx + at * IN, pw, a, n);
        moments<<<1, H>>>(a, sums, n);
        DDP_REDUCE(sums, 2 * H, DDP_FLOAT32, DDP_OP_SUM, 0);
        head<<<1, BATCH>>>(a, sums, pg, pb, pv, dy + at, hat, dact, h, diff, sq, n, BATCH);
        back_sums<<<1, H>>>(dact, hat, back, gg, gb, n);
        DDP_REDUCE(back, 2 * H, DDP_FLOAT32, DDP_OP_SUM, 0);
        back_norm<<<(n * H + 63) / 64, 64>>>(dact, hat, sums, back, pg, n, BATCH);
        outer<<<(NW + 63) / 64, 64>>>(dact, dx + at * IN, gw, H, IN, n);
        outer<<<1, 64>>>(diff, h, gv, 1, H, n);
        total<<<1, 1>>>(diff, gv + H, n);
        follow<<<1, 2 * H>>>(running, sums, BATCH);
        DDP_STEP(0);
        sgd<<<(NW + 63) / 64, 64>>>(pw, gw, .2f, NW);
        sgd<<<1, 64>>>(pv, gv, .1f, H + 1);
        sgd<<<1, 64>>>(pg, gg, .1f, H);
        sgd<<<1, 64>>>(pb, gb, .1f, H);
        if (it % 20 == 0 || it == 59) {
            float hs[BATCH], m = 0;
            Q(cudaMemcpy(hs, sq, n * sizeof(float), cudaMemcpyDeviceToHost));
            for (int i = 0; i < n; ++i) m += hs[i] / n;
            if (DDP_RANK() == 0) printf("%d: %.4f\n", it, m);
        }
    }
    Q(cudaMemcpy(w.data(), pw, NW * sizeof(float), cudaMemcpyDeviceToHost));
    Q(cudaMemcpy(v.data(), pv, (H + 1) * sizeof(float), cudaMemcpyDeviceToHost));
    std::vector<float> tail(4 * H);
    Q(cudaMemcpy(tail.data(), pg, H * sizeof(float), cudaMemcpyDeviceToHost));
    Q(cudaMemcpy(tail.data() + H, pb, H * sizeof(float), cudaMemcpyDeviceToHost));
    Q(cudaMemcpy(tail.data() + 2 * H, running, 2 * H * sizeof(float), cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(w.data(), 4, w.size(), f);
        fwrite(v.data(), 4, v.size(), f);
        fwrite(tail.data(), 4, tail.size(), f);
        fclose(f);
    }
    return 0;
}
