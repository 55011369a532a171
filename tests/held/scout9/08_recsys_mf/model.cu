#include "model.h"
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <cuda_runtime.h>

#define CK(x)                                                                               \
    do {                                                                                    \
        cudaError_t e_ = (x);                                                               \
        if (e_ != cudaSuccess) {                                                            \
            fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e_));      \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

__device__ inline float predict(const float *P, const float *Q, const float *bu, const float *bi, float mean, int u, int i, int f)
{
    float s = mean + bu[u] + bi[i];
    for (int k = 0; k < f; ++k)
        s += P[u * f + k] * Q[i * f + k];
    return s;
}

__global__ void backward(const Rating *batch, int n, const float *P, const float *Q, const float *bu, const float *bi,
                         float mean, float *gP, float *gQ, float *gbu, float *gbi, float *err, int f, float reg)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n)
        return;
    const Rating r = batch[t];
    const float e = predict(P, Q, bu, bi, mean, r.user, r.item, f) - r.value;
    err[t] = e;
    atomicAdd(&gbu[r.user], e + reg * bu[r.user]);
    atomicAdd(&gbi[r.item], e + reg * bi[r.item]);
    for (int k = 0; k < f; ++k) {
        const float p = P[r.user * f + k], q = Q[r.item * f + k];
        atomicAdd(&gP[r.user * f + k], e * q + reg * p);
        atomicAdd(&gQ[r.item * f + k], e * p + reg * q);
    }
}

__global__ void errors(const Rating *batch, int n, const float *P, const float *Q, const float *bu, const float *bi,
                       float mean, float *err, int f)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n)
        err[t] = predict(P, Q, bu, bi, mean, batch[t].user, batch[t].item, f) - batch[t].value;
}

// the gradients are ready for the next batch afterwards
__global__ void applyAndClear(float *w, float *g, int n, float lr)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) {
        w[t] -= lr * g[t];
        g[t] = 0.f;
    }
}

static float *zeros(int n)
{
    float *p;
    CK(cudaMalloc(&p, n * sizeof(float)));
    CK(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

MatrixFactorization::MatrixFactorization(const Hyper &h) : hp(h)
{
    std::mt19937 gen(11);
    std::normal_distribution<float> nd(0.f, 0.3f);
    const int np = hp.users * hp.factors, nq = hp.items * hp.factors;
    std::vector<float> init(np + nq);
    for (auto &v : init)
        v = nd(gen);
    P = zeros(np);
    Q = zeros(nq);
    CK(cudaMemcpy(P, init.data(), np * sizeof(float), cudaMemcpyHostToDevice));
    CK(cudaMemcpy(Q, init.data() + np, nq * sizeof(float), cudaMemcpyHostToDevice));
    bu = zeros(hp.users);
    bi = zeros(hp.items);
    gP = zeros(np);
    gQ = zeros(nq);
    gbu = zeros(hp.users);
    gbi = zeros(hp.items);
    CK(cudaMallocHost(&staging, hp.batch * sizeof(Rating)));
    CK(cudaMallocHost(&h_err, hp.batch * sizeof(float)));
    CK(cudaMalloc(&d_batch, hp.batch * sizeof(Rating)));
    CK(cudaMalloc(&d_err, hp.batch * sizeof(float)));
}

MatrixFactorization::~MatrixFactorization()
{
    cudaFree(P); cudaFree(Q); cudaFree(bu); cudaFree(bi);
    cudaFree(gP); cudaFree(gQ); cudaFree(gbu); cudaFree(gbi);
    cudaFree(d_batch); cudaFree(d_err);
    cudaFreeHost(staging); cudaFreeHost(h_err);
}

double MatrixFactorization::fitBatch(const std::vector<Rating> &data, const std::vector<int> &order, int begin, int end)
{
    const int n = end - begin;
    for (int i = 0; i < n; ++i)
        staging[i] = data[order[begin + i]];
    CK(cudaMemcpyAsync(d_batch, staging, n * sizeof(Rating), cudaMemcpyHostToDevice));

    backward<<<(n + 63) / 64, 64>>>(d_batch, n, P, Q, bu, bi, mean, gP, gQ, gbu, gbi, d_err, hp.factors, hp.reg);

    const int np = hp.users * hp.factors, nq = hp.items * hp.factors;
    applyAndClear<<<(np + 127) / 128, 128>>>(P, gP, np, hp.lr);
    applyAndClear<<<(nq + 127) / 128, 128>>>(Q, gQ, nq, hp.lr);
    applyAndClear<<<(hp.users + 127) / 128, 128>>>(bu, gbu, hp.users, hp.lr);
    applyAndClear<<<(hp.items + 127) / 128, 128>>>(bi, gbi, hp.items, hp.lr);

    CK(cudaMemcpy(h_err, d_err, n * sizeof(float), cudaMemcpyDeviceToHost));
    double s = 0;
    for (int i = 0; i < n; ++i)
        s += (double)h_err[i] * h_err[i];
    return s;
}

double MatrixFactorization::rmse(const std::vector<Rating> &data)
{
    double s = 0;
    for (size_t at = 0; at < data.size(); at += hp.batch) {
        const int n = (int)std::min<size_t>(hp.batch, data.size() - at);
        CK(cudaMemcpy(d_batch, &data[at], n * sizeof(Rating), cudaMemcpyHostToDevice));
        errors<<<(n + 63) / 64, 64>>>(d_batch, n, P, Q, bu, bi, mean, d_err, hp.factors);
        CK(cudaMemcpy(h_err, d_err, n * sizeof(float), cudaMemcpyDeviceToHost));
        for (int i = 0; i < n; ++i)
            s += (double)h_err[i] * h_err[i];
    }
    return std::sqrt(s / data.size());
}
