// Low-rank autoencoder for tables with missing entries. The loss is the mean squared error over the entries that are there.
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#include "ddprun.h"

struct Shape { int rows, cols, rank, batch; };
static const Shape S = {300, 20, 5, 30};

__global__ void encode(const float *x, const unsigned char *known, const float *a, float *h, int cols, int rank)
{
    int i = blockIdx.x, r = threadIdx.x;
    float s = 0;
    for (int c = 0; c < cols; ++c)
        if (known[i * cols + c]) s += x[i * cols + c] * a[c * rank + r];
    h[i * rank + r] = tanhf(s);
}
__global__ void decode(const float *x, const unsigned char *known, const float *h, const float *b, float *e, int cols, int rank,
                       float inv)
{
    int i = blockIdx.x, c = threadIdx.x;
    float s = 0;
    for (int r = 0; r < rank; ++r) s += h[i * rank + r] * b[r * cols + c];
    e[i * cols + c] = known[i * cols + c] ? (s - x[i * cols + c]) * inv : 0;
}
__global__ void grad_b(const float *h, const float *e, float *gb, int cols, int rank, int n)
{
    int r = blockIdx.x, c = threadIdx.x;
    float s = 0;
    for (int i = 0; i < n; ++i) s += h[i * rank + r] * e[i * cols + c];
    gb[r * cols + c] = s;
}
__global__ void grad_a(const float *x, const unsigned char *known, const float *h, const float *e, const float *b, float *ga,
                       int cols, int rank, int n)
{
    int c = blockIdx.x, r = threadIdx.x;
    float s = 0;
    for (int i = 0; i < n; ++i) {
        if (!known[i * cols + c]) continue;
        float d = 0;
        for (int k = 0; k < cols; ++k) d += e[i * cols + k] * b[r * cols + k];
        s += d * (1 - h[i * rank + r] * h[i * rank + r]) * x[i * cols + c];
    }
    ga[c * rank + r] = s;
}
__global__ void momentum(float *w, float *v, const float *g, float rate, float mu, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    v[i] = mu * v[i] - rate * g[i];
    w[i] += v[i];
}

static size_t entries(const std::vector<unsigned char> &known, size_t row, size_t n)
{
    size_t k = 0;
    for (size_t i = row * S.cols; i < (row + n) * S.cols; ++i) k += known[i];
    return k;
}

int main(int argc, char **argv)
{
    const int steps = argc > 2 ? atoi(argv[2]) : 60, np = S.cols * S.rank;
    unsigned seed = 4u;
    auto uni = [&seed] { seed = 1664525u * seed + 1013904223u; return (seed >> 8) / 16777216.0f; };
    std::vector<float> basis(3 * S.cols), x(S.rows * S.cols), ha(np), hb(np);
    std::vector<unsigned char> known(S.rows * S.cols);
    for (float &v : basis) v = 2 * uni() - 1;
    for (int i = 0; i < S.rows; ++i) {
        float f[3] = {2 * uni() - 1, 2 * uni() - 1, 2 * uni() - 1}, present = 0.25f + 0.75f * uni();
        for (int c = 0; c < S.cols; ++c) {
            x[i * S.cols + c] = f[0] * basis[c] + f[1] * basis[S.cols + c] + f[2] * basis[2 * S.cols + c] + 0.1f * uni();
            known[i * S.cols + c] = uni() < present;
        }
    }
    for (float &v : ha) v = uni() - 0.5f;
    for (float &v : hb) v = uni() - 0.5f;
    float *dx, *a, *b, *ga, *gb, *va, *vb, *h, *e;
    unsigned char *dk;
    cudaMalloc(&dx, x.size() * 4); cudaMalloc(&dk, known.size());
    cudaMalloc(&a, np * 4); cudaMalloc(&b, np * 4); cudaMalloc(&ga, np * 4); cudaMalloc(&gb, np * 4);
    cudaMalloc(&va, np * 4); cudaMalloc(&vb, np * 4); cudaMalloc(&h, S.batch * S.rank * 4); cudaMalloc(&e, S.batch * S.cols * 4);
    cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dk, known.data(), known.size(), cudaMemcpyHostToDevice);
    cudaMemcpy(a, ha.data(), np * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(b, hb.data(), np * 4, cudaMemcpyHostToDevice);
    cudaMemset(va, 0, np * 4);
    cudaMemset(vb, 0, np * 4);
    DDP_PARAMETER(a, np, DDP_FLOAT32);
    DDP_PARAMETER(b, np, DDP_FLOAT32);
    DDP_STATE(va, np, DDP_FLOAT32);
    DDP_STATE(vb, np, DDP_FLOAT32);
    DDP_GRADIENT(ga, np, DDP_FLOAT32);
    DDP_GRADIENT(gb, np, DDP_FLOAT32);

    for (int step = 0; step < steps; ++step) {
        size_t first, count, base = (size_t)step * S.batch % S.rows;
        DDP_SHARD(S.batch, &first, &count);
        const size_t here = entries(known, base + first, count), everywhere = entries(known, base, S.batch);
        DDP_WEIGHT(here, everywhere);
        const int n = (int)count;
        const float *xb = dx + (base + first) * S.cols;
        const unsigned char *kb = dk + (base + first) * S.cols;
        encode<<<n, S.rank>>>(xb, kb, a, h, S.cols, S.rank);
        decode<<<n, S.cols>>>(xb, kb, h, b, e, S.cols, S.rank, 1.0f / here);
        grad_b<<<S.rank, S.cols>>>(h, e, gb, S.cols, S.rank, n);
        grad_a<<<S.cols, S.rank>>>(xb, kb, h, e, b, ga, S.cols, S.rank, n);
        DDP_STEP(0);
        momentum<<<(np + 31) / 32, 32>>>(a, va, ga, 1.0f, 0.8f, np);
        momentum<<<(np + 31) / 32, 32>>>(b, vb, gb, 1.0f, 0.8f, np);
        if (step % 20 == 19 || step == 0) {
            std::vector<float> he(n * S.cols);
            cudaMemcpy(he.data(), e, he.size() * 4, cudaMemcpyDeviceToHost);
            double sum = 0;
            for (float v : he) sum += (double)v * v * here * here;
            DDP_REDUCE(&sum, 1, DDP_FLOAT64, DDP_OP_SUM, 0);
            printf("step %d mse %.5f\n", step + 1, sum / everywhere);
        }
    }
    std::vector<float> out(2 * np);
    cudaMemcpy(&out[0], a, np * 4, cudaMemcpyDeviceToHost);
    cudaMemcpy(&out[np], b, np * 4, cudaMemcpyDeviceToHost);
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(out.data(), 4, out.size(), f);
        fclose(f);
    }
    return 0;
}
