/* Logistic regression, minibatch gradient descent.
 * The whole data set lies on the device; each step takes the next rows of it. */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>
#ifdef ORACLE
#include "oracle.h"
#endif

#define ROWS   1536
#define FEAT   24
#define BATCH  64
#define EPOCHS 6

#define CUDA(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { \
    fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e_)); exit(1); } } while (0)

static unsigned int seed = 42u;
static float frand(void) { seed = seed * 1664525u + 1013904223u; return (seed >> 8) * (1.0f / 16777216.0f); }

static float hX[ROWS * FEAT], hY[ROWS];
static float *dX, *dY, *dW, *dG, *dLoss;   /* dW: FEAT weights and the bias at the end */

__global__ void residual_and_loss(const float *X, const float *y, const float *w, float *r, float *loss)
{
    __shared__ float part[BATCH];
    int i = threadIdx.x;
    float z = w[FEAT];
    for (int j = 0; j < FEAT; j++) z += X[i * FEAT + j] * w[j];
    float p = 1.0f / (1.0f + expf(-z));
    r[i] = p - y[i];
    part[i] = fmaxf(z, 0.0f) - z * y[i] + log1pf(expf(-fabsf(z)));
    __syncthreads();
    for (int s = BATCH / 2; s > 0; s >>= 1) {
        if (i < s) part[i] += part[i + s];
        __syncthreads();
    }
    if (i == 0) *loss = part[0] / BATCH;
}

__global__ void gradient(const float *X, const float *r, float *g)
{
    int j = threadIdx.x;
    if (j > FEAT) return;
    float s = 0;
    for (int i = 0; i < BATCH; i++) s += r[i] * (j < FEAT ? X[i * FEAT + j] : 1.0f);
    g[j] = s / BATCH;
}

__global__ void descend(float *w, const float *g, float lr, float l2)
{
    int j = threadIdx.x;
    if (j < FEAT) w[j] -= lr * (g[j] + l2 * w[j]);
    else if (j == FEAT) w[j] -= lr * g[j];
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "model.bin";
    float truth[FEAT], *dR;
    for (int j = 0; j < FEAT; j++) truth[j] = 4.0f * (frand() - 0.5f);
    for (int i = 0; i < ROWS; i++) {
        float z = 0.3f;
        for (int j = 0; j < FEAT; j++) { hX[i * FEAT + j] = 2.0f * frand() - 1.0f; z += truth[j] * hX[i * FEAT + j]; }
        hY[i] = frand() < 1.0f / (1.0f + expf(-2.0f * z)) ? 1.0f : 0.0f;
    }
    CUDA(cudaMalloc((void **)&dX, sizeof hX));
    CUDA(cudaMalloc((void **)&dY, sizeof hY));
    CUDA(cudaMalloc((void **)&dW, (FEAT + 1) * sizeof(float)));
    CUDA(cudaMalloc((void **)&dG, (FEAT + 1) * sizeof(float)));
    CUDA(cudaMalloc((void **)&dR, BATCH * sizeof(float)));
    CUDA(cudaMalloc((void **)&dLoss, sizeof(float)));
    CUDA(cudaMemcpy(dX, hX, sizeof hX, cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(dY, hY, sizeof hY, cudaMemcpyHostToDevice));
    CUDA(cudaMemset(dW, 0, (FEAT + 1) * sizeof(float)));
#ifdef ORACLE
    oracle::state(dW, FEAT + 1); oracle::grad(dG, FEAT + 1);
#endif
    int step = 0;
    for (int e = 0; e < EPOCHS; e++)
        for (int b = 0; b < ROWS / BATCH; b++, step++) {
            const float *x = dX + b * BATCH * FEAT, *y = dY + b * BATCH;
#ifdef ORACLE
            oracle::begin();
#endif
            residual_and_loss<<<1, BATCH>>>(x, y, dW, dR, dLoss);
            gradient<<<1, 32>>>(x, dR, dG);
#ifdef ORACLE
            if (oracle::ready())
#endif
            descend<<<1, 32>>>(dW, dG, 0.5f, 1e-4f);
            CUDA(cudaGetLastError());
#ifdef ORACLE
            oracle::end();
#endif
            if (step % 10 == 0) {
                float loss;
                CUDA(cudaMemcpy(&loss, dLoss, sizeof loss, cudaMemcpyDeviceToHost));
                printf("step %4d  loss %.5f\n", step, loss);
            }
        }
#ifdef ORACLE
    oracle::boundary();
#endif
    float w[FEAT + 1];
    CUDA(cudaMemcpy(w, dW, sizeof w, cudaMemcpyDeviceToHost));
    int ok = 0;
    for (int i = 0; i < ROWS; i++) {
        float z = w[FEAT];
        for (int j = 0; j < FEAT; j++) z += w[j] * hX[i * FEAT + j];
        ok += (z > 0) == (hY[i] > 0.5f);
    }
    printf("train accuracy %.4f\n", (float)ok / ROWS);
    FILE *f = fopen(path, "wb");
    if (!f) { perror(path); return 1; }
    fwrite(w, sizeof(float), FEAT + 1, f);
    fclose(f);
    cudaFree(dX); cudaFree(dY); cudaFree(dW); cudaFree(dG); cudaFree(dR); cudaFree(dLoss);
    return 0;
}
