/* Kernel-feature SVM (random Fourier features + hinge loss), Pegasos-like SGD. Data from heart.csv. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef BATCH
#define BATCH 80
#endif
#define MAX_ROWS 2000
#define D 20
#define F 256
#define LAMBDA 0.001f

int load_csv(const char *path, float *x, float *y)
{
    FILE *fp = fopen(path, "r");
    char line[1024];
    int rows = 0;
    if (!fp) {
        perror(path);
        exit(1);
    }
    fgets(line, sizeof line, fp); /* header */
    while (rows < MAX_ROWS && fgets(line, sizeof line, fp)) {
        char *tok = strtok(line, ",");
        for (int j = 0; j < D; j++) {
            x[rows * D + j] = atof(tok);
            tok = strtok(NULL, ",");
        }
        y[rows++] = atof(tok);
    }
    fclose(fp);
    return rows;
}

__global__ void features(const float *x, const float *omega, const float *phase, float *phi, int n)
{
    int row = blockIdx.x, f = threadIdx.x;
    float s = phase[f];
    for (int j = 0; j < D; j++)
        s += omega[f * D + j] * x[row * D + j];
    phi[row * F + f] = cosf(s) * sqrtf(2.0f / F) * 4.f;
}

/* margin of each sample, one block per sample */
__global__ void margins(const float *phi, const float *w, const float *y, float *margin)
{
    __shared__ float buf[F];
    buf[threadIdx.x] = phi[blockIdx.x * F + threadIdx.x] * w[threadIdx.x];
    __syncthreads();
    for (int s = F / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s)
            buf[threadIdx.x] += buf[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        margin[blockIdx.x] = y[blockIdx.x] * (buf[0] + w[F]);
}

__global__ void hinge_grad(const float *phi, const float *y, const float *margin, float *grad, int n)
{
    int f = blockIdx.x * blockDim.x + threadIdx.x;
    if (f > F)
        return;
    float g = 0;
    for (int i = 0; i < n; i++)
        if (margin[i] < 1.f)
            g -= y[i] * (f < F ? phi[i * F + f] : 1.f);
    grad[f] = g;
}

__global__ void pegasos(float *w, const float *grad, float eta, int n)
{
    int f = blockIdx.x * blockDim.x + threadIdx.x;
    if (f <= F)
        w[f] = (1.f - eta * LAMBDA) * w[f] - eta / BATCH * grad[f];
}

int main(int argc, char *argv[])
{
    const char *path = argc > 1 ? argv[1] : "heart.csv";
    float *x = (float *)malloc(MAX_ROWS * D * sizeof(float));
    float *y = (float *)malloc(MAX_ROWS * sizeof(float));
    int rows = load_csv(path, x, y);
    printf("%d rows from %s\n", rows, path);

    srand(8);
    float omega[F * D], phase[F];
    for (int i = 0; i < F * D; i++) {
        float u1 = (rand() + 1.f) / (RAND_MAX + 2.f), u2 = rand() / (float)RAND_MAX;
        omega[i] = 0.25f * sqrtf(-2 * logf(u1)) * cosf(6.2831853f * u2);
    }
    for (int i = 0; i < F; i++)
        phase[i] = 6.2831853f * rand() / RAND_MAX;

    float *d_x, *d_y, *d_omega, *d_phase, *d_phi, *d_w, *d_grad, *d_margin;
    cudaMalloc((void **)&d_x, rows * D * sizeof(float));
    cudaMalloc((void **)&d_y, rows * sizeof(float));
    cudaMalloc((void **)&d_omega, sizeof omega);
    cudaMalloc((void **)&d_phase, sizeof phase);
    cudaMalloc((void **)&d_phi, rows * F * sizeof(float));
    cudaMalloc((void **)&d_w, (F + 1) * sizeof(float));
    cudaMalloc((void **)&d_grad, (F + 1) * sizeof(float));
    cudaMalloc((void **)&d_margin, rows * sizeof(float));
    cudaMemcpy(d_x, x, rows * D * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_y, y, rows * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_omega, omega, sizeof omega, cudaMemcpyHostToDevice);
    cudaMemcpy(d_phase, phase, sizeof phase, cudaMemcpyHostToDevice);
    cudaMemset(d_w, 0, (F + 1) * sizeof(float));

    /* the random features of all rows, once */
    features<<<rows, F>>>(d_x, d_omega, d_phase, d_phi, rows);

    float *margin = (float *)malloc(rows * sizeof(float));
    int t = 0;
    for (int epoch = 0; epoch < 16; epoch++) {
        for (int i = 0; i + BATCH <= rows; i += BATCH) {
            float eta = 1.0f / (1.0f + 0.01f * t++);
            margins<<<BATCH, F>>>(d_phi + i * F, d_w, d_y + i, d_margin);
            hinge_grad<<<(F + 1 + 63) / 64, 64>>>(d_phi + i * F, d_y + i, d_margin, d_grad, BATCH);
            pegasos<<<(F + 1 + 63) / 64, 64>>>(d_w, d_grad, eta, BATCH);
        }
        if (epoch % 3 == 0) {
            /* objective and accuracy on all rows */
            margins<<<rows, F>>>(d_phi, d_w, d_y, d_margin);
            cudaMemcpy(margin, d_margin, rows * sizeof(float), cudaMemcpyDeviceToHost);
            double loss = 0;
            int ok = 0;
            for (int i = 0; i < rows; i++) {
                loss += margin[i] < 1 ? 1 - margin[i] : 0;
                ok += margin[i] > 0;
            }
            printf("epoch %2d  hinge loss %.4f  accuracy %.1f%%\n", epoch, loss / rows, 100.0 * ok / rows);
        }
    }
    free(x); free(y); free(margin);
    return 0;
}
