// Two-layer classifier with inverted dropout on the hidden layer; sums over samples, the scale sits in the step size.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

static const int kIn = 18, kHidden = 28, kOut = 4, kBatch = 40, kRows = 400;
static const float kKeep = 0.75f;

class Random {
public:
    explicit Random(unsigned long long seed) : state_(seed) {}
    float next()
    {
        state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
        unsigned x = (unsigned)(((state_ >> 18) ^ state_) >> 27), r = (unsigned)(state_ >> 59);
        return (((x >> r) | (x << ((32 - r) & 31))) >> 8) / 16777216.0f;
    }
private:
    unsigned long long state_;
};

struct Block {
    float *data;
    int n;
};
static Block block(int n)
{
    Block b = {nullptr, n};
    if (cudaMalloc(&b.data, n * sizeof(float)) != cudaSuccess) { std::fprintf(stderr, "no memory\n"); std::exit(1); }
    cudaMemset(b.data, 0, n * sizeof(float));
    return b;
}

__global__ void hidden_units(float *h, const float *b, const float *mask, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * kHidden) h[i] = mask[i] * fmaxf(0.0f, h[i] + b[i % kHidden]);
}
__global__ void output_units(float *z, const float *b, const int *y, float *loss, int n)
{
    int i = threadIdx.x;
    if (i >= n) return;
    float *r = z + i * kOut, top = -1e30f, s = 0;
    for (int c = 0; c < kOut; ++c) { r[c] += b[c]; top = fmaxf(top, r[c]); }
    for (int c = 0; c < kOut; ++c) s += expf(r[c] - top);
    loss[i] = logf(s) + top - r[y[i]];
    for (int c = 0; c < kOut; ++c) r[c] = expf(r[c] - top) / s - (c == y[i]);
}
__global__ void through_hidden(float *d, const float *h, const float *mask, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * kHidden) d[i] = h[i] > 0 ? d[i] * mask[i] : 0;
}
__global__ void ones(float *p) { p[threadIdx.x] = 1; }

int main(int argc, char **argv)
{
    const int steps = argc > 2 ? std::atoi(argv[2]) : 60;
    Random rng(2718);
    std::vector<float> x(kRows * kIn), proto(kOut * kIn), w(kIn * kHidden), u(kHidden * kOut), mask(kBatch * kHidden);
    std::vector<int> y(kRows);
    for (auto &p : proto) p = 2 * rng.next() - 1;
    for (int i = 0; i < kRows; ++i) {
        y[i] = (int)(rng.next() * kOut);
        for (int j = 0; j < kIn; ++j) x[i * kIn + j] = proto[y[i] * kIn + j] + 2.5f * (rng.next() - 0.5f);
    }
    for (auto &v : w) v = 0.6f * (rng.next() - 0.5f);
    for (auto &v : u) v = 0.6f * (rng.next() - 0.5f);

    Block X = block(kRows * kIn), W = block(kIn * kHidden), B = block(kHidden), U = block(kHidden * kOut), C = block(kOut),
          gW = block(W.n), gB = block(B.n), gU = block(U.n), gC = block(C.n), M = block(kBatch * kHidden),
          H = block(kBatch * kHidden), Z = block(kBatch * kOut), D = block(kBatch * kHidden), L = block(kBatch), one = block(kBatch);
    int *Y;
    cudaMalloc(&Y, kRows * sizeof(int));
    cudaMemcpy(X.data, x.data(), X.n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(Y, y.data(), kRows * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemcpy(W.data, w.data(), W.n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(U.data, u.data(), U.n * sizeof(float), cudaMemcpyHostToDevice);
    ones<<<1, kBatch>>>(one.data);
    Block P[4] = {W, B, U, C}, G[4] = {gW, gB, gU, gC};
    for (int k = 0; k < 4; ++k) {
        DDP_PARAMETER(P[k].data, P[k].n, DDP_FLOAT32);
        DDP_GRADIENT(G[k].data, G[k].n, DDP_FLOAT32);
    }
    cublasHandle_t blas;
    cublasCreate(&blas);
    const float a = 1, o = 0, rate = 0.3f;
    for (int step = 0; step < steps; ++step) {
        for (auto &m : mask) m = rng.next() < kKeep ? 1 / kKeep : 0;
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        const int n = (int)count, row = step * kBatch % kRows + (int)first;
        const float *xb = X.data + row * kIn;
        cudaMemcpy(M.data, &mask[first * kHidden], count * kHidden * sizeof(float), cudaMemcpyHostToDevice);
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, kHidden, n, kIn, &a, W.data, kHidden, xb, kIn, &o, H.data, kHidden);
        hidden_units<<<(n * kHidden + 63) / 64, 64>>>(H.data, B.data, M.data, n);
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, kOut, n, kHidden, &a, U.data, kOut, H.data, kHidden, &o, Z.data, kOut);
        output_units<<<1, kBatch>>>(Z.data, C.data, Y + row, L.data, n);
        cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, kHidden, n, kOut, &a, U.data, kOut, Z.data, kOut, &o, D.data, kHidden);
        through_hidden<<<(n * kHidden + 63) / 64, 64>>>(D.data, H.data, M.data, n);
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, kOut, kHidden, n, &a, Z.data, kOut, H.data, kHidden, &o, gU.data, kOut);
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, kHidden, kIn, n, &a, D.data, kHidden, xb, kIn, &o, gW.data, kHidden);
        cublasSgemv(blas, CUBLAS_OP_N, kOut, n, &a, Z.data, kOut, one.data, 1, &o, gC.data, 1);
        cublasSgemv(blas, CUBLAS_OP_N, kHidden, n, &a, D.data, kHidden, one.data, 1, &o, gB.data, 1);
        DDP_STEP(0);
        const float change = -rate * DDP_WORLD_SIZE() / kBatch;
        for (int k = 0; k < 4; ++k) cublasSaxpy(blas, P[k].n, &change, G[k].data, 1, P[k].data, 1);
        if (step % 15 == 14) {
            std::vector<float> l(n);
            cudaMemcpy(l.data(), L.data, n * sizeof(float), cudaMemcpyDeviceToHost);
            float sum = 0;
            for (float v : l) sum += v;
            DDP_REDUCE(&sum, 1, DDP_FLOAT32, DDP_OP_SUM, 0);
            if (DDP_RANK() == 0) std::printf("step %d loss %.4f\n", step + 1, sum / kBatch);
        }
    }
    FILE *f = argc > 1 && DDP_RANK() == 0 ? std::fopen(argv[1], "wb") : nullptr;
    for (const Block &p : P) {
        std::vector<float> h(p.n);
        cudaMemcpy(h.data(), p.data, p.n * sizeof(float), cudaMemcpyDeviceToHost);
        if (f) std::fwrite(h.data(), sizeof(float), p.n, f);
    }
    if (f) std::fclose(f);
    cublasDestroy(blas);
    return 0;
}
