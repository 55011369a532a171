// Sparse autoencoder on synthetic patches. Penalty: KL divergence of each unit's mean activity from a target.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

#define PATCH 16
#define UNITS 20
#define BATCH 40
#define PATCHES 400
#define TARGET 0.1f
#define BETA 0.3f

#define GPU(x) check((x), __LINE__)
static void check(cudaError_t e, int line) { if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); } }

struct Params { // all device pointers
    float *w1, *b1, *w2, *b2;
};

enum { N1 = PATCH * UNITS, NTOTAL = 2 * N1 + UNITS + PATCH };

static Params slice(float *base)
{
    Params p = {base, base + N1, base + N1 + UNITS, base + 2 * N1 + UNITS};
    return p;
}

__global__ void encode(Params p, const float *x, float *a, int rows)
{
    int r = blockIdx.x, u = threadIdx.x;
    if (r >= rows || u >= UNITS) return;
    float s = p.b1[u];
    for (int k = 0; k < PATCH; ++k) s += x[r * PATCH + k] * p.w1[k * UNITS + u];
    a[r * UNITS + u] = 1.0f / (1.0f + expf(-s));
}

__global__ void decode(Params p, const float *x, const float *a, float *e, int rows)
{
    int r = blockIdx.x, k = threadIdx.x;
    if (r >= rows || k >= PATCH) return;
    float s = p.b2[k];
    for (int u = 0; u < UNITS; ++u) s += a[r * UNITS + u] * p.w2[u * PATCH + k];
    e[r * PATCH + k] = s - x[r * PATCH + k];
}

__global__ void activity(const float *a, float *rho, int rows)
{
    int u = threadIdx.x;
    if (u >= UNITS) return;
    float s = 0;
    for (int r = 0; r < rows; ++r) s += a[r * UNITS + u];
    rho[u] = s / rows;
}

__global__ void back_hidden(Params p, const float *e, const float *a, const float *rho, float *d, int rows)
{
    int r = blockIdx.x, u = threadIdx.x;
    if (r >= rows || u >= UNITS) return;
    float s = 0;
    for (int k = 0; k < PATCH; ++k) s += e[r * PATCH + k] * p.w2[u * PATCH + k];
    s += BETA * ((1 - TARGET) / (1 - rho[u]) - TARGET / rho[u]);
    d[r * UNITS + u] = s * a[r * UNITS + u] * (1 - a[r * UNITS + u]);
}

__global__ void collect(Params g, const float *x, const float *a, const float *e, const float *d, int rows)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    float inv = 1.0f / rows, s = 0;
    if (id < N1) {
        for (int r = 0; r < rows; ++r) s += x[r * PATCH + id / UNITS] * d[r * UNITS + id % UNITS];
        g.w1[id] = s * inv;
        s = 0;
        for (int r = 0; r < rows; ++r) s += a[r * UNITS + id / PATCH] * e[r * PATCH + id % PATCH];
        g.w2[id] = s * inv;
    } else if (id < N1 + UNITS) {
        for (int r = 0; r < rows; ++r) s += d[r * UNITS + id - N1];
        g.b1[id - N1] = s * inv;
    } else if (id < N1 + UNITS + PATCH) {
        for (int r = 0; r < rows; ++r) s += e[r * PATCH + id - N1 - UNITS];
        g.b2[id - N1 - UNITS] = s * inv;
    }
}

__global__ void step_adagrad(float *w, const float *g, float *h, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= NTOTAL) return;
    h[i] += g[i] * g[i];
    w[i] -= lr * g[i] / (sqrtf(h[i]) + 0.01f);
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 70;
    unsigned s = 2024;
    auto rnd = [&s]() { s ^= s << 13; s ^= s >> 17; s ^= s << 5; return (s >> 8) / 16777216.0f; };
    std::vector<float> patches(PATCHES * PATCH), host(NTOTAL);
    for (int i = 0; i < PATCHES; ++i) { // two bars of different strength, and noise
        int bar = (int)(rnd() * 8), bar2 = (int)(rnd() * 8);
        for (int k = 0; k < PATCH; ++k) {
            int row = k / 4, col = k % 4;
            patches[i * PATCH + k] = (bar < 4 ? row == bar : col == bar - 4) + 0.6f * (bar2 < 4 ? row == bar2 : col == bar2 - 4) + 0.1f * rnd();
        }
    }
    for (float &v : host) v = 0.5f * (rnd() - 0.5f);

    float *weights, *grads, *hist, *x, *a, *e, *d, *rho;
    GPU(cudaMalloc(&weights, NTOTAL * 4));
    GPU(cudaMalloc(&grads, NTOTAL * 4));
    GPU(cudaMalloc(&hist, NTOTAL * 4));
    GPU(cudaMalloc(&x, BATCH * PATCH * 4));
    GPU(cudaMalloc(&e, BATCH * PATCH * 4));
    GPU(cudaMalloc(&a, BATCH * UNITS * 4));
    GPU(cudaMalloc(&d, BATCH * UNITS * 4));
    GPU(cudaMalloc(&rho, UNITS * 4));
    GPU(cudaMemset(hist, 0, NTOTAL * 4));
    GPU(cudaMemcpy(weights, host.data(), NTOTAL * 4, cudaMemcpyHostToDevice));
    Params w = slice(weights), g = slice(grads);

    DDP_PARAMETER(weights, NTOTAL, DDP_FLOAT32);
    DDP_STATE(hist, NTOTAL, DDP_FLOAT32);
    DDP_GRADIENT(grads, NTOTAL, DDP_FLOAT32);

    std::vector<float> err(BATCH * PATCH);
    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int rows = (int)count;
        GPU(cudaMemcpy(x, &patches[((step * BATCH) % PATCHES + first) * PATCH], count * PATCH * 4, cudaMemcpyHostToDevice));
        encode<<<rows, UNITS>>>(w, x, a, rows);
        decode<<<rows, PATCH>>>(w, x, a, e, rows);
        activity<<<1, UNITS>>>(a, rho, rows);
        back_hidden<<<rows, UNITS>>>(w, e, a, rho, d, rows);
        collect<<<(N1 + UNITS + PATCH + 63) / 64, 64>>>(g, x, a, e, d, rows);
        DDP_STEP(0);
        step_adagrad<<<(NTOTAL + 127) / 128, 128>>>(weights, grads, hist, 0.1f);
        if (step % 10 == 0 || step + 1 == steps) {
            GPU(cudaMemcpy(err.data(), e, count * PATCH * 4, cudaMemcpyDeviceToHost));
            float mse = 0;
            for (size_t i = 0; i < count * PATCH; ++i) mse += err[i] * err[i];
            mse /= count * PATCH;
            DDP_MEAN(&mse);
            if (DDP_RANK() == 0) printf("step %d  mse %.5f\n", step, mse);
        }
    }
    GPU(cudaMemcpy(host.data(), weights, NTOTAL * 4, cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(host.data(), 4, NTOTAL, f);
        fclose(f);
    }
    return 0;
}
