// Multinomial (softmax) regression with early stopping on a held-out set.
// Weights of the best epoch are kept on the device and are the ones saved.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <random>
#include <cuda_runtime.h>
#ifdef ORACLE
#include "oracle.h"
#endif

#define D 20
#define K 5
#define B 32
#define NTRAIN 384
#define NVAL 192
#define MAXEPOCH 60
#define PATIENCE 3

static void die(const char *m) { fprintf(stderr, "%s: %s\n", m, cudaGetErrorString(cudaGetLastError())); exit(1); }

// one block per row; K threads; P gets p - onehot, loss gets the row's loss
__global__ void forward(const float *X, const int *y, const float *W, float *P, float *loss, int rows)
{
    __shared__ float z[K];
    int r = blockIdx.x, k = threadIdx.x;
    float s = W[D * K + k];
    for (int j = 0; j < D; j++) s += X[r * D + j] * W[j * K + k];
    z[k] = s;
    __syncthreads();
    float m = z[0], t = 0;
    for (int i = 1; i < K; i++) m = fmaxf(m, z[i]);
    for (int i = 0; i < K; i++) t += expf(z[i] - m);
    P[r * K + k] = expf(s - m) / t - (y[r] == k ? 1.0f : 0.0f);
    if (y[r] == k) loss[r] = logf(t) - (s - m);
}

// the gradient is overwritten; one thread for each weight
__global__ void grad(const float *X, const float *P, float *G, int rows)
{
    int j = blockIdx.x, k = threadIdx.x;
    float s = 0;
    for (int r = 0; r < rows; r++) s += (j < D ? X[r * D + j] : 1.0f) * P[r * K + k];
    G[j * K + k] = s / rows;
}

__global__ void axpy(float a, const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}

static float mean_of(const float *d, int n)
{
    std::vector<float> h(n);
    if (cudaMemcpy(h.data(), d, n * sizeof(float), cudaMemcpyDeviceToHost) != cudaSuccess) die("copy");
    double s = 0;
    for (float v : h) s += v;
    return (float)(s / n);
}

int main(int argc, char **argv)
{
    std::mt19937 rng(77);
    std::normal_distribution<float> n01;
    const int all = NTRAIN + NVAL, NW = (D + 1) * K;
    std::vector<float> X(all * D), T(D * K); std::vector<int> Y(all);
    for (float &t : T) t = n01(rng);
    for (int i = 0; i < all; i++) {
        float best = -1e30f, *x = &X[i * D];
        for (int j = 0; j < D; j++) x[j] = n01(rng);
        for (int k = 0; k < K; k++) {
            float s = 2.5f * n01(rng);
            for (int j = 0; j < D; j++) s += x[j] * T[j * K + k];
            if (s > best) { best = s; Y[i] = k; }
        }
    }
    float *dX, *dW, *dBest, *dG, *dP, *dL; int *dY;
    if (cudaMalloc(&dX, X.size() * 4) || cudaMalloc(&dY, all * 4) || cudaMalloc(&dW, NW * 4) || cudaMalloc(&dBest, NW * 4) ||
        cudaMalloc(&dG, NW * 4) || cudaMalloc(&dP, NVAL * K * 4) || cudaMalloc(&dL, NVAL * 4)) die("malloc");
    cudaMemcpy(dX, X.data(), X.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dY, Y.data(), all * 4, cudaMemcpyHostToDevice);
    cudaMemset(dW, 0, NW * 4);
#ifdef ORACLE
    oracle::state(dW, NW); oracle::grad(dG, NW);
#endif
    float bestVal = 1e30f; int bad = 0, epoch;
    for (epoch = 0; epoch < MAXEPOCH && bad < PATIENCE; epoch++) {
        float train = 0;
        for (int b = 0; b < NTRAIN; b += B) {
#ifdef ORACLE
            oracle::begin();
#endif
            forward<<<B, K>>>(dX + b * D, dY + b, dW, dP, dL, B);
            grad<<<D + 1, K>>>(dX + b * D, dP, dG, B);
#ifdef ORACLE
            if (oracle::ready())
#endif
            axpy<<<(NW + 63) / 64, 64>>>(-0.25f, dG, dW, NW);
#ifdef ORACLE
            oracle::end();
#endif
            train += mean_of(dL, B) * B / NTRAIN;
        }
#ifdef ORACLE
        oracle::boundary();
#endif
        forward<<<NVAL, K>>>(dX + NTRAIN * D, dY + NTRAIN, dW, dP, dL, NVAL);
        float val = mean_of(dL, NVAL);
        printf("epoch %d train %.5f val %.5f%s\n", epoch, train, val, val < bestVal ? " *" : "");
        if (val < bestVal) {
            bestVal = val; bad = 0;
            cudaMemcpy(dBest, dW, NW * 4, cudaMemcpyDeviceToDevice);
        } else bad++;
    }
    printf("stopped after %d epochs, best validation loss %.5f\n", epoch, bestVal);
    std::vector<float> w(NW);
    if (cudaMemcpy(w.data(), dBest, NW * 4, cudaMemcpyDeviceToHost) != cudaSuccess) die("copy back");
    FILE *f = fopen(argc > 1 ? argv[1] : "model.bin", "wb");
    if (!f || fwrite(w.data(), 4, NW, f) != (size_t)NW) { fprintf(stderr, "cannot save\n"); return 1; }
    fclose(f);
    cudaFree(dX); cudaFree(dY); cudaFree(dW); cudaFree(dBest); cudaFree(dG); cudaFree(dP); cudaFree(dL);
    return 0;
}
