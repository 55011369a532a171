// Two-layer perceptron on three interleaved spirals. cuBLAS for the products, plain kernels for the rest.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include "ddprun.h"

#define CK(call)                                                                       \
    do {                                                                               \
        cudaError_t e_ = (call);                                                       \
        if (e_ != cudaSuccess) {                                                       \
            fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e_)); \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

static const int kIn = 6, kHidden = 48, kClasses = 3, kBatch = 96, kData = 960, kSteps = 60;

struct Rng {
    unsigned s;
    float uniform()
    {
        s = s * 1664525u + 1013904223u;
        return (float)(s >> 8) / 16777216.0f;
    }
    float normal() { return uniform() + uniform() + uniform() + uniform() - 2.0f; }
};

struct Tensor {
    float *value, *grad;
    size_t n;
    explicit Tensor(const std::vector<float> &init) : n(init.size())
    {
        CK(cudaMalloc(&value, n * sizeof(float)));
        CK(cudaMalloc(&grad, n * sizeof(float)));
        CK(cudaMemcpy(value, init.data(), n * sizeof(float), cudaMemcpyHostToDevice));
        CK(cudaMemset(grad, 0, n * sizeof(float)));
        DDP_PARAMETER(value, n, DDP_FLOAT32);
        DDP_GRADIENT(grad, n, DDP_FLOAT32);
    }
};

static std::vector<float> gaussian(size_t n, float scale, Rng &rng)
{
    std::vector<float> v(n);
    for (float &x : v)
        x = scale * rng.normal();
    return v;
}

__global__ void bias_relu(float *h, const float *b, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols)
        h[i] = fmaxf(h[i] + b[i % cols], 0.0f);
}

// Turns logits into (softmax - onehot) / rows and leaves each row's loss.
__global__ void softmax_xent(float *z, const float *b, const int *label, float *loss, int rows, int cols)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    float *p = z + r * cols, top = -1e30f, sum = 0.0f;
    for (int c = 0; c < cols; ++c) {
        p[c] += b[c];
        top = fmaxf(top, p[c]);
    }
    for (int c = 0; c < cols; ++c)
        sum += expf(p[c] - top);
    loss[r] = logf(sum) + top - p[label[r]];
    for (int c = 0; c < cols; ++c)
        p[c] = (expf(p[c] - top) / sum - (c == label[r] ? 1.0f : 0.0f)) / rows;
}

__global__ void relu_back(float *dh, const float *h, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && h[i] <= 0.0f)
        dh[i] = 0.0f;
}

__global__ void column_sum(const float *m, float *out, int rows, int cols)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= cols)
        return;
    float s = 0.0f;
    for (int r = 0; r < rows; ++r)
        s += m[r * cols + c];
    out[c] = s;
}

__global__ void sgd(float *w, const float *g, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        w[i] -= lr * g[i];
}

static inline int blocks(size_t n) { return (int)((n + 127) / 128); }

// Row-major C[m,n] = op(A) op(B).
static void matmul(cublasHandle_t h, bool ta, bool tb, int m, int n, int k, const float *a, const float *b, float *c)
{
    const float one = 1.0f, zero = 0.0f;
    cublasSgemm(h, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, b, tb ? k : n, a,
                ta ? m : k, &zero, c, n);
}

int main(int argc, char **argv)
{
    Rng rng = {20240u};
    std::vector<float> hx(kData * kIn);
    std::vector<int> hy(kData);
    for (int i = 0; i < kData; ++i) {
        int c = (int)(rng.uniform() * kClasses) % kClasses;
        float t = rng.uniform(), a = 2.1f * c + 3.0f * t + 0.1f * rng.normal();
        float x = (0.2f + t) * cosf(a), y = (0.2f + t) * sinf(a);
        float f[kIn] = {x, y, x * y, x * x, y * y, sinf(3 * x)};
        for (int j = 0; j < kIn; ++j)
            hx[i * kIn + j] = f[j];
        hy[i] = c;
    }
    float *x, *h, *z, *dh, *loss;
    int *y;
    CK(cudaMalloc(&x, hx.size() * sizeof(float)));
    CK(cudaMalloc(&y, hy.size() * sizeof(int)));
    CK(cudaMalloc(&h, kBatch * kHidden * sizeof(float)));
    CK(cudaMalloc(&dh, kBatch * kHidden * sizeof(float)));
    CK(cudaMalloc(&z, kBatch * kClasses * sizeof(float)));
    CK(cudaMalloc(&loss, kBatch * sizeof(float)));
    CK(cudaMemcpy(x, hx.data(), hx.size() * sizeof(float), cudaMemcpyHostToDevice));
    CK(cudaMemcpy(y, hy.data(), hy.size() * sizeof(int), cudaMemcpyHostToDevice));

    Tensor w1(gaussian(kIn * kHidden, 0.7f, rng)), b1(std::vector<float>(kHidden, 0.0f));
    Tensor w2(gaussian(kHidden * kClasses, 0.3f, rng)), b2(std::vector<float>(kClasses, 0.0f));
    Tensor *all[] = {&w1, &b1, &w2, &b2};

    cublasHandle_t blas;
    cublasCreate(&blas);
    const float lr_peak = 0.6f, budget = (float)kSteps * kBatch;
    size_t seen = 0;
    for (int step = 0; step < kSteps; ++step) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        int at = (step * kBatch) % kData + (int)first, n = (int)count;
        const float *xb = x + at * kIn;
        const int *yb = y + at;

        matmul(blas, false, false, n, kHidden, kIn, xb, w1.value, h);
        bias_relu<<<blocks(n * kHidden), 128>>>(h, b1.value, n, kHidden);
        matmul(blas, false, false, n, kClasses, kHidden, h, w2.value, z);
        softmax_xent<<<blocks(n), 128>>>(z, b2.value, yb, loss, n, kClasses);
        matmul(blas, true, false, kHidden, kClasses, n, h, z, w2.grad);
        column_sum<<<1, 128>>>(z, b2.grad, n, kClasses);
        matmul(blas, false, true, n, kHidden, kClasses, z, w2.value, dh);
        relu_back<<<blocks(n * kHidden), 128>>>(dh, h, n * kHidden);
        matmul(blas, true, false, kIn, kHidden, n, xb, dh, w1.grad);
        column_sum<<<1, 128>>>(dh, b1.grad, n, kHidden);
        DDP_STEP(0);

        seen += count;
        float progress = fminf(seen / budget, 1.0f);
        float lr = lr_peak * (0.02f + 0.98f * 0.5f * (1.0f + cosf(3.14159265f * progress)));
        for (Tensor *t : all)
            sgd<<<blocks(t->n), 128>>>(t->value, t->grad, lr, (int)t->n);

        if (step % 10 == 0 || step == kSteps - 1) {
            std::vector<float> l(n);
            CK(cudaMemcpy(l.data(), loss, n * sizeof(float), cudaMemcpyDeviceToHost));
            float mean = 0.0f;
            for (float v : l)
                mean += v / n;
            DDP_MEAN_AS("loss", &mean);
            if (DDP_RANK() == 0)
                printf("step %3d loss %.4f\n", step, mean);
        }
    }
    CK(cudaDeviceSynchronize());
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        for (Tensor *t : all) {
            std::vector<float> v(t->n);
            CK(cudaMemcpy(v.data(), t->value, t->n * sizeof(float), cudaMemcpyDeviceToHost));
            fwrite(v.data(), sizeof(float), v.size(), f);
        }
        fclose(f);
    }
    cublasDestroy(blas);
    return 0;
}
