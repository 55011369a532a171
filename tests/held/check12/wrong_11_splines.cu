// Regression on radial basis functions with a smoothness penalty on neighbouring coefficients.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

static const int POINTS = 600, BASES = 40, BATCH = 60, STEPS = 60;

struct Handle {
    cublasHandle_t h;
    Handle() { if (cublasCreate(&h) != CUBLAS_STATUS_SUCCESS) std::exit(2); }
    ~Handle() { cublasDestroy(h); }
};

__global__ void features(const float *x, float *phi, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * BASES) return;
    float c = (t % BASES) / (BASES - 1.0f), d = (x[t / BASES] - c) * 14.0f;
    phi[t] = expf(-0.5f * d * d);
}

__global__ void subtract(float *r, const float *y, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) r[t] -= y[t];
}

// g += lambda * D'D w, D the matrix of first differences
__global__ void add_roughness(float *g, const float *w, float lambda)
{
    int k = threadIdx.x;
    if (k >= BASES) return;
    float s = 0;
    if (k > 0) s += w[k] - w[k - 1];
    if (k < BASES - 1) s += w[k] - w[k + 1];
    g[k] += lambda * s;
}

__global__ void momentum_step(float *w, const float *g, float *v, float rate)
{
    int k = threadIdx.x;
    if (k >= BASES) return;
    v[k] = 0.9f * v[k] - rate * g[k];
    w[k] += v[k];
}

class Spline {
    Handle blas_;
    float *w_, *g_, *v_, *phi_, *r_;
    float lambda_;
public:
    explicit Spline(float lambda) : lambda_(lambda)
    {
        cudaMalloc(&w_, BASES * 4); cudaMalloc(&g_, BASES * 4); cudaMalloc(&v_, BASES * 4);
        cudaMalloc(&phi_, BATCH * BASES * 4); cudaMalloc(&r_, BATCH * 4);
        cudaMemset(w_, 0, BASES * 4); cudaMemset(v_, 0, BASES * 4);
        DDP_PARAMETER(w_, BASES, DDP_FLOAT32);
        DDP_GRADIENT(g_, BASES, DDP_FLOAT32);
        DDP_STATE(v_, BASES, DDP_FLOAT32);
    }
    ~Spline() { cudaFree(w_); cudaFree(g_); cudaFree(v_); cudaFree(phi_); cudaFree(r_); }
    // returns the mean square error of the n points
    float backward(const float *x, const float *y, int n)
    {
        const float one = 1, zero = 0, scale = 1.0f / n;
        float sq = 0;
        features<<<(n * BASES + 127) / 128, 128>>>(x, phi_, n);
        cublasSgemv(blas_.h, CUBLAS_OP_T, BASES, n, &one, phi_, BASES, w_, 1, &zero, r_, 1);
        subtract<<<1, 128>>>(r_, y, n);
        cublasSgemv(blas_.h, CUBLAS_OP_N, BASES, n, &one, phi_, BASES, r_, 1, &zero, g_, 1);
        add_roughness<<<1, 64>>>(g_, w_, lambda_);
        cublasSscal(blas_.h, BASES, &scale, g_, 1);
        cublasSdot(blas_.h, n, r_, 1, r_, 1, &sq);
        return sq / n;
    }
    void step(float rate) { momentum_step<<<1, 64>>>(w_, g_, v_, rate); }
    std::vector<float> weights() const
    {
        std::vector<float> h(BASES);
        cudaMemcpy(h.data(), w_, BASES * 4, cudaMemcpyDeviceToHost);
        return h;
    }
};

int main(int argc, char **argv)
{
    std::vector<float> x(POINTS), y(POINTS);
    unsigned s = 11;
    auto next = [&s]() { s = s * 1664525u + 1013904223u; return (s >> 8) / 16777216.0f; };
    for (int i = 0; i < POINTS; ++i) {
        x[i] = next();
        y[i] = sinf(9.0f * x[i]) + 0.4f * cosf(23.0f * x[i]) + 0.4f * (next() - 0.5f);
    }
    float *dx, *dy;
    cudaMalloc(&dx, POINTS * 4); cudaMalloc(&dy, POINTS * 4);
    cudaMemcpy(dx, x.data(), POINTS * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), POINTS * 4, cudaMemcpyHostToDevice);

    Spline spline(1.5f);
    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t at = (size_t)(step * BATCH) % POINTS + first;
        float mse = spline.backward(dx + at, dy + at, (int)count);
        DDP_STEP(0);
        spline.step(0.15f);
        DDP_MEAN_AS("mse", &mse);
        if (DDP_RANK() == 0 && (step % 10 == 0 || step == STEPS - 1)) std::printf("step %d mse %.5f\n", step, mse);
    }
    std::vector<float> w = spline.weights();
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        std::fwrite(w.data(), 4, w.size(), f);
        std::fclose(f);
    }
    return 0;
}
