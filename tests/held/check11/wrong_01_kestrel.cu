// Two-tower retrieval model: a query tower and an item tower, linear, trained on (query, item) pairs.
// Each query is scored against the items of the batch; its own item is the answer.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#include "ddprun.h"

#define CHECK(x)                                                                   \
    do {                                                                           \
        if ((x) != 0) {                                                            \
            fprintf(stderr, "%s:%d: %s failed\n", __FILE__, __LINE__, #x);         \
            exit(1);                                                               \
        }                                                                          \
    } while (0)

static const int kPairs = 512, kBatch = 32, kIn = 24, kEmb = 12;
static const float kTau = 1.0f, kRate = 0.15f;

static unsigned long long g_state = 88172645463325252ull;
static float uniform()
{
    g_state ^= g_state << 13;
    g_state ^= g_state >> 7;
    g_state ^= g_state << 17;
    return (float)((g_state >> 40) / 16777216.0);
}
static float normal()
{
    float s = 0;
    for (int i = 0; i < 12; ++i)
        s += uniform();
    return s - 6.0f;
}

// Row-major C[m,n] = alpha * op(A) op(B)
static void matmul(cublasHandle_t h, bool ta, bool tb, int m, int n, int k, float alpha, const float *a, const float *b,
                   float *c)
{
    const float zero = 0;
    CHECK(cublasSgemm(h, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &alpha, b,
                      tb ? k : n, a, ta ? m : k, &zero, c, n));
}

// One thread a row: probabilities minus one-hot, and the row's loss.
__global__ void softmaxRows(float *sim, float *rowLoss, int rows, int cols, float invTau)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    float *s = sim + (size_t)r * cols;
    float top = -1e30f;
    for (int c = 0; c < cols; ++c)
        top = fmaxf(top, s[c] * invTau);
    float sum = 0;
    for (int c = 0; c < cols; ++c)
        sum += expf(s[c] * invTau - top);
    rowLoss[r] = logf(sum) + top - s[r] * invTau;
    for (int c = 0; c < cols; ++c) {
        float p = expf(s[c] * invTau - top) / sum;
        s[c] = (p - (c == r ? 1.0f : 0.0f)) * invTau / rows;
    }
}

__global__ void descend(float *w, const float *g, int n, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        w[i] -= rate * g[i];
}

struct Tower {
    float *w = nullptr, *dw = nullptr, *out = nullptr, *dout = nullptr;
    int size = kIn * kEmb;
    void create()
    {
        std::vector<float> init(size);
        for (float &v : init)
            v = 0.05f * normal();
        CHECK(cudaMalloc(&w, size * sizeof(float)));
        CHECK(cudaMalloc(&dw, size * sizeof(float)));
        CHECK(cudaMalloc(&out, kBatch * kEmb * sizeof(float)));
        CHECK(cudaMalloc(&dout, kBatch * kEmb * sizeof(float)));
        CHECK(cudaMemcpy(w, init.data(), size * sizeof(float), cudaMemcpyHostToDevice));
        DDP_PARAMETER(w, size, DDP_FLOAT32);
        DDP_GRADIENT(dw, size, DDP_FLOAT32);
    }
    void forward(cublasHandle_t h, const float *x, int rows) { matmul(h, false, false, rows, kEmb, kIn, 1, x, w, out); }
    void backward(cublasHandle_t h, const float *x, int rows) { matmul(h, true, false, kIn, kEmb, rows, 1, x, dout, dw); }
    void update() { descend<<<(size + 127) / 128, 128>>>(w, dw, size, kRate); }
};

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    // Both sides of a pair are noisy views of one hidden vector.
    const int hidden = 8;
    std::vector<float> va(hidden * kIn), vb(hidden * kIn), q(kPairs * kIn), d(kPairs * kIn);
    for (float &v : va)
        v = 0.4f * normal();
    for (float &v : vb)
        v = 0.4f * normal();
    for (int i = 0; i < kPairs; ++i) {
        float z[hidden];
        for (int k = 0; k < hidden; ++k)
            z[k] = normal();
        for (int j = 0; j < kIn; ++j) {
            float a = 0.1f * normal(), b = 0.1f * normal();
            for (int k = 0; k < hidden; ++k) {
                a += z[k] * va[k * kIn + j];
                b += z[k] * vb[k * kIn + j];
            }
            q[i * kIn + j] = a;
            d[i * kIn + j] = b;
        }
    }
    float *queries, *items, *sim, *rowLoss;
    CHECK(cudaMalloc(&queries, q.size() * sizeof(float)));
    CHECK(cudaMalloc(&items, d.size() * sizeof(float)));
    CHECK(cudaMalloc(&sim, kBatch * kBatch * sizeof(float)));
    CHECK(cudaMalloc(&rowLoss, kBatch * sizeof(float)));
    CHECK(cudaMemcpy(queries, q.data(), q.size() * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(items, d.data(), d.size() * sizeof(float), cudaMemcpyHostToDevice));

    cublasHandle_t blas;
    CHECK(cublasCreate(&blas));
    Tower left, right;
    left.create();
    right.create();

    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        int n = (int)count;
        size_t at = ((size_t)step * kBatch) % kPairs + first;
        const float *x = queries + at * kIn, *y = items + at * kIn;

        left.forward(blas, x, n);
        right.forward(blas, y, n);
        matmul(blas, false, true, n, n, kEmb, 1, left.out, right.out, sim);
        softmaxRows<<<1, 64>>>(sim, rowLoss, n, n, 1 / kTau);
        matmul(blas, false, false, n, kEmb, n, 1, sim, right.out, left.dout);
        matmul(blas, true, false, n, kEmb, n, 1, sim, left.out, right.dout);
        left.backward(blas, x, n);
        right.backward(blas, y, n);

        DDP_STEP(0);
        left.update();
        right.update();

        if (step % 10 == 0 || step + 1 == steps) {
            std::vector<float> rl(n);
            CHECK(cudaMemcpy(rl.data(), rowLoss, n * sizeof(float), cudaMemcpyDeviceToHost));
            float loss = 0;
            for (float v : rl)
                loss += v / n;
            DDP_MEAN_AS("loss", &loss);
            if (DDP_RANK() == 0)
                printf("step %d loss %.4f\n", step, loss);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        std::vector<float> out(left.size);
        for (Tower *t : {&left, &right}) {
            CHECK(cudaMemcpy(out.data(), t->w, t->size * sizeof(float), cudaMemcpyDeviceToHost));
            fwrite(out.data(), sizeof(float), out.size(), f);
        }
        fclose(f);
    }
    cudaDeviceSynchronize();
    return 0;
}
