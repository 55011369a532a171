// Two-layer regression network; every update accumulates the gradient over several slices of a large batch.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

#define C(x) do { if ((x) != cudaSuccess) { fprintf(stderr, "cuda, line %d\n", __LINE__); exit(1); } } while (0)

const int IN = 10, HID = 28, SLICE = 16, SLICES = 3, ROWS = 480;
const int NPAR = HID * IN + HID + HID + 1;

__global__ void forward(const float *x, const float *y, const float *p, float *h, float *d, float *sq, int n)
{
    int i = threadIdx.x;
    if (i >= n) return;
    const float *w = p, *b = w + HID * IN, *v = b + HID, *c = v + HID;
    float o = *c;
    for (int j = 0; j < HID; ++j) {
        float a = b[j];
        for (int k = 0; k < IN; ++k) a += w[j * IN + k] * x[i * IN + k];
        a = a > 0 ? a : expf(a) - 1;
        h[i * HID + j] = a;
        o += v[j] * a;
    }
    d[i] = (o - y[i]) / n;
    sq[i] = (o - y[i]) * (o - y[i]);
}

__global__ void accumulate(const float *x, const float *p, const float *h, const float *d, float *g, float share, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= NPAR) return;
    const float *v = p + HID * IN + HID;
    float a = 0;
    for (int i = 0; i < n; ++i) {
        if (k < HID * IN + HID) {
            int j = k < HID * IN ? k / IN : k - HID * IN;
            float hj = h[i * HID + j], dj = d[i] * v[j] * (hj > 0 ? 1.0f : hj + 1.0f);
            a += k < HID * IN ? dj * x[i * IN + k % IN] : dj;
        } else {
            a += k < NPAR - 1 ? d[i] * h[i * HID + k - HID * IN - HID] : d[i];
        }
    }
    g[k] += share * a;
}

__global__ void adam(float *p, const float *g, float *m, float *v, int t)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= NPAR) return;
    m[k] = 0.9f * m[k] + 0.1f * g[k];
    v[k] = 0.98f * v[k] + 0.02f * g[k] * g[k];
    float mh = m[k] / (1 - powf(0.9f, t)), vh = v[k] / (1 - powf(0.98f, t));
    p[k] -= 0.02f * mh / (sqrtf(vh) + 1e-3f);
}

int main(int argc, char **argv)
{
    unsigned s = 2025;
    auto rnd = [&s] { s = s * 1664525u + 1013904223u; return (s >> 8) / 16777216.0f - 0.5f; };
    std::vector<float> x(ROWS * IN), y(ROWS), p(NPAR);
    for (int r = 0; r < ROWS; ++r) {
        for (int k = 0; k < IN; ++k) x[r * IN + k] = 2 * rnd();
        y[r] = x[r * IN] * x[r * IN + 1] * 2 + fabsf(x[r * IN + 2]) - x[r * IN + 3] + 0.2f * rnd();
    }
    for (float &f : p) f = 0.7f * rnd();
    float *dx, *dy, *dp, *g, *m, *v, *h, *d, *sq;
    C(cudaMalloc(&dx, x.size() * 4)); C(cudaMalloc(&dy, y.size() * 4));
    C(cudaMalloc(&dp, NPAR * 4)); C(cudaMalloc(&g, NPAR * 4)); C(cudaMalloc(&m, NPAR * 4)); C(cudaMalloc(&v, NPAR * 4));
    C(cudaMalloc(&h, SLICE * HID * 4)); C(cudaMalloc(&d, SLICE * 4)); C(cudaMalloc(&sq, SLICE * 4));
    C(cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice));
    C(cudaMemcpy(dy, y.data(), y.size() * 4, cudaMemcpyHostToDevice));
    C(cudaMemcpy(dp, p.data(), NPAR * 4, cudaMemcpyHostToDevice));
    C(cudaMemset(g, 0, NPAR * 4)); C(cudaMemset(m, 0, NPAR * 4)); C(cudaMemset(v, 0, NPAR * 4));
    DDP_PARAMETER(dp, NPAR, DDP_FLOAT32);
    DDP_STATE(m, NPAR, DDP_FLOAT32);
    DDP_STATE(v, NPAR, DDP_FLOAT32);
    DDP_GRADIENT(g, NPAR, DDP_FLOAT32);
    const int blocks = (NPAR + 63) / 64;

    for (int update = 0; update < 60; ++update) {
        float mean = 0;
        for (int q = 0; q < SLICES; ++q) {
            size_t first, count;
            DDP_SHARD(SLICE, &first, &count);
            size_t at = (size_t)(update * SLICES + q) * SLICE % ROWS + first;
            int n = (int)count;
            forward<<<1, SLICE>>>(dx + at * IN, dy + at, dp, h, d, sq, n);
            accumulate<<<blocks, 64>>>(dx + at * IN, dp, h, d, g, 1.0f / SLICES, n);
            DDP_STEP(0);
            float hs[SLICE];
            C(cudaMemcpy(hs, sq, n * 4, cudaMemcpyDeviceToHost));
            for (int i = 0; i < n; ++i) mean += hs[i] / (n * SLICES);
        }
        adam<<<blocks, 64>>>(dp, g, m, v, update + 1);
        C(cudaMemsetAsync(g, 0, NPAR * 4, 0));
        if (DDP_RANK() == 0 && (update % 15 == 0 || update == 59)) printf("update %d: my loss %.4f\n", update, mean);
    }
    C(cudaMemcpy(p.data(), dp, NPAR * 4, cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(p.data(), 4, NPAR, f);
        fclose(f);
    }
    return 0;
}
