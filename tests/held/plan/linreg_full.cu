/* Linear regression by gradient descent on the whole data set: each step is one pass. */
#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime.h>
#ifdef ORACLE
#include "oracle.h"
#endif

const int M = 512;      /* rows */
const int P = 10;       /* columns, the last is the constant 1 */
const int STEPS = 120;

__global__ void residual(const float *A, const float *b, const float *x, float *r)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < M) {
        float s = -b[i];
        for (int j = 0; j < P; j++) s += A[i * P + j] * x[j];
        r[i] = s;
    }
}

__global__ void atr(const float *A, const float *r, float *g)
{
    __shared__ float part[128];
    int j = blockIdx.x;
    float s = 0;
    for (int i = threadIdx.x; i < M; i += blockDim.x) s += A[i * P + j] * r[i];
    part[threadIdx.x] = s;
    __syncthreads();
    for (int k = blockDim.x / 2; k > 0; k /= 2) {
        if (threadIdx.x < k) part[threadIdx.x] += part[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) g[j] = part[0] / M;
}

__global__ void step(float *x, const float *g, float lr)
{
    int j = threadIdx.x;
    if (j < P) x[j] -= lr * g[j];
}

float gauss()
{
    float s = 0;
    for (int i = 0; i < 12; i++) s += rand() / (float)RAND_MAX;
    return s - 6.0f;
}

int main(int argc, char **argv)
{
    srand(3);
    float *A = new float[M * P], *b = new float[M], *r = new float[M], truth[P], x[P];
    for (int j = 0; j < P; j++) truth[j] = gauss();
    for (int i = 0; i < M; i++) {
        b[i] = 0.1f * gauss();
        for (int j = 0; j < P; j++) { A[i * P + j] = j == P - 1 ? 1.0f : gauss(); b[i] += A[i * P + j] * truth[j]; }
    }
    float *dA, *db, *dx, *dr, *dg;
    cudaMalloc(&dA, M * P * sizeof(float));
    cudaMalloc(&db, M * sizeof(float));
    cudaMalloc(&dx, P * sizeof(float));
    cudaMalloc(&dr, M * sizeof(float));
    cudaMalloc(&dg, P * sizeof(float));
    cudaMemcpy(dA, A, M * P * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(db, b, M * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(dx, 0, P * sizeof(float));
#ifdef ORACLE
    /* each "batch" is the same whole set, so N at once is the same as one: shown only for the comparison */
    oracle::state(dx, P); oracle::grad(dg, P);
#endif
    for (int s = 0; s < STEPS; s++) {
#ifdef ORACLE
        oracle::begin();
#endif
        residual<<<(M + 127) / 128, 128>>>(dA, db, dx, dr);
        atr<<<P, 128>>>(dA, dr, dg);
#ifdef ORACLE
        if (oracle::ready())
#endif
        step<<<1, 32>>>(dx, dg, 0.05f);
#ifdef ORACLE
        oracle::end();
#endif
        if (s % 10 == 0 || s == STEPS - 1) {
            cudaMemcpy(r, dr, M * sizeof(float), cudaMemcpyDeviceToHost);
            double e = 0;
            for (int i = 0; i < M; i++) e += r[i] * r[i];
            printf("iteration %d: cost = %f\n", s, e / (2 * M));
        }
    }
#ifdef ORACLE
    oracle::boundary();
#endif
    cudaMemcpy(x, dx, P * sizeof(float), cudaMemcpyDeviceToHost);
    for (int j = 0; j < P; j++) printf("x[%d] = %8.4f (true %8.4f)\n", j, x[j], truth[j]);
    FILE *f = fopen(argc > 1 ? argv[1] : "model.bin", "wb");
    if (f == NULL) { fprintf(stderr, "cannot open the output file\n"); return 1; }
    fwrite(x, sizeof(float), P, f);
    fclose(f);
    cudaFree(dA); cudaFree(db); cudaFree(dx); cudaFree(dr); cudaFree(dg);
    delete[] A; delete[] b; delete[] r;
    return 0;
}
