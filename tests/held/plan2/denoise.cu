// Denoising autoencoder 16 -> 6 -> 16 with cuBLAS and Adam.
// Input noise is drawn on the host; the noisy and the clean batch are copied each step.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cmath>
#include <random>
#include <vector>
#include <cublas_v2.h>
#include <cuda_runtime.h>

#define CUDA(x) do { if ((x) != cudaSuccess) { printf("CUDA error, line %d\n", __LINE__); exit(1); } } while (0)
#define BLAS(x) do { if ((x) != CUBLAS_STATUS_SUCCESS) { printf("cuBLAS error, line %d\n", __LINE__); exit(1); } } while (0)

const int D = 16, HIDDEN = 6, N = 320, B = 16, STEPS = 96;

cublasHandle_t blas;
std::mt19937 gen(4242);
float noise() { return (gen() >> 9) * (2.0f / 8388608.0f) - 1.0f; }

__global__ void tanh_bias(float *h, const float *b, int rows, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        h[i] = tanhf(h[i] + b[i % rows]);
}

// adds the bias, writes dLoss/dOut and each element's part of the mean squared error
__global__ void out_loss(const float *o, const float *b, const float *clean, float *d, float *se, int rows, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float e = o[i] + b[i % rows] - clean[i];
        se[i] = e * e;
        d[i] = 2.0f * e / n;
    }
}

__global__ void tanh_back(float *d, const float *h, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        d[i] *= 1.0f - h[i] * h[i];
}

__global__ void adam_kernel(float *w, const float *g, float *m, float *v, float lr, float c1, float c2, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    w[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-6f);
}

__global__ void sum_up(float *sum, const float *g, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        sum[i] += g[i];
}

__global__ void to_mean(float *g, float *sum, int r, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        g[i] = sum[i] / r;
        sum[i] = 0;
    }
}

float *device(size_t n)
{
    float *p;
    CUDA(cudaMalloc(&p, n * sizeof(float)));
    CUDA(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

struct Param {
    int n;
    float *w, *g, *m, *v, *sum = nullptr;
    Param(int count, float scale) : n(count), w(device(n)), g(device(n)), m(device(n)), v(device(n))
    {
        std::vector<float> host(n);
        for (auto &x : host)
            x = scale * noise();
        CUDA(cudaMemcpy(w, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    }
    void adam(float lr, int t)
    {
        adam_kernel<<<(n + 63) / 64, 64>>>(w, g, m, v, lr, 1.0f - powf(0.9f, t), 1.0f - powf(0.999f, t), n);
    }
};

// column-major C[m,n] = op(A) op(B)
void gemm(cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const float *a, int lda, const float *b, int ldb, float *c)
{
    const float one = 1, zero = 0;
    BLAS(cublasSgemm(blas, ta, tb, m, n, k, &one, a, lda, b, ldb, &zero, c, m));
}

int main(int argc, char **argv)
{
    const char *path = nullptr;
    int ranks = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--save")) path = argv[++i];
        else if (!strcmp(argv[i], "--oracle")) ranks = atoi(argv[++i]);
    }
    // data: points of a curved two-dimensional sheet in 16 dimensions
    std::vector<float> data(N * D), dirs(4 * D);
    for (auto &x : dirs) x = noise();
    for (int i = 0; i < N; i++) {
        float a = noise(), b = noise();
        for (int j = 0; j < D; j++)
            data[i * D + j] = 0.6f * (a * dirs[j] + b * dirs[D + j] + a * b * dirs[2 * D + j] + a * a * dirs[3 * D + j]);
    }
    BLAS(cublasCreate(&blas));
    Param w1(HIDDEN * D, 0.4f), b1(HIDDEN, 0.05f), w2(D * HIDDEN, 0.4f), b2(D, 0.05f);
    Param *params[] = {&w1, &b1, &w2, &b2};
    if (ranks > 0)
        for (Param *p : params) p->sum = device(p->n);
    float *noisy = device(B * D), *clean = device(B * D), *h = device(B * HIDDEN), *dh = device(B * HIDDEN);
    float *o = device(B * D), *d = device(B * D), *se = device(B * D), *ones = device(B);
    std::vector<float> host(B * D), one(B, 1.0f);
    CUDA(cudaMemcpy(ones, one.data(), B * sizeof(float), cudaMemcpyHostToDevice));

    int t = 0, waiting = 0;
    for (int step = 0; step < STEPS; step++) {
        const float *x = &data[(step * B) % N * D];
        for (int i = 0; i < B * D; i++)
            host[i] = x[i] + 0.2f * noise();
        CUDA(cudaMemcpy(clean, x, B * D * sizeof(float), cudaMemcpyHostToDevice));
        CUDA(cudaMemcpy(noisy, host.data(), B * D * sizeof(float), cudaMemcpyHostToDevice));
        gemm(CUBLAS_OP_N, CUBLAS_OP_N, HIDDEN, B, D, w1.w, HIDDEN, noisy, D, h);
        tanh_bias<<<(B * HIDDEN + 63) / 64, 64>>>(h, b1.w, HIDDEN, B * HIDDEN);
        gemm(CUBLAS_OP_N, CUBLAS_OP_N, D, B, HIDDEN, w2.w, D, h, HIDDEN, o);
        out_loss<<<(B * D + 63) / 64, 64>>>(o, b2.w, clean, d, se, D, B * D);
        gemm(CUBLAS_OP_N, CUBLAS_OP_T, D, HIDDEN, B, d, D, h, HIDDEN, w2.g);
        gemm(CUBLAS_OP_N, CUBLAS_OP_N, D, 1, B, d, D, ones, B, b2.g);
        gemm(CUBLAS_OP_T, CUBLAS_OP_N, HIDDEN, B, D, w2.w, D, d, D, dh);
        tanh_back<<<(B * HIDDEN + 63) / 64, 64>>>(dh, h, B * HIDDEN);
        gemm(CUBLAS_OP_N, CUBLAS_OP_T, HIDDEN, D, B, dh, HIDDEN, noisy, D, w1.g);
        gemm(CUBLAS_OP_N, CUBLAS_OP_N, HIDDEN, 1, B, dh, HIDDEN, ones, B, b1.g);
        if (step % 12 == 0) {
            float mse;
            BLAS(cublasSasum(blas, B * D, se, 1, &mse));
            printf("%3d: mse %.5f\n", step, mse / (B * D));
        }
        if (ranks > 0) {
            for (Param *p : params) sum_up<<<(p->n + 63) / 64, 64>>>(p->sum, p->g, p->n);
            if (++waiting < ranks) continue;
            waiting = 0;
            for (Param *p : params) to_mean<<<(p->n + 63) / 64, 64>>>(p->g, p->sum, ranks, p->n);
        }
        ++t;
        for (Param *p : params) p->adam(0.01f, t);
    }
    if (path) {
        FILE *f = fopen(path, "w");
        for (Param *p : params) {
            std::vector<float> w(p->n);
            CUDA(cudaMemcpy(w.data(), p->w, p->n * sizeof(float), cudaMemcpyDeviceToHost));
            for (float x : w) fprintf(f, "%.9g\n", x);
        }
        fclose(f);
    }
    BLAS(cublasDestroy(blas));
    return 0;
}
