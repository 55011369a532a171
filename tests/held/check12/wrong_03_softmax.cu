/* Multinomial logistic regression on Gaussian blobs, cuBLAS, step length loss / |g|^2. */
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include "ddprun.h"

enum { N = 480, D = 24, C = 6, BATCH = 48, STEPS = 60 };

#define CK(call) do { int e_ = (int)(call); if (e_) { fprintf(stderr, "%s: %d\n", #call, e_); exit(1); } } while (0)

static unsigned long long seed = 99;
static double frand(void)
{
    seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17;
    return (double)(seed >> 11) / 9007199254740992.0;
}
static float gauss(void)
{
    return (float)(sqrt(-2.0 * log(frand() + 1e-12)) * cos(6.283185307 * frand()));
}

/* z holds logits, C values a row; becomes (softmax - onehot) / n */
__global__ void softmax_loss(float *z, const int *label, float *row_loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float *r = z + i * C, top = r[0], sum = 0;
    for (int c = 1; c < C; ++c) top = fmaxf(top, r[c]);
    for (int c = 0; c < C; ++c) sum += expf(r[c] - top);
    row_loss[i] = logf(sum) + top - r[label[i]];
    for (int c = 0; c < C; ++c)
        r[c] = (expf(r[c] - top) / sum - (c == label[i])) / n;
}

static float mean_of(const float *dev, int n)
{
    float host[BATCH], s = 0;
    CK(cudaMemcpy(host, dev, n * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i) s += host[i];
    return s / n;
}

int main(int argc, char **argv)
{
    static float hx[N * D], centre[C * D], hw[C * D];
    static int hl[N];
    for (int i = 0; i < C * D; ++i) centre[i] = 0.5f * gauss();
    for (int i = 0; i < N; ++i) {
        hl[i] = (int)(frand() * C) % C;
        for (int d = 0; d < D; ++d)
            hx[i * D + d] = centre[hl[i] * D + d] + gauss();
        if (frand() < 0.1) hl[i] = (hl[i] + 1) % C;
    }
    float *x, *w, *g, *z, *rl;
    int *l;
    CK(cudaMalloc((void **)&x, sizeof(hx)));
    CK(cudaMalloc((void **)&w, sizeof(hw)));
    CK(cudaMalloc((void **)&g, sizeof(hw)));
    CK(cudaMalloc((void **)&z, BATCH * C * sizeof(float)));
    CK(cudaMalloc((void **)&rl, BATCH * sizeof(float)));
    CK(cudaMalloc((void **)&l, sizeof(hl)));
    CK(cudaMemcpy(x, hx, sizeof(hx), cudaMemcpyHostToDevice));
    CK(cudaMemcpy(l, hl, sizeof(hl), cudaMemcpyHostToDevice));
    CK(cudaMemset(w, 0, sizeof(hw)));
    CK(cudaMemset(g, 0, sizeof(hw)));
    cublasHandle_t blas;
    CK(cublasCreate(&blas));
    DDP_PARAMETER(w, C * D, DDP_FLOAT32);
    DDP_GRADIENT(g, C * D, DDP_FLOAT32);

    const float one = 1.0f, zero = 0.0f;
    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        size_t row = (size_t)(step * BATCH) % N + first;
        /* column major: w is D x C, x is D x n, z is C x n */
        CK(cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, C, n, D, &one, w, D, x + row * D, D, &zero, z, C));
        softmax_loss<<<1, 64>>>(z, l + row, rl, n);
        CK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, D, C, n, &one, x + row * D, D, z, C, &zero, g, D));
        float loss = mean_of(rl, n);
        DDP_STEP(0);
        float norm = 0;
        CK(cublasSnrm2(blas, C * D, g, 1, &norm));
        float rate = 0.3f * loss / (norm * norm + 1e-3f);
        if (rate > 2.0f) rate = 2.0f;
        float minus = -rate;
        CK(cublasSaxpy(blas, C * D, &minus, g, 1, w, 1));
        if (step % 10 == 0 || step == STEPS - 1) {
            float shown = loss;
            DDP_MEAN(&shown);
            if (DDP_RANK() == 0)
                printf("step %2d loss %.4f rate %.4f\n", step, shown, rate);
        }
    }
    CK(cudaMemcpy(hw, w, sizeof(hw), cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(hw, sizeof(float), C * D, f);
        fclose(f);
    }
    cublasDestroy(blas);
    return 0;
}
