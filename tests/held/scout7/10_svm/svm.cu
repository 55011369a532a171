/*
 * Multi-class linear SVM (Weston-Watkins hinge loss), double precision.
 * Mini-batches are given by a list of sample indices.
 */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>

typedef double real;

#define N_SAMPLES  2000
#define N_FEATURES 40
#define N_CLASSES  6
#define BATCH_SIZE 100
#define N_ITER     100

/* margins: one thread a sample */
__global__ void svm_scores(const real *X, const int *y, const int *idx, const real *W, real *coef, real *loss, int m)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= m)
        return;
    const real *x = X + (size_t)idx[s] * N_FEATURES;
    int label = y[idx[s]];
    real score[N_CLASSES];
    for (int c = 0; c < N_CLASSES; c++) {
        score[c] = 0;
        for (int f = 0; f < N_FEATURES; f++)
            score[c] += W[c * N_FEATURES + f] * x[f];
    }
    real l = 0;
    int active = 0;
    for (int c = 0; c < N_CLASSES; c++) {
        real margin = score[c] - score[label] + 1.0;
        coef[s * N_CLASSES + c] = 0;
        if (c != label && margin > 0) {
            coef[s * N_CLASSES + c] = 1.0;
            l += margin;
            active++;
        }
    }
    coef[s * N_CLASSES + label] = -active;
    loss[s] = l;
}

/* gradient of the mean hinge loss plus reg/2 |W|^2 */
__global__ void svm_gradient(const real *X, const int *idx, const real *coef, const real *W, real *dW, int m, real reg)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= N_CLASSES * N_FEATURES)
        return;
    int c = t / N_FEATURES, f = t % N_FEATURES;
    real g = 0;
    for (int s = 0; s < m; s++)
        g += coef[s * N_CLASSES + c] * X[(size_t)idx[s] * N_FEATURES + f];
    dW[t] = g / m + reg * W[t];
}

__global__ void svm_update(real *W, const real *dW, real eta)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < N_CLASSES * N_FEATURES)
        W[t] = W[t] - eta * dW[t];
}

static unsigned int seed = 17;
static double frand(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) / 16777216.0;
}

int main(void)
{
    static real X[N_SAMPLES * N_FEATURES], centers[N_CLASSES * N_FEATURES], losses[BATCH_SIZE];
    static int y[N_SAMPLES], idx[BATCH_SIZE];
    for (int i = 0; i < N_CLASSES * N_FEATURES; i++)
        centers[i] = 1.2 * (frand() - 0.5);
    for (int s = 0; s < N_SAMPLES; s++) {
        y[s] = (int)(frand() * N_CLASSES);
        for (int f = 0; f < N_FEATURES; f++)
            X[s * N_FEATURES + f] = centers[y[s] * N_FEATURES + f] + frand() - 0.5;
    }

    real *dX, *W, *dW, *coef, *loss;
    int *dy, *didx;
    cudaMalloc(&dX, sizeof(X));
    cudaMalloc(&dy, sizeof(y));
    cudaMalloc(&W, N_CLASSES * N_FEATURES * sizeof(real));
    cudaMalloc(&dW, N_CLASSES * N_FEATURES * sizeof(real));
    cudaMalloc(&coef, BATCH_SIZE * N_CLASSES * sizeof(real));
    cudaMalloc(&loss, BATCH_SIZE * sizeof(real));
    cudaMalloc(&didx, sizeof(idx));
    cudaMemcpy(dX, X, sizeof(X), cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y, sizeof(y), cudaMemcpyHostToDevice);
    cudaMemset(W, 0, N_CLASSES * N_FEATURES * sizeof(real));

    const real reg = 1e-3;
    const int nt = N_CLASSES * N_FEATURES;
    for (int it = 0; it < N_ITER; it++) {
        for (int s = 0; s < BATCH_SIZE; s++)
            idx[s] = (int)(frand() * N_SAMPLES);
        cudaMemcpy(didx, idx, sizeof(idx), cudaMemcpyHostToDevice);
        svm_scores<<<(BATCH_SIZE + 31) / 32, 32>>>(dX, dy, didx, W, coef, loss, BATCH_SIZE);
        svm_gradient<<<(nt + 63) / 64, 64>>>(dX, didx, coef, W, dW, BATCH_SIZE, reg);
        svm_update<<<(nt + 63) / 64, 64>>>(W, dW, 0.1 / (1.0 + 0.01 * it));
        if (it % 10 == 0 || it == N_ITER - 1) {
            cudaMemcpy(losses, loss, sizeof(losses), cudaMemcpyDeviceToHost);
            real sum = 0;
            for (int s = 0; s < BATCH_SIZE; s++)
                sum += losses[s];
            printf("iteration %d: hinge loss %.6f\n", it, sum / BATCH_SIZE);
        }
    }
    return 0;
}
