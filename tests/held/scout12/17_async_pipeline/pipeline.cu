// Softmax classifier with one hidden layer; double buffered uploads on a copy stream, compute on another, pinned staging.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <random>
#include <vector>
#include <cublas_v2.h>
#include <cuda_runtime.h>

#define CK(x) if ((x) != cudaSuccess) { printf("fail %s line %d\n", #x, __LINE__); exit(1); }

namespace cfg {
constexpr int features = 32, hidden = 64, classes = 8, batch = 96, steps = 120, pool = 4800;
}

struct Slot {
    float *h_x, *d_x;
    int *h_y, *d_y;
    cudaEvent_t ready, consumed;
};

__global__ void biasRelu(float *a, const float *b, int rows, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) a[i] = fmaxf(a[i] + b[i % rows], 0.f);
}
__global__ void softmaxGrad(float *z, const float *b, const int *y, int c, int n, float inv, float *loss)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float *r = z + i * c, m = -1e30f, s = 0;
    for (int k = 0; k < c; k++) { r[k] += b[k]; m = fmaxf(m, r[k]); }
    for (int k = 0; k < c; k++) { r[k] = expf(r[k] - m); s += r[k]; }
    for (int k = 0; k < c; k++) {
        float p = r[k] / s;
        if (k == y[i]) atomicAdd(loss, -logf(p + 1e-8f) * inv);
        r[k] = (p - (k == y[i] ? 1.f : 0.f)) * inv;
    }
}
__global__ void reluMask(float *d, const float *a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && a[i] <= 0.f) d[i] = 0.f;
}
__global__ void nesterov(float *w, const float *g, float *v, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float old = v[i];
    v[i] = 0.9f * old - lr * g[i];
    w[i] += -0.9f * old + 1.9f * v[i];
}
__global__ void setOne(float *p, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = 1.f;
}

int main()
{
    using namespace cfg;
    std::mt19937 rng(123);
    std::normal_distribution<float> N(0.f, 1.f);
    std::vector<float> mu(classes * features), X(pool * features);
    std::vector<int> Y(pool);
    for (auto &m : mu) m = N(rng) * 0.7f;
    for (int i = 0; i < pool; i++) {
        Y[i] = rng() % classes;
        for (int f = 0; f < features; f++) X[i * features + f] = mu[Y[i] * features + f] + N(rng);
    }

    cudaStream_t copy, compute;
    CK(cudaStreamCreate(&copy));
    CK(cudaStreamCreate(&compute));
    cublasHandle_t blas;
    cublasCreate(&blas);
    cublasSetStream(blas, compute);

    const int n1 = hidden * features, n2 = classes * hidden;
    float *W1, *b1, *W2, *b2, *gW1, *gb1, *gW2, *gb2, *v1, *vb1, *v2, *vb2;
    struct { float **w, **g, **v; int n; } P[] = {
        { &W1, &gW1, &v1, n1 }, { &b1, &gb1, &vb1, hidden }, { &W2, &gW2, &v2, n2 }, { &b2, &gb2, &vb2, classes }
    };
    for (auto &p : P) {
        CK(cudaMalloc(p.w, p.n * sizeof(float)));
        CK(cudaMalloc(p.g, p.n * sizeof(float)));
        CK(cudaMalloc(p.v, p.n * sizeof(float)));
        CK(cudaMemsetAsync(*p.v, 0, p.n * sizeof(float), compute));
        std::vector<float> h(p.n, 0.f);
        if (p.n > hidden) for (auto &x : h) x = 0.15f * N(rng);
        CK(cudaMemcpy(*p.w, h.data(), p.n * sizeof(float), cudaMemcpyHostToDevice));
    }
    float *A, *Zb, *dA, *one_v, *d_loss;
    CK(cudaMalloc(&A, hidden * batch * sizeof(float)));
    CK(cudaMalloc(&Zb, classes * batch * sizeof(float)));
    CK(cudaMalloc(&dA, hidden * batch * sizeof(float)));
    CK(cudaMalloc(&one_v, batch * sizeof(float)));
    CK(cudaMalloc(&d_loss, steps * sizeof(float)));
    CK(cudaMemset(d_loss, 0, steps * sizeof(float)));
    setOne<<<1, 128, 0, compute>>>(one_v, batch);

    Slot slot[2];
    for (Slot &s : slot) {
        CK(cudaMallocHost((void **)&s.h_x, batch * features * sizeof(float)));
        CK(cudaMallocHost((void **)&s.h_y, batch * sizeof(int)));
        CK(cudaMalloc(&s.d_x, batch * features * sizeof(float)));
        CK(cudaMalloc(&s.d_y, batch * sizeof(int)));
        CK(cudaEventCreateWithFlags(&s.ready, cudaEventDisableTiming));
        CK(cudaEventCreateWithFlags(&s.consumed, cudaEventDisableTiming));
    }
    int cursor = 0;
    auto prefetch = [&](Slot &s) {
        cudaEventSynchronize(s.ready);                      // staging memory is free again
        for (int i = 0; i < batch; i++) {
            int k = (cursor + i) % pool;
            for (int f = 0; f < features; f++) s.h_x[i * features + f] = X[k * features + f];
            s.h_y[i] = Y[k];
        }
        cursor = (cursor + batch) % pool;
        cudaStreamWaitEvent(copy, s.consumed, 0);
        cudaMemcpyAsync(s.d_x, s.h_x, batch * features * sizeof(float), cudaMemcpyHostToDevice, copy);
        cudaMemcpyAsync(s.d_y, s.h_y, batch * sizeof(int), cudaMemcpyHostToDevice, copy);
        cudaEventRecord(s.ready, copy);
    };

    const float one = 1.f, zero = 0.f;
    prefetch(slot[0]);
    for (int t = 0; t < steps; t++) {
        Slot &s = slot[t & 1];
        if (t + 1 < steps) prefetch(slot[(t + 1) & 1]);
        cudaStreamWaitEvent(compute, s.ready, 0);

        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, hidden, batch, features, &one, W1, hidden, s.d_x, features, &zero, A, hidden);
        biasRelu<<<(hidden * batch + 127) / 128, 128, 0, compute>>>(A, b1, hidden, hidden * batch);
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, classes, batch, hidden, &one, W2, classes, A, hidden, &zero, Zb, classes);
        softmaxGrad<<<(batch + 31) / 32, 32, 0, compute>>>(Zb, b2, s.d_y, classes, batch, 1.f / batch, d_loss + t);

        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, classes, hidden, batch, &one, Zb, classes, A, hidden, &zero, gW2, classes);
        cublasSgemv(blas, CUBLAS_OP_N, classes, batch, &one, Zb, classes, one_v, 1, &zero, gb2, 1);
        cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, hidden, batch, classes, &one, W2, classes, Zb, classes, &zero, dA, hidden);
        reluMask<<<(hidden * batch + 127) / 128, 128, 0, compute>>>(dA, A, hidden * batch);
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, hidden, features, batch, &one, dA, hidden, s.d_x, features, &zero, gW1, hidden);
        cublasSgemv(blas, CUBLAS_OP_N, hidden, batch, &one, dA, hidden, one_v, 1, &zero, gb1, 1);
        cudaEventRecord(s.consumed, compute);

        float lr = 0.05f / (1 + 0.01f * t);
        for (auto &p : P) nesterov<<<(p.n + 127) / 128, 128, 0, compute>>>(*p.w, *p.g, *p.v, p.n, lr);
    }
    float h_loss[steps];
    CK(cudaMemcpyAsync(h_loss, d_loss, sizeof(h_loss), cudaMemcpyDeviceToHost, compute));
    CK(cudaStreamSynchronize(compute));
    for (int t = 0; t < steps; t += 17) printf("step %d loss %.5f\n", t, h_loss[t]);
    printf("final loss %.5f\n", h_loss[steps - 1]);
    cublasDestroy(blas);
    return 0;
}
