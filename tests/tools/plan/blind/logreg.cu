// logistic regression, L2 in the update, learning rate decays by epoch, samples are shuffled on the host before each
// epoch truth: gradients (truth_step over grad, the bias is its last element) batches: 48 (6 epochs x 8 batches of 40)
#include "truth.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

#define D     12
#define NB    40
#define TOTAL 320
#define TESTN 80

#define CK(x)                                                                                 \
    if ((x) != cudaSuccess) {                                                                 \
        printf("cuda error line %d: %s\n", __LINE__, cudaGetErrorString(cudaGetLastError())); \
        return 1;                                                                             \
    }

__global__ void
k_forward(const float *X, const float *y, const float *w, float *err, float *loss, int n)
{
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= n)
        return;
    float z = w[D];
    for (int j = 0; j < D; j++)
        z += X[i * D + j] * w[j];
    float p = 1.f / (1.f + expf(-z));
    err[i] = p - y[i];
    // stable form
    loss[i] = fmaxf(z, 0.f) - z * y[i] + log1pf(expf(-fabsf(z)));
}

__global__ void
k_grad(const float *X, const float *err, float *g, int n)
{
    int j = threadIdx.x;
    if (j > D)
        return;
    float s = 0;
    for (int i = 0; i < n; i++)
        s += err[i] * (j < D ? X[i * D + j] : 1.f);
    g[j] = s / n;
}

__global__ void
k_update(float *w, const float *g, float lr, float lambda)
{
    int j = threadIdx.x;
    if (j < D)
        w[j] -= lr * (g[j] + lambda * w[j]);
    else if (j == D)
        w[j] -= lr * g[j];
}

__global__ void
k_reduce(const float *v, int n, float *out)
{
    __shared__ float s[128];
    float a = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        a += v[i];
    s[threadIdx.x] = a;
    __syncthreads();
    for (int k = blockDim.x / 2; k > 0; k /= 2) {
        if (threadIdx.x < k)
            s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (!threadIdx.x)
        out[0] = s[0] / n;
}

int
main()
{
    std::mt19937 gen(2024);
    auto u = [&]() { return gen() / 4294967296.0f * 2.0f - 1.0f; };
    std::vector<float> truew(D), data((TOTAL + TESTN) * D), lab(TOTAL + TESTN);
    for (auto &v : truew)
        v = 3 * u();
    for (int i = 0; i < TOTAL + TESTN; i++) {
        float z = 0.3f;
        for (int j = 0; j < D; j++) {
            data[i * D + j] = u();
            z += data[i * D + j] * truew[j];
        }
        lab[i] = z + 0.3f * u() > 0;
    }
    float *dX, *dy, *dw, *dg, *derr, *dl, *dmean;
    CK(cudaMalloc(&dX, NB * D * 4));
    CK(cudaMalloc(&dy, NB * 4));
    CK(cudaMalloc(&dw, (D + 1) * 4));
    CK(cudaMalloc(&dg, (D + 1) * 4));
    CK(cudaMalloc(&derr, TESTN * 4));
    CK(cudaMalloc(&dl, TESTN * 4));
    CK(cudaMalloc(&dmean, 4));
    CK(cudaMemset(dw, 0, (D + 1) * 4));

    std::vector<int> order(TOTAL);
    std::iota(order.begin(), order.end(), 0);
    std::vector<float> bx(NB * D), by(NB);
    for (int ep = 0; ep < 6; ep++) {
        for (int i = TOTAL - 1; i > 0; i--)
            std::swap(order[i], order[gen() % (i + 1)]);
        float lr = 1.5f / (1.f + 0.3f * ep), total = 0;
        for (int b = 0; b < TOTAL / NB; b++) {
            for (int i = 0; i < NB; i++) {
                int s = order[b * NB + i];
                std::copy(&data[s * D], &data[s * D] + D, &bx[i * D]);
                by[i] = lab[s];
            }
            CK(cudaMemcpy(dX, bx.data(), NB * D * 4, cudaMemcpyHostToDevice));
            CK(cudaMemcpy(dy, by.data(), NB * 4, cudaMemcpyHostToDevice));
            k_forward<<<2, 32>>>(dX, dy, dw, derr, dl, NB);
            k_grad<<<1, 32>>>(dX, derr, dg, NB);
            if (truth_step({{dg, D + 1}}))
                k_update<<<1, 32>>>(dw, dg, lr, 1e-3f);
            k_reduce<<<1, 32>>>(dl, NB, dmean);
            float m;
            CK(cudaMemcpy(&m, dmean, 4, cudaMemcpyDeviceToHost));
            total += m;
            if (b == 0)
                printf("epoch %d lr %.3f first batch %.5f ", ep, lr, m);
        }
        printf("epoch mean %.5f\n", total / (TOTAL / NB));
    }
    // test set: other sizes, so other buffers
    float *tX, *ty;
    CK(cudaMalloc(&tX, TESTN * D * 4));
    CK(cudaMalloc(&ty, TESTN * 4));
    CK(cudaMemcpy(tX, &data[TOTAL * D], TESTN * D * 4, cudaMemcpyHostToDevice));
    CK(cudaMemcpy(ty, &lab[TOTAL], TESTN * 4, cudaMemcpyHostToDevice));
    k_forward<<<1, 128>>>(tX, ty, dw, derr, dl, TESTN);
    k_reduce<<<1, 128>>>(dl, TESTN, dmean);
    std::vector<float> e(TESTN), w(D + 1);
    float m;
    int hit = 0;
    CK(cudaMemcpy(e.data(), derr, TESTN * 4, cudaMemcpyDeviceToHost));
    CK(cudaMemcpy(&m, dmean, 4, cudaMemcpyDeviceToHost));
    CK(cudaMemcpy(w.data(), dw, (D + 1) * 4, cudaMemcpyDeviceToHost));
    for (float v : e)
        hit += fabsf(v) < 0.5f;
    printf("test loss %.5f accuracy %d/%d\nw =", m, hit, TESTN);
    for (float v : w)
        printf(" %.4f", v);
    printf("\n");
    truth_dump({{dw, D + 1}});
    cudaFree(dX);
    cudaFree(dy);
    cudaFree(dw);
    cudaFree(dg);
    cudaFree(derr);
    cudaFree(dl);
    cudaFree(dmean);
    cudaFree(tX);
    cudaFree(ty);
    return 0;
}
