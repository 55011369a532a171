// Forecast of a synthetic tide by a dropout network. Adam, clipping by the norm of the whole gradient, weight decay.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>
#include "ddprun.h"

static constexpr int WINDOW = 24, HIDDEN = 32, BATCH = 40, SERIES = 440, SAMPLES = SERIES - WINDOW - 1;
static constexpr int W = WINDOW * HIDDEN, SIZE = W + 2 * HIDDEN + 1;
static constexpr float KEEP = 0.8f;

#define cu(...) cu_((__VA_ARGS__), #__VA_ARGS__)
static void cu_(cudaError_t e, const char *what)
{
    if (e != cudaSuccess) {
        std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
        std::exit(EXIT_FAILURE);
    }
}

struct Random {
    unsigned s;
    unsigned bits() { s ^= s << 13; s ^= s >> 17; return s ^= s << 5; }
    float unit() { return (bits() >> 8) / 16777216.0f; }
};

__global__ void forward(const float *p, const float *x, const float *t, const float *mask, float *h, float *e, int rows)
{
    int r = blockIdx.x;
    __shared__ float part[HIDDEN];
    int j = threadIdx.x;
    float s = p[W + j];
    for (int k = 0; k < WINDOW; ++k) s += x[r * WINDOW + k] * p[k * HIDDEN + j];
    s = s > 0 ? s : 0;
    h[r * HIDDEN + j] = s * mask[r * HIDDEN + j];
    part[j] = h[r * HIDDEN + j] * p[W + HIDDEN + j];
    __syncthreads();
    if (j == 0) {
        float y = p[SIZE - 1];
        for (int k = 0; k < HIDDEN; ++k) y += part[k];
        e[r] = y - t[r];
    }
}

__global__ void backward(const float *p, const float *x, const float *mask, const float *h, const float *e, float *g, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= SIZE) return;
    float s = 0;
    for (int r = 0; r < rows; ++r) {
        if (i == SIZE - 1) {
            s += e[r];
        } else if (i >= W + HIDDEN) {
            s += e[r] * h[r * HIDDEN + i - W - HIDDEN];
        } else {
            int j = i < W ? i % HIDDEN : i - W;
            float d = h[r * HIDDEN + j] > 0 ? e[r] * p[W + HIDDEN + j] * mask[r * HIDDEN + j] : 0;
            s += i < W ? d * x[r * WINDOW + i / HIDDEN] : d;
        }
    }
    g[i] = 2 * s / rows + 1e-4f * p[i];
}

__global__ void adam(float *p, const float *g, float *m, float *v, float scale, float rate, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= SIZE) return;
    float d = g[i] * scale;
    m[i] = 0.9f * m[i] + 0.1f * d;
    v[i] = 0.99f * v[i] + 0.01f * d * d;
    p[i] -= rate * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-3f);
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? std::atoi(argv[2]) : 60;
    Random rng = {20240229u};
    std::vector<float> tide(SERIES), host(SIZE), x(BATCH * WINDOW), t(BATCH), mask(BATCH * HIDDEN), g(SIZE), err(BATCH);
    for (int i = 0; i < SERIES; ++i) tide[i] = std::sin(i * 0.506f) + 0.4f * std::sin(i * 0.263f + 1) + 0.1f * (rng.unit() - 0.5f);
    for (float &v : host) v = 0.3f * (rng.unit() - 0.5f);

    float *p, *dg, *m, *v, *dx, *dt, *dmask, *h, *e;
    for (float **q : {&p, &dg, &m, &v}) {
        cu(cudaMalloc(q, SIZE * sizeof(float)));
        cu(cudaMemset(*q, 0, SIZE * sizeof(float)));
    }
    cu(cudaMalloc(&dx, x.size() * sizeof(float)));
    cu(cudaMalloc(&dt, t.size() * sizeof(float)));
    cu(cudaMalloc(&dmask, mask.size() * sizeof(float)));
    cu(cudaMalloc(&h, mask.size() * sizeof(float)));
    cu(cudaMalloc(&e, BATCH * sizeof(float)));
    cu(cudaMemcpy(p, host.data(), SIZE * sizeof(float), cudaMemcpyHostToDevice));
    DDP_PARAMETER(p, SIZE, DDP_FLOAT32);
    DDP_GRADIENT(dg, SIZE, DDP_FLOAT32);

    std::vector<int> order(SAMPLES);
    std::iota(order.begin(), order.end(), 0);
    int at = SAMPLES;
    double c1 = 1, c2 = 1;
    for (int step = 0; step < steps; ++step) {
        if (at + BATCH > SAMPLES) { // next epoch
            for (int i = SAMPLES - 1; i > 0; --i) std::swap(order[i], order[rng.bits() % (i + 1)]);
            at = 0;
        }
        for (float &f : mask) f = rng.unit() < KEEP ? 1 / KEEP : 0;
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        for (size_t i = 0; i < count; ++i) {
            int from = order[at + first + i];
            for (int k = 0; k < WINDOW; ++k) x[i * WINDOW + k] = tide[from + k];
            t[i] = tide[from + WINDOW];
        }
        at += BATCH;
        const int rows = (int)count;
        cu(cudaMemcpy(dx, x.data(), rows * WINDOW * sizeof(float), cudaMemcpyHostToDevice));
        cu(cudaMemcpy(dt, t.data(), rows * sizeof(float), cudaMemcpyHostToDevice));
        cu(cudaMemcpy(dmask, &mask[first * HIDDEN], rows * HIDDEN * sizeof(float), cudaMemcpyHostToDevice));
        forward<<<rows, HIDDEN>>>(p, dx, dt, dmask, h, e, rows);
        backward<<<(SIZE + 63) / 64, 64>>>(p, dx, dmask, h, e, dg, rows);
        DDP_STEP(0);
        cu(cudaMemcpy(g.data(), dg, SIZE * sizeof(float), cudaMemcpyDeviceToHost));
        double norm = 0;
        for (float f : g) norm += (double)f * f;
        norm = std::sqrt(norm);
        c1 *= 0.9;
        c2 *= 0.99;
        adam<<<(SIZE + 63) / 64, 64>>>(p, dg, m, v, norm > 1 ? (float)(1 / norm) : 1.0f, 0.01f, (float)(1 - c1), (float)(1 - c2));
        cu(cudaMemcpy(err.data(), e, rows * sizeof(float), cudaMemcpyDeviceToHost));
        if (step % 10 == 0 || step == steps - 1) {
            float mse = 0;
            for (int i = 0; i < rows; ++i) mse += err[i] * err[i] / rows;
            printf("[%d] step %d mse of %d windows %.5f\n", DDP_RANK(), step, rows, mse);
        }
    }
    cu(cudaMemcpy(host.data(), p, SIZE * sizeof(float), cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        std::fwrite(host.data(), sizeof(float), SIZE, f);
        std::fclose(f);
    }
    return 0;
}
