// Autoencoder for glass-thickness profiles, with cuBLAS and a heavy-ball optimizer.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

constexpr int D = 32, Z = 6, B = 64, N = 1024;

static uint64_t word = 0x9e3779b97f4a7c15ULL;
static float rnd()
{
    word ^= word << 13; word ^= word >> 7; word ^= word << 17;
    return (word >> 40) / 8388608.0f - 1.0f;
}

__global__ void activate(float *a, const float *bias, int width, int total)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) a[i] = tanhf(a[i] + bias[i % width]);
}

__global__ void residual(float *out, const float *bias, const float *x, float *sq, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * D) return;
    float e = out[i] + bias[i % D] - x[i];
    sq[i] = e * e;
    out[i] = e / rows;
}

__global__ void through_tanh(float *d, const float *a, int total)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < total) d[i] *= 1 - a[i] * a[i];
}

__global__ void column_sum(const float *d, float *db, int width, int rows)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= width) return;
    float s = 0;
    for (int r = 0; r < rows; ++r) s += d[r * width + j];
    db[j] = s;
}

__global__ void heavy_ball(float *vel, const float *g, int n, float mu)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) vel[i] = mu * vel[i] + g[i];
}

__global__ void descend(float *w, const float *vel, int n, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= rate * vel[i];
}

class Autoencoder {
public:
    explicit Autoencoder(cublasHandle_t h) : blas(h)
    {
        const int sizes[4] = {D * Z, Z, Z * D, D};
        for (int t = 0; t < 4; ++t) {
            n[t] = sizes[t];
            std::vector<float> init(n[t], 0.0f);
            if (t % 2 == 0) for (auto &e : init) e = 0.35f * rnd();
            cudaMalloc(&w[t], n[t] * 4); cudaMalloc(&g[t], n[t] * 4); cudaMalloc(&vel[t], n[t] * 4);
            cudaMemcpy(w[t], init.data(), n[t] * 4, cudaMemcpyHostToDevice);
            cudaMemset(vel[t], 0, n[t] * 4);
        }
        for (int t = 0; t < 4; ++t) {
            DDP_PARAMETER(w[t], n[t], DDP_FLOAT32);
            DDP_GRADIENT(g[t], n[t], DDP_FLOAT32);
        }
        cudaMalloc(&code, B * Z * 4); cudaMalloc(&out, B * D * 4); cudaMalloc(&dcode, B * Z * 4); cudaMalloc(&sq, B * D * 4);
    }

    // All matrices are row-major: C(r x c) = A(r x k) B(k x c) is computed as the transposes.
    void gemm(bool ta, bool tb, int r, int c, int k, const float *a, const float *b, float *to)
    {
        const float one = 1, zero = 0;
        cublasSgemm(blas, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N, c, r, k, &one, b, tb ? k : c, a,
                    ta ? r : k, &zero, to, c);
    }

    void pass(const float *x, int rows)
    {
        gemm(false, false, rows, Z, D, x, w[0], code);
        activate<<<(rows * Z + 63) / 64, 64>>>(code, w[1], Z, rows * Z);
        gemm(false, false, rows, D, Z, code, w[2], out);
        residual<<<(rows * D + 63) / 64, 64>>>(out, w[3], x, sq, rows);
        gemm(true, false, Z, D, rows, code, out, g[2]);
        column_sum<<<1, D>>>(out, g[3], D, rows);
        gemm(false, true, rows, Z, D, out, w[2], dcode);
        through_tanh<<<(rows * Z + 63) / 64, 64>>>(dcode, code, rows * Z);
        gemm(true, false, D, Z, rows, x, dcode, g[0]);
        column_sum<<<1, Z>>>(dcode, g[1], Z, rows);
        for (int t = 0; t < 4; ++t) heavy_ball<<<(n[t] + 63) / 64, 64>>>(vel[t], g[t], n[t], 0.85f);
    }

    void update(float rate)
    {
        for (int t = 0; t < 4; ++t) descend<<<(n[t] + 63) / 64, 64>>>(w[t], vel[t], n[t], rate);
    }

    double loss(int rows)
    {
        std::vector<float> e(rows * D);
        cudaMemcpy(e.data(), sq, e.size() * 4, cudaMemcpyDeviceToHost);
        double s = 0;
        for (float v : e) s += v;
        return s / rows;
    }

    void save(const char *name)
    {
        FILE *f = fopen(name, "w");
        for (int t = 0; t < 4; ++t) {
            std::vector<float> v(n[t]);
            cudaMemcpy(v.data(), w[t], n[t] * 4, cudaMemcpyDeviceToHost);
            for (float e : v) fprintf(f, "%.9g\n", e);
        }
        fclose(f);
    }

private:
    cublasHandle_t blas;
    float *w[4], *g[4], *vel[4], *code, *out, *dcode, *sq;
    int n[4];
};

int main(int argc, char **argv)
{
    const int steps = argc > 2 ? atoi(argv[2]) : 60;
    std::vector<float> data(N * D);
    for (int i = 0; i < N; ++i) {
        float a = rnd(), b = rnd(), c = rnd();
        for (int k = 0; k < D; ++k)
            data[i * D + k] = a * sinf(0.2f * k) + b * cosf(0.35f * k) + 0.6f * c * sinf(0.5f * k + a) + 0.15f * rnd();
    }
    float *x;
    cudaMalloc(&x, data.size() * 4);
    cudaMemcpy(x, data.data(), data.size() * 4, cudaMemcpyHostToDevice);
    cublasHandle_t blas;
    cublasCreate(&blas);
    Autoencoder net(blas);
    for (int s = 0; s < steps; ++s) {
        size_t first, count;
        DDP_SHARD(B, &first, &count);
        net.pass(x + ((s * B) % N + first) * D, (int)count);
        DDP_STEP(0);
        net.update(0.01f);
        if (s % 15 == 0 || s + 1 == steps) {
            double l = net.loss((int)count);
            DDP_MEAN_AS("reconstruction", &l);
            if (DDP_RANK() == 0) printf("%d: %.4f\n", s, l);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) net.save(argv[1]);
    cublasDestroy(blas);
    return 0;
}
