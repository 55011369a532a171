// HW3: ridge regression on random Fourier features with stochastic gradient descent, unified memory version.
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>

#define N 2000          // samples
#define NTRAIN 1800     // the rest is the validation set
#define D 3             // raw dimension
#define P 400           // features
#define B 100           // mini batch
#define STEPS 108
#define LAMBDA 1e-4f

__managed__ float lr = 0.6f;

__global__ void features(float *phi, const float *x, const float *omega, const float *phase)
{
    int tid = blockIdx.x * blockDim.x + threadIdx.x;
    if (tid >= N * P)
        return;
    int i = tid / P, j = tid % P;
    float a = phase[j];
    for (int d = 0; d < D; d++)
        a += omega[j * D + d] * x[i * D + d];
    phi[tid] = sqrtf(2.0f / P) * cosf(a);
}

__global__ void residual(float *r, const float *phi, const float *y, const float *w, int start)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < B) {
        const float *f = phi + (size_t)(start + i) * P;
        float p = 0;
        for (int j = 0; j < P; j++)
            p += w[j] * f[j];
        r[i] = p - y[start + i];
    }
}

__global__ void gradient(float *g, const float *phi, const float *r, const float *w, int start)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j < P) {
        float s = 0;
        for (int i = 0; i < B; i++)
            s += r[i] * phi[(size_t)(start + i) * P + j];
        g[j] = 2.0f * s / B + LAMBDA * w[j];
    }
}

__global__ void descend(float *w, const float *g)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j < P)
        w[j] -= lr * g[j];
}

static float rnd(void) { return rand() / (float)RAND_MAX * 2 - 1; }

int main()
{
    float *x, *y, *phi, *omega, *phase, *w, *g, *r;
    cudaMallocManaged(&x, N * D * sizeof(float));
    cudaMallocManaged(&y, N * sizeof(float));
    cudaMallocManaged(&phi, N * P * sizeof(float));
    cudaMallocManaged(&omega, P * D * sizeof(float));
    cudaMallocManaged(&phase, P * sizeof(float));
    cudaMallocManaged(&w, P * sizeof(float));
    cudaMallocManaged(&g, P * sizeof(float));
    cudaMallocManaged(&r, B * sizeof(float));

    srand(2023);
    for (int i = 0; i < N; i++) {
        for (int d = 0; d < D; d++)
            x[i * D + d] = rnd();
        y[i] = sinf(3 * x[i * D]) * x[i * D + 1] + 0.5f * x[i * D + 2] + 0.02f * rnd();
    }
    for (int j = 0; j < P; j++) {
        for (int d = 0; d < D; d++)
            omega[j * D + d] = 2.5f * (rnd() + rnd());
        phase[j] = 3.14159f * (1 + rnd());
        w[j] = 0;
    }
    features<<<(N * P + 255) / 256, 256>>>(phi, x, omega, phase);
    cudaDeviceSynchronize();

    int start = 0;
    for (int step = 0; step < STEPS; step++) {
        residual<<<(B + 31) / 32, 32>>>(r, phi, y, w, start);
        gradient<<<(P + 127) / 128, 128>>>(g, phi, r, w, start);
        descend<<<(P + 127) / 128, 128>>>(w, g);
        start += B;
        if (start + B > NTRAIN)
            start = 0;

        if ((step + 1) % 18 == 0) {
            cudaDeviceSynchronize();
            float mse = 0, val = 0;
            for (int i = 0; i < B; i++)
                mse += r[i] * r[i];
            for (int i = NTRAIN; i < N; i++) {
                float p = 0;
                for (int j = 0; j < P; j++)
                    p += w[j] * phi[i * P + j];
                val += (p - y[i]) * (p - y[i]);
            }
            printf("epoch %d: batch mse %g, validation mse %g\n", (step + 1) / 18, mse / B, val / (N - NTRAIN));
            lr *= 0.9f;
        }
    }
    cudaDeviceSynchronize();
    cudaFree(x); cudaFree(y); cudaFree(phi); cudaFree(omega);
    cudaFree(phase); cudaFree(w); cudaFree(g); cudaFree(r);
    return 0;
}
