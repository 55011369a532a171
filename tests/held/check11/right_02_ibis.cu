// Concrete strength from its mixture: a regression network on cuBLAS with Huber loss. Batches of 33 rows.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

#define V(x)                                                               \
    do {                                                                   \
        if (int r_ = (int)(x)) {                                           \
            std::fprintf(stderr, "line %d: error %d\n", __LINE__, r_);     \
            std::exit(1);                                                  \
        }                                                                  \
    } while (0)

namespace {

const int kInputs = 8, kHidden = 36, kBatch = 33, kRows = 330;

class Lcg64 {
public:
    float operator()()
    {
        s_ = s_ * 6364136223846793005ull + 1;
        return (float)((s_ >> 40) / 8388608.0 - 1.0);
    }

private:
    unsigned long long s_ = 3;
};

__global__ void activate(float *h, const float *b, int rows, int cols)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < rows * cols) {
        float z = h[t] + b[t % cols];
        h[t] = z > 0 ? z : 0.1f * z;
    }
}

__global__ void huber(const float *out, const float *b, const float *want, float *d, float *loss, int rows, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows)
        return;
    float e = out[i] + b[0] - want[i];
    loss[i] = fabsf(e) < 1 ? 0.5f * e * e : fabsf(e) - 0.5f;
    d[i] = fminf(fmaxf(e, -1.0f), 1.0f) * scale;
}

__global__ void gate(float *dh, const float *h, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n && h[t] < 0)
        dh[t] *= 0.1f;
}

struct Block {
    float *value, *grad;
    int n;
};

class Network {
public:
    Network()
    {
        V(cublasCreate(&blas_));
        w1_ = add(kInputs * kHidden, 0.4f);
        b1_ = add(kHidden, 0.1f);
        w2_ = add(kHidden, 0.3f);
        b2_ = add(1, 0);
        V(cudaMalloc(&h_, kBatch * kHidden * sizeof(float)));
        V(cudaMalloc(&dh_, kBatch * kHidden * sizeof(float)));
        V(cudaMalloc(&out_, kBatch * sizeof(float)));
        V(cudaMalloc(&dout_, kBatch * sizeof(float)));
        V(cudaMalloc(&loss_, kBatch * sizeof(float)));
        V(cudaMalloc(&ones_, kBatch * sizeof(float)));
        std::vector<float> one(kBatch, 1.0f);
        V(cudaMemcpy(ones_, one.data(), kBatch * sizeof(float), cudaMemcpyHostToDevice));
    }
    ~Network() { cublasDestroy(blas_); }

    void gradients(const float *x, const float *want, int rows, float scale)
    {
        const int n = rows * kHidden;
        gemm(CUBLAS_OP_N, CUBLAS_OP_N, kHidden, rows, kInputs, w1_.value, kHidden, x, kInputs, h_, kHidden);
        activate<<<(n + 63) / 64, 64>>>(h_, b1_.value, rows, kHidden);
        gemv(CUBLAS_OP_T, kHidden, rows, h_, w2_.value, out_);
        huber<<<(rows + 31) / 32, 32>>>(out_, b2_.value, want, dout_, loss_, rows, scale);

        gemv(CUBLAS_OP_N, kHidden, rows, h_, dout_, w2_.grad);
        gemv(CUBLAS_OP_N, 1, rows, dout_, ones_, b2_.grad);
        gemm(CUBLAS_OP_N, CUBLAS_OP_N, kHidden, rows, 1, w2_.value, kHidden, dout_, 1, dh_, kHidden);
        gate<<<(n + 63) / 64, 64>>>(dh_, h_, n);
        gemm(CUBLAS_OP_N, CUBLAS_OP_T, kHidden, kInputs, rows, dh_, kHidden, x, kInputs, w1_.grad, kHidden);
        gemv(CUBLAS_OP_N, kHidden, rows, dh_, ones_, b1_.grad);
    }
    void update(float rate)
    {
        for (const Block &b : {w1_, b1_, w2_, b2_}) {
            float a = -rate;
            V(cublasSaxpy(blas_, b.n, &a, b.grad, 1, b.value, 1));
        }
    }
    float lossSum(int rows) const
    {
        std::vector<float> l(rows);
        V(cudaMemcpy(l.data(), loss_, rows * sizeof(float), cudaMemcpyDeviceToHost));
        float s = 0;
        for (float v : l)
            s += v;
        return s;
    }
    void save(const char *name) const
    {
        FILE *f = std::fopen(name, "wb");
        for (const Block &b : {w1_, b1_, w2_, b2_}) {
            std::vector<float> v(b.n);
            V(cudaMemcpy(v.data(), b.value, b.n * sizeof(float), cudaMemcpyDeviceToHost));
            std::fwrite(v.data(), sizeof(float), v.size(), f);
        }
        std::fclose(f);
    }

private:
    Block add(int n, float scale)
    {
        Block b;
        b.n = n;
        std::vector<float> v(n);
        for (float &e : v)
            e = scale * random_();
        V(cudaMalloc(&b.value, n * sizeof(float)));
        V(cudaMalloc(&b.grad, n * sizeof(float)));
        V(cudaMemcpy(b.value, v.data(), n * sizeof(float), cudaMemcpyHostToDevice));
        DDP_PARAMETER(b.value, n, DDP_FLOAT32);
        DDP_GRADIENT(b.grad, n, DDP_FLOAT32);
        return b;
    }
    void gemm(cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const float *a, int lda, const float *b,
              int ldb, float *c, int ldc)
    {
        const float one = 1, zero = 0;
        V(cublasSgemm(blas_, ta, tb, m, n, k, &one, a, lda, b, ldb, &zero, c, ldc));
    }
    void gemv(cublasOperation_t t, int m, int n, const float *a, const float *x, float *y)
    {
        const float one = 1, zero = 0;
        V(cublasSgemv(blas_, t, m, n, &one, a, m, x, 1, &zero, y, 1));
    }

    cublasHandle_t blas_;
    Lcg64 random_;
    Block w1_, b1_, w2_, b2_;
    float *h_, *dh_, *out_, *dout_, *loss_, *ones_;
};

} // namespace

int main(int argc, char **argv)
{
    int steps = argc > 2 ? std::atoi(argv[2]) : 60;
    Lcg64 r;
    std::vector<float> x(kRows * kInputs), y(kRows);
    for (int i = 0; i < kRows; ++i) {
        float *row = &x[i * kInputs];
        for (int k = 0; k < kInputs; ++k)
            row[k] = r();
        y[i] = 1.5f * row[0] - row[1] * row[2] + std::fabs(row[3]) + 0.5f * row[4] * row[0] + 1 + 0.1f * r();
    }
    float *dx, *dy;
    V(cudaMalloc(&dx, x.size() * sizeof(float)));
    V(cudaMalloc(&dy, y.size() * sizeof(float)));
    V(cudaMemcpy(dx, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice));
    V(cudaMemcpy(dy, y.data(), y.size() * sizeof(float), cudaMemcpyHostToDevice));

    Network net;
    const float scale = (float)DDP_WORLD_SIZE() / kBatch;
    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        size_t at = (size_t)step * kBatch % kRows + first;
        net.gradients(dx + at * kInputs, dy + at, (int)count, scale);
        DDP_STEP(0);
        net.update(0.2f);
        if (step % 10 == 0 || step == steps - 1) {
            float loss = net.lossSum((int)count) * scale;
            DDP_MEAN_AS("loss", &loss);
            if (DDP_RANK() == 0)
                std::printf("step %d loss %.4f\n", step, loss);
        }
    }
    if (argc > 1 && DDP_RANK() == 0)
        net.save(argv[1]);
    V(cudaDeviceSynchronize());
    return 0;
}
