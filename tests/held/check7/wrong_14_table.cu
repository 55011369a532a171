// Poisson regression on a table of measurements in very different units. Columns are standardised first; then
// gradient descent over all rows.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

#define E(call)                                                                                       \
    {                                                                                                 \
        cudaError_t e_ = call;                                                                        \
        if (e_ != cudaSuccess) { fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e_)); return 1; } \
    }

const int ROWS = 360, COLS = 18, PAIRS = COLS * (COLS - 1) / 2, FEAT = COLS + PAIRS + 1;

__global__ void column_mean(const double *x, double *mean, int rows)
{
    int c = threadIdx.x;
    if (c >= COLS) return;
    double s = 0;
    for (int r = 0; r < rows; ++r) s += x[r * COLS + c];
    mean[c] = s / rows;
}

__global__ void column_variance(const double *x, const double *mean, double *var, int rows)
{
    int c = threadIdx.x;
    if (c >= COLS) return;
    double s = 0;
    for (int r = 0; r < rows; ++r) s += (x[r * COLS + c] - mean[c]) * (x[r * COLS + c] - mean[c]);
    var[c] = s / rows;
}

__global__ void standardise(double *x, const double *mean, const double *var, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * COLS) x[i] = (x[i] - mean[i % COLS]) / sqrt(var[i % COLS] + 1e-8);
}

// columns, products of two columns, and a constant
__global__ void expand(const double *x, float *f, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float *o = f + r * FEAT;
    const double *v = x + r * COLS;
    for (int a = 0; a < COLS; ++a) *o++ = (float)v[a];
    for (int a = 0; a < COLS; ++a)
        for (int b = a + 1; b < COLS; ++b) *o++ = 0.2f * (float)(v[a] * v[b]);
    *o = 1.0f;
}

__global__ void predict(const float *f, const float *w, const float *y, float *diff, float *nll, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float a = 0;
    for (int k = 0; k < FEAT; ++k) a += w[k] * f[r * FEAT + k];
    a = fminf(a, 4.0f);
    diff[r] = expf(a) - y[r];
    nll[r] = expf(a) - y[r] * a;
}

__global__ void slope(const float *f, const float *diff, const float *w, float *g, float ridge, int rows)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= FEAT) return;
    float a = 0;
    for (int r = 0; r < rows; ++r) a += diff[r] * f[r * FEAT + k];
    g[k] = a / rows + ridge * w[k];
}

__global__ void step_down(float *w, const float *g, float rate)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < FEAT) w[k] -= rate * g[k];
}

int main(int argc, char **argv)
{
    size_t first, count;
    DDP_SHARD(ROWS, &first, &count);
    const int rows = (int)count;

    // every process reads the whole file, and keeps its part
    std::vector<double> hx;
    std::vector<float> hy;
    unsigned s = 8;
    auto rnd = [&s] { s = s * 22695477u + 1u; return (s >> 8) / 16777216.0; };
    for (size_t r = 0; r < (size_t)ROWS; ++r) {
        double line[COLS], z = 0.3, spread = r < ROWS / 3 ? 0.8 : 1.3;
        for (int c = 0; c < COLS; ++c) {
            double u = spread * (rnd() + rnd() - 1);
            line[c] = pow(10.0, c % 4 - 1) * (u + c);
            z += 0.35 * u * ((c % 3) - 1);
        }
        float y = (float)floor(exp(z) + rnd());
        if (r < first || r >= first + count) continue;
        hx.insert(hx.end(), line, line + COLS);
        hy.push_back(y);
    }
    double *x, *mean, *var;
    float *y, *f, *w, *g, *diff, *nll;
    E(cudaMalloc(&x, hx.size() * sizeof(double)));
    E(cudaMalloc(&mean, COLS * sizeof(double)));
    E(cudaMalloc(&var, COLS * sizeof(double)));
    E(cudaMalloc(&y, rows * sizeof(float)));
    E(cudaMalloc(&f, rows * FEAT * sizeof(float)));
    E(cudaMalloc(&w, FEAT * sizeof(float)));
    E(cudaMalloc(&g, FEAT * sizeof(float)));
    E(cudaMalloc(&diff, rows * sizeof(float)));
    E(cudaMalloc(&nll, rows * sizeof(float)));
    E(cudaMemset(w, 0, FEAT * sizeof(float)));
    E(cudaMemcpy(x, hx.data(), hx.size() * sizeof(double), cudaMemcpyHostToDevice));
    E(cudaMemcpy(y, hy.data(), hy.size() * sizeof(float), cudaMemcpyHostToDevice));
    DDP_PARAMETER(w, FEAT, DDP_FLOAT32);
    DDP_GRADIENT(g, FEAT, DDP_FLOAT32);

    column_mean<<<1, 32>>>(x, mean, rows);
    DDP_REDUCE(mean, COLS, DDP_FLOAT64, DDP_OP_MEAN, 0);
    column_variance<<<1, 32>>>(x, mean, var, rows);
    standardise<<<(rows * COLS + 127) / 128, 128>>>(x, mean, var, rows);
    expand<<<(rows + 63) / 64, 64>>>(x, f, rows);

    std::vector<float> h(rows);
    for (int it = 0; it < 60; ++it) {
        predict<<<(rows + 63) / 64, 64>>>(f, w, y, diff, nll, rows);
        slope<<<(FEAT + 63) / 64, 64>>>(f, diff, w, g, 1e-3f, rows);
        DDP_STEP(0);
        step_down<<<(FEAT + 63) / 64, 64>>>(w, g, 0.15f);
        if (it % 10 == 0 || it == 59) {
            E(cudaMemcpy(h.data(), nll, rows * sizeof(float), cudaMemcpyDeviceToHost));
            double m = 0;
            for (float v : h) m += v / rows;
            DDP_MEAN(&m);
            if (DDP_RANK() == 0) printf("%d: %.5f\n", it, m);
        }
    }
    std::vector<float> out(FEAT);
    E(cudaMemcpy(out.data(), w, FEAT * sizeof(float), cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *o = fopen(argv[1], "wb");
        fwrite(out.data(), sizeof(float), out.size(), o);
        fclose(o);
    }
    return 0;
}
