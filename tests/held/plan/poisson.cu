// Poisson regression (counts), log link.  Everything is one kernel for a step: the block
// works out the gradient of the batch in shared memory and moves the weights itself.
#include <cuda_runtime.h>
#include <cstdio>
#include <cmath>
#include <random>
#include <vector>
#ifdef ORACLE
#include "oracle.h"
#endif

template <int FEATURES, int ROWS>
__global__ void fused_step(const float* __restrict__ X, const float* __restrict__ y, float* __restrict__ beta, float lr, float* nll) {
    __shared__ float res[ROWS], l[ROWS];
    const int t = threadIdx.x;
    float eta = beta[FEATURES];
    for (int j = 0; j < FEATURES; ++j) eta += X[t * FEATURES + j] * beta[j];
    const float mu = expf(fminf(eta, 8.f));
    res[t] = mu - y[t];
    l[t] = mu - y[t] * eta;
    __syncthreads();
    if (t <= FEATURES) {
        float g = 0;
        for (int r = 0; r < ROWS; ++r) g += res[r] * (t < FEATURES ? X[r * FEATURES + t] : 1.f);
        beta[t] -= lr * g / ROWS;
    }
    if (t == ROWS - 1) {
        float s = 0;
        for (int r = 0; r < ROWS; ++r) s += l[r];
        *nll = s / ROWS;
    }
}

int main(int argc, char** argv) {
    constexpr int F = 12, B = 64, NBATCH = 18, N = B * NBATCH;
    std::mt19937_64 rng(8);
    std::uniform_real_distribution<float> u(-1, 1);
    std::vector<float> X(N * F), y(N), truth(F + 1);
    for (float& b : truth) b = 0.8f * u(rng);
    truth[F] = 0.7f;
    for (int i = 0; i < N; ++i) {
        float eta = truth[F];
        for (int j = 0; j < F; ++j) eta += (X[i * F + j] = u(rng)) * truth[j];
        y[i] = (float)std::poisson_distribution<int>(std::exp(eta))(rng);
    }
    float *dx, *dy, *beta, *nll;
    cudaMalloc(&dx, B * F * sizeof(float));
    cudaMalloc(&dy, B * sizeof(float));
    cudaMalloc(&beta, (F + 1) * sizeof(float));
    cudaMalloc(&nll, NBATCH * sizeof(float));
    cudaMemset(beta, 0, (F + 1) * sizeof(float));
#ifdef ORACLE
    oracle::state(beta, F + 1);
    oracle::fused();     // plain descent: the mean of the results is the result of the mean gradient
#endif
    float h[NBATCH];
    for (int epoch = 0; epoch < 10; ++epoch) {
        for (int b = 0; b < NBATCH; ++b) {
            // the batch travels to the device each time
            cudaMemcpy(dx, X.data() + b * B * F, B * F * sizeof(float), cudaMemcpyHostToDevice);
            cudaMemcpy(dy, y.data() + b * B, B * sizeof(float), cudaMemcpyHostToDevice);
#ifdef ORACLE
            oracle::begin();
#endif
            fused_step<F, B><<<1, B>>>(dx, dy, beta, 0.08f, nll + b);
#ifdef ORACLE
            oracle::end();
#endif
        }
        // losses are fetched once for the epoch
        cudaMemcpy(h, nll, sizeof h, cudaMemcpyDeviceToHost);
        float mean = 0;
        for (float v : h) mean += v / NBATCH;
        printf("epoch %d: mean nll %.5f, first batch %.5f, last batch %.5f\n", epoch, mean, h[0], h[NBATCH - 1]);
    }
#ifdef ORACLE
    oracle::boundary();
#endif
    std::vector<float> b(F + 1);
    cudaMemcpy(b.data(), beta, b.size() * sizeof(float), cudaMemcpyDeviceToHost);
    float err = 0;
    for (int j = 0; j <= F; ++j) err = std::fmax(err, std::fabs(b[j] - truth[j]));
    printf("largest distance from the true coefficients %.4f\n", err);
    FILE* f = std::fopen(argc > 1 ? argv[1] : "model.bin", "wb");
    if (!f) { std::perror("model"); return 1; }
    std::fwrite(b.data(), sizeof(float), b.size(), f);
    std::fclose(f);
    cudaFree(dx); cudaFree(dy); cudaFree(beta); cudaFree(nll);
    return 0;
}
