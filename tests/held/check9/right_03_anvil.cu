/* Poisson regression of counts on categorical and numeric columns, with cuBLAS; plain C in style; momentum on the host's scalars. */
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define COLS  48
#define RANKS_OF_FACTORS 8
#define ROWS  1024
#define BATCH 64

/* rate = exp(x . a + q(x)), q(x) = sum over factors f of (x . v_f)^2 / 2 */

static unsigned int st = 2463534242u;
static float rnd(void) { st ^= st << 13; st ^= st >> 17; st ^= st << 5; return (float)st / 4294967296.0f; }

__global__ void residuals(const float *lin, const float *proj, const float *y, float *res, float *scaled, float *dev, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float eta = lin[r];
    for (int f = 0; f < RANKS_OF_FACTORS; ++f) eta += 0.5f * proj[r * RANKS_OF_FACTORS + f] * proj[r * RANKS_OF_FACTORS + f];
    float mu = expf(fminf(eta, 4.0f));
    res[r] = mu - y[r];
    dev[r] = mu - y[r] * eta;
    for (int f = 0; f < RANKS_OF_FACTORS; ++f) scaled[r * RANKS_OF_FACTORS + f] = res[r] * proj[r * RANKS_OF_FACTORS + f];
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    static float x[ROWS * COLS], y[ROWS], a0[COLS], v0[COLS * RANKS_OF_FACTORS], truth[COLS], hd[BATCH];
    for (int k = 0; k < COLS; ++k) truth[k] = 0.8f * (rnd() - 0.5f);
    for (int r = 0; r < ROWS; ++r) {
        float eta = 0.4f, u = rnd(), mu, p, cdf;
        for (int k = 0; k < COLS; ++k) x[r * COLS + k] = k < 24 ? (float)(rnd() < 0.2f) : rnd() - 0.5f;
        for (int k = 0; k < COLS; ++k) eta += truth[k] * x[r * COLS + k];
        eta += 1.5f * x[r * COLS + 30] * x[r * COLS + 31];
        mu = expf(eta); p = expf(-mu); cdf = p;
        y[r] = 0;
        while (u > cdf && y[r] < 12) { y[r] += 1; p *= mu / y[r]; cdf += p; }
    }
    for (int k = 0; k < COLS; ++k) a0[k] = 0.0f;
    for (int k = 0; k < COLS * RANKS_OF_FACTORS; ++k) v0[k] = 0.3f * (rnd() - 0.5f);

    float *dx, *dy, *a, *v, *ga, *gv, *ma, *mv, *lin, *proj, *res, *scaled, *dev;
    cudaMalloc((void **)&dx, sizeof x);   cudaMalloc((void **)&dy, sizeof y);
    cudaMalloc((void **)&a, sizeof a0);   cudaMalloc((void **)&v, sizeof v0);
    cudaMalloc((void **)&ga, sizeof a0);  cudaMalloc((void **)&gv, sizeof v0);
    cudaMalloc((void **)&ma, sizeof a0);  cudaMalloc((void **)&mv, sizeof v0);
    cudaMalloc((void **)&lin, BATCH * 4); cudaMalloc((void **)&proj, BATCH * RANKS_OF_FACTORS * 4);
    cudaMalloc((void **)&res, BATCH * 4); cudaMalloc((void **)&scaled, BATCH * RANKS_OF_FACTORS * 4);
    cudaMalloc((void **)&dev, BATCH * 4);
    cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y, sizeof y, cudaMemcpyHostToDevice);
    cudaMemcpy(a, a0, sizeof a0, cudaMemcpyHostToDevice);
    cudaMemcpy(v, v0, sizeof v0, cudaMemcpyHostToDevice);
    cudaMemset(ma, 0, sizeof a0);
    cudaMemset(mv, 0, sizeof v0);
    DDP_PARAMETER(a, COLS, DDP_FLOAT32);
    DDP_GRADIENT(ga, COLS, DDP_FLOAT32);
    DDP_PARAMETER(v, COLS * RANKS_OF_FACTORS, DDP_FLOAT32);
    DDP_GRADIENT(gv, COLS * RANKS_OF_FACTORS, DDP_FLOAT32);

    cublasHandle_t h;
    cublasCreate(&h);
    const float one = 1, zero = 0, mu = 0.8f, part = 1.0f / BATCH;
    const float up = (float)DDP_WORLD_SIZE(), down = -0.06f;
    for (int s = 0; s < steps; ++s) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count, at = s * BATCH % ROWS + (int)first;
        const float *bx = dx + at * COLS;
        /* row-major: lin = X a, proj = X V */
        cublasSgemv(h, CUBLAS_OP_T, COLS, n, &one, bx, COLS, a, 1, &zero, lin, 1);
        cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_N, RANKS_OF_FACTORS, n, COLS, &one, v, RANKS_OF_FACTORS, bx, COLS, &zero, proj,
                    RANKS_OF_FACTORS);
        residuals<<<(n + 31) / 32, 32>>>(lin, proj, dy + at, res, scaled, dev, n);
        cublasSgemv(h, CUBLAS_OP_N, COLS, n, &part, bx, COLS, res, 1, &zero, ga, 1);
        cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_T, RANKS_OF_FACTORS, COLS, n, &part, scaled, RANKS_OF_FACTORS, bx, COLS, &zero,
                    gv, RANKS_OF_FACTORS);
        DDP_STEP(0);
        cublasSscal(h, COLS, &mu, ma, 1);
        cublasSscal(h, COLS * RANKS_OF_FACTORS, &mu, mv, 1);
        cublasSaxpy(h, COLS, &up, ga, 1, ma, 1);
        cublasSaxpy(h, COLS * RANKS_OF_FACTORS, &up, gv, 1, mv, 1);
        cublasSaxpy(h, COLS, &down, ma, 1, a, 1);
        cublasSaxpy(h, COLS * RANKS_OF_FACTORS, &down, mv, 1, v, 1);
        if (s % 10 == 0 || s == steps - 1) {
            float d = 0;
            cudaMemcpy(hd, dev, count * 4, cudaMemcpyDeviceToHost);
            for (int r = 0; r < n; ++r) d += hd[r] / BATCH;
            DDP_REDUCE(&d, 1, DDP_FLOAT32, DDP_OP_SUM, 0);
            printf("step %d: %.4f\n", s, d);
        }
    }
    cudaMemcpy(a0, a, sizeof a0, cudaMemcpyDeviceToHost);
    cudaMemcpy(v0, v, sizeof v0, cudaMemcpyDeviceToHost);
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "w");
        for (int k = 0; k < COLS; ++k) fprintf(f, "%.9g\n", a0[k]);
        for (int k = 0; k < COLS * RANKS_OF_FACTORS; ++k) fprintf(f, "%.9g\n", v0[k]);
        fclose(f);
    }
    cublasDestroy(h);
    return 0;
}
