// Two tasks on one trunk, weighted by learnt uncertainties: L = exp(-s0) L0 + s0 + exp(-s1) L1 + s1.
// Task 0 regresses a value, task 1 classifies a sign. The two log variances live on the host.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include "ddprun.h"

#define GUARD(call) guard((call), #call)
static void guard(cudaError_t e, const char *what)
{
    if (e == cudaSuccess)
        return;
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
    std::exit(1);
}

static const int IN = 9, TRUNK = 30, BATCH = 56, ROWS = 560, STEPS = 60;

// Trunk weights, trunk bias, head 0 (weights, bias), head 1 (weights, bias).
enum { AT_W = 0, AT_B = AT_W + IN * TRUNK, AT_H0 = AT_B + TRUNK, AT_H1 = AT_H0 + TRUNK + 1, TOTAL = AT_H1 + TRUNK + 1 };

struct Arena {
    float *p;
    explicit Arena(size_t n) : p(nullptr)
    {
        GUARD(cudaMalloc(&p, n * sizeof(float)));
        GUARD(cudaMemset(p, 0, n * sizeof(float)));
    }
    operator float *() const { return p; }
};

__global__ void trunk_forward(const float *x, const float *w, float *h, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * TRUNK)
        return;
    int r = i / TRUNK, j = i % TRUNK;
    float s = w[AT_B + j];
    for (int k = 0; k < IN; ++k)
        s += x[r * IN + k] * w[AT_W + k * TRUNK + j];
    h[i] = s > 0.0f ? s : 0.1f * s;
}

// losses[r] and losses[BATCH + r]: the row's losses of both tasks, before their weights
__global__ void heads(const float *h, const float *w, const float *value, const float *sign, float *d0, float *d1,
                      float *losses, float weight0, float weight1, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n)
        return;
    float a = w[AT_H0 + TRUNK], b = w[AT_H1 + TRUNK];
    for (int j = 0; j < TRUNK; ++j) {
        a += h[r * TRUNK + j] * w[AT_H0 + j];
        b += h[r * TRUNK + j] * w[AT_H1 + j];
    }
    float e = a - value[r], p = 1.0f / (1.0f + expf(-b));
    losses[r] = 0.5f * e * e;
    losses[BATCH + r] = -(sign[r] * logf(p + 1e-7f) + (1.0f - sign[r]) * logf(1.0f - p + 1e-7f));
    d0[r] = weight0 * e / n;
    d1[r] = weight1 * (p - sign[r]) / n;
}

__global__ void trunk_delta(const float *h, const float *w, const float *d0, const float *d1, float *dh, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * TRUNK)
        return;
    int r = i / TRUNK, j = i % TRUNK;
    float s = d0[r] * w[AT_H0 + j] + d1[r] * w[AT_H1 + j];
    dh[i] = h[i] > 0.0f ? s : 0.1f * s;
}

__global__ void collect(const float *x, const float *h, const float *dh, const float *d0, const float *d1, float *g, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= TOTAL)
        return;
    float s = 0.0f;
    for (int r = 0; r < n; ++r) {
        if (i < AT_B)
            s += x[r * IN + i / TRUNK] * dh[r * TRUNK + i % TRUNK];
        else if (i < AT_H0)
            s += dh[r * TRUNK + i - AT_B];
        else if (i < AT_H1)
            s += d0[r] * (i - AT_H0 < TRUNK ? h[r * TRUNK + i - AT_H0] : 1.0f);
        else
            s += d1[r] * (i - AT_H1 < TRUNK ? h[r * TRUNK + i - AT_H1] : 1.0f);
    }
    g[i] = s;
}

__global__ void adam(float *w, const float *g, float *m, float *v, float rate, int t)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= TOTAL)
        return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.98f * v[i] + 0.02f * g[i] * g[i];
    float mh = m[i] / (1.0f - powf(0.9f, t)), vh = v[i] / (1.0f - powf(0.98f, t));
    w[i] -= rate * mh / (sqrtf(vh) + 1e-3f);
}

struct Uncertainty {
    float logvar[2];
    float dlogvar[2];
    float velocity[2];
};

int main(int argc, char **argv)
{
    unsigned rng = 1009;
    auto rnd = [&rng]() {
        rng = rng * 1664525u + 1013904223u;
        return (rng >> 9) / 8388608.0f;
    };
    std::vector<float> x(ROWS * IN), value(ROWS), sign(ROWS), init(TOTAL, 0.0f);
    for (int r = 0; r < ROWS; ++r) {
        float hard = r % BATCH < 20 ? 1.5f : 0.6f, a = 0.0f, b = 0.0f;
        for (int k = 0; k < IN; ++k) {
            x[r * IN + k] = hard * (2.0f * rnd() - 1.0f);
            a += x[r * IN + k] * std::cos(1.3f * k);
            b += x[r * IN + k] * std::sin(2.1f * k + 1.0f);
        }
        value[r] = 1.2f * std::fabs(a) + 0.3f * (rnd() - 0.5f);
        sign[r] = b + 0.3f * a > 0.6f * (rnd() - 0.5f) ? 1.0f : 0.0f;
    }
    for (int i = 0; i < TOTAL; ++i)
        if (i < AT_B || (i >= AT_H0 && i != AT_H0 + TRUNK && i != TOTAL - 1))
            init[i] = 0.7f * (rnd() - 0.5f);

    Arena dx(ROWS * IN), dvalue(ROWS), dsign(ROWS), w(TOTAL), g(TOTAL), m(TOTAL), v(TOTAL);
    Arena h(BATCH * TRUNK), dh(BATCH * TRUNK), d0(BATCH), d1(BATCH), losses(2 * BATCH);
    GUARD(cudaMemcpy(dx, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice));
    GUARD(cudaMemcpy(dvalue, value.data(), ROWS * sizeof(float), cudaMemcpyHostToDevice));
    GUARD(cudaMemcpy(dsign, sign.data(), ROWS * sizeof(float), cudaMemcpyHostToDevice));
    GUARD(cudaMemcpy(w, init.data(), TOTAL * sizeof(float), cudaMemcpyHostToDevice));
    static Uncertainty u;

    DDP_PARAMETER(w.p, TOTAL, DDP_FLOAT32);
    DDP_GRADIENT(g.p, TOTAL, DDP_FLOAT32);
    DDP_STATE(m.p, TOTAL, DDP_FLOAT32);
    DDP_STATE(v.p, TOTAL, DDP_FLOAT32);

    for (int step = 1; step <= STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count, at = (step - 1) * BATCH % ROWS + (int)first;
        float weight[2] = {std::exp(-u.logvar[0]), std::exp(-u.logvar[1])};

        trunk_forward<<<(n * TRUNK + 63) / 64, 64>>>(dx + at * IN, w, h, n);
        heads<<<(n + 31) / 32, 32>>>(h, w, dvalue + at, dsign + at, d0, d1, losses, weight[0], weight[1], n);
        trunk_delta<<<(n * TRUNK + 63) / 64, 64>>>(h, w, d0, d1, dh, n);
        collect<<<(TOTAL + 63) / 64, 64>>>(dx + at * IN, h, dh, d0, d1, g, n);

        float rows[2 * BATCH], task[2] = {0.0f, 0.0f};
        GUARD(cudaMemcpy(rows, losses, sizeof(rows), cudaMemcpyDeviceToHost));
        for (int t = 0; t < 2; ++t) {
            for (int r = 0; r < n; ++r)
                task[t] += rows[t * BATCH + r] / n;
            u.dlogvar[t] = 1.0f - weight[t] * task[t];
        }

        DDP_STEP(0);
        adam<<<(TOTAL + 63) / 64, 64>>>(w, g, m, v, 0.02f, step);
        for (int t = 0; t < 2; ++t) {
            u.velocity[t] = 0.8f * u.velocity[t] - 0.05f * u.dlogvar[t];
            u.logvar[t] += u.velocity[t];
        }

        if (step % 12 == 0 || step == 1) {
            DDP_MEAN_AS("value", &task[0]);
            DDP_MEAN_AS("sign", &task[1]);
            if (DDP_RANK() == 0)
                std::printf("step %2d  value %.4f  sign %.4f  weights %.3f %.3f\n", step, task[0], task[1], weight[0],
                            weight[1]);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        std::vector<float> out(TOTAL);
        GUARD(cudaMemcpy(out.data(), w, TOTAL * sizeof(float), cudaMemcpyDeviceToHost));
        FILE *f = std::fopen(argv[1], "wb");
        std::fwrite(out.data(), sizeof(float), TOTAL, f);
        std::fwrite(u.logvar, sizeof(float), 2, f);
        std::fclose(f);
    }
    return 0;
}
