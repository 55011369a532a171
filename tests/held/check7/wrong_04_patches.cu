// Sparse autoencoder, sigmoid units, Bernoulli sparsity penalty on the hidden code. cuBLAS, column-major.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#include "ddprun.h"

#define CU(e) if ((e) != cudaSuccess) { fprintf(stderr, "cuda error, line %d\n", __LINE__); exit(2); }
#define CB(e) if ((e) != CUBLAS_STATUS_SUCCESS) { fprintf(stderr, "cublas error, line %d\n", __LINE__); exit(2); }

static const int V = 36, K = 20, BATCH = 48, TOTAL = 480;

static unsigned long long seed = 4242;
static float frand() { seed = seed * 2862933555777941757ULL + 3037000493ULL; return (float)((seed >> 33) & 0xffffff) / 16777216.f; }

__global__ void sigmoid_bias(float *a, const float *b, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) a[i] = 1.f / (1.f + expf(-(a[i] + b[i % rows])));
}

__global__ void output_delta(const float *r, const float *x, float *d, float *err, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * cols) return;
    float e = r[i] - x[i];
    err[i] = 0.5f * e * e;
    d[i] = e * r[i] * (1.f - r[i]);
}

__global__ void row_mean(const float *a, float *m, int rows, int cols)
{
    int j = threadIdx.x;
    if (j >= rows) return;
    float s = 0;
    for (int c = 0; c < cols; ++c) s += a[c * rows + j];
    m[j] = s / cols;
}

__global__ void hidden_delta(float *d, const float *h, const float *mean_act, float beta, float target, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * cols) return;
    float q = fminf(fmaxf(mean_act[i % rows], 0.01f), 0.99f);
    float pen = beta * ((1.f - target) / (1.f - q) - target / q);
    d[i] = (d[i] + pen) * h[i] * (1.f - h[i]);
}

__global__ void update(float *w, const float *g, float *v, float lr, float mom, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { v[i] = mom * v[i] - lr * g[i]; w[i] += v[i]; }
}

struct Tensor {
    float *val, *grad, *vel;
    int n;
    void make(int size, float range)
    {
        n = size;
        std::vector<float> h(n);
        for (float &f : h) f = (frand() - .5f) * 2 * range;
        CU(cudaMalloc(&val, n * sizeof(float)));
        CU(cudaMalloc(&grad, n * sizeof(float)));
        CU(cudaMalloc(&vel, n * sizeof(float)));
        CU(cudaMemset(vel, 0, n * sizeof(float)));
        CU(cudaMemcpy(val, h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
        DDP_PARAMETER(val, n, DDP_FLOAT32);
        DDP_STATE(vel, n, DDP_FLOAT32);
        DDP_GRADIENT(grad, n, DDP_FLOAT32);
    }
    void step(float lr) { update<<<(n + 127) / 128, 128>>>(val, grad, vel, lr, 0.8f, n); }
};

int main(int argc, char **argv)
{
    std::vector<float> data(V * TOTAL), proto(8 * V), ones(BATCH, 1.f);
    for (float &f : proto) f = frand() < .3f ? 1.f : 0.f;
    for (int t = 0; t < TOTAL; ++t) {
        int a = (int)(frand() * 8) % 8, b = (int)(frand() * 8) % 8;
        for (int i = 0; i < V; ++i) data[t * V + i] = 0.1f + 0.8f * fmaxf(proto[a * V + i], frand() < .5f ? proto[b * V + i] : 0.f);
    }
    float *x, *one, *h, *r, *dh, *dr, *err, *rho_hat;
    CU(cudaMalloc(&x, data.size() * 4)); CU(cudaMalloc(&one, BATCH * 4));
    CU(cudaMalloc(&h, K * BATCH * 4)); CU(cudaMalloc(&dh, K * BATCH * 4));
    CU(cudaMalloc(&r, V * BATCH * 4)); CU(cudaMalloc(&dr, V * BATCH * 4));
    CU(cudaMalloc(&err, V * BATCH * 4)); CU(cudaMalloc(&rho_hat, K * 4));
    CU(cudaMemcpy(x, data.data(), data.size() * 4, cudaMemcpyHostToDevice));
    CU(cudaMemcpy(one, ones.data(), BATCH * 4, cudaMemcpyHostToDevice));
    Tensor w1, b1, w2, b2;
    w1.make(K * V, .3f); b1.make(K, .1f); w2.make(V * K, .3f); b2.make(V, .1f);
    cublasHandle_t blas;
    CB(cublasCreate(&blas));
    const float zero = 0.f, unit = 1.f;

    for (int it = 0; it < 60; ++it) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        const int n = (int)count;
        const float inv = 1.f / n;
        const float *bx = x + ((size_t)(it * BATCH) % TOTAL + first) * V;
        CB(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, K, n, V, &unit, w1.val, K, bx, V, &zero, h, K));
        sigmoid_bias<<<(K * n + 63) / 64, 64>>>(h, b1.val, K, n);
        CB(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, V, n, K, &unit, w2.val, V, h, K, &zero, r, V));
        sigmoid_bias<<<(V * n + 63) / 64, 64>>>(r, b2.val, V, n);
        output_delta<<<(V * n + 63) / 64, 64>>>(r, bx, dr, err, V, n);
        row_mean<<<1, 32>>>(h, rho_hat, K, n);
        CB(cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, K, n, V, &unit, w2.val, V, dr, V, &zero, dh, K));
        hidden_delta<<<(K * n + 63) / 64, 64>>>(dh, h, rho_hat, 0.4f, 0.1f, K, n);
        CB(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, V, K, n, &inv, dr, V, h, K, &zero, w2.grad, V));
        CB(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, K, V, n, &inv, dh, K, bx, V, &zero, w1.grad, K));
        CB(cublasSgemv(blas, CUBLAS_OP_N, V, n, &inv, dr, V, one, 1, &zero, b2.grad, 1));
        CB(cublasSgemv(blas, CUBLAS_OP_N, K, n, &inv, dh, K, one, 1, &zero, b1.grad, 1));
        DDP_STEP(0);
        w1.step(.25f); b1.step(.25f); w2.step(.25f); b2.step(.25f);
        if (it % 12 == 0 || it == 59) {
            std::vector<float> e(V * n);
            CU(cudaMemcpy(e.data(), err, e.size() * 4, cudaMemcpyDeviceToHost));
            double s = 0;
            for (float f : e) s += f;
            s /= n;
            DDP_MEAN(&s);
            if (DDP_RANK() == 0) printf("%d: reconstruction %.4f\n", it, s);
        }
    }
    FILE *f = argc > 1 && DDP_RANK() == 0 ? fopen(argv[1], "wb") : NULL;
    Tensor *all[] = {&w1, &b1, &w2, &b2};
    for (Tensor *t : all) {
        std::vector<float> v(t->n);
        CU(cudaMemcpy(v.data(), t->val, t->n * 4, cudaMemcpyDeviceToHost));
        if (f) fwrite(v.data(), 4, v.size(), f);
    }
    if (f) fclose(f);
    cublasDestroy(blas);
    return 0;
}
