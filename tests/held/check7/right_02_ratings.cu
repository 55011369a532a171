/* Matrix factorisation of ratings: user and item vectors, heavy-ball SGD, ridge penalty. */
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define USERS 60
#define ITEMS 50
#define RANK 6
#define BATCH 64
#define RATINGS 1280
#define SAFE(c) do { int rc_ = (int)(c); if (rc_) { fprintf(stderr, "error %d at line %d\n", rc_, __LINE__); exit(1); } } while (0)

struct rating { int user, item; float stars; };

__global__ void misfit(const struct rating *r, const float *u, const float *v, float *e, float *sq, int n, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = 0;
    for (int k = 0; k < RANK; ++k) a += u[r[i].user * RANK + k] * v[r[i].item * RANK + k];
    a -= r[i].stars;
    e[i] = a * scale;
    sq[i] = a * a;
}

__global__ void user_slope(const struct rating *r, const float *e, const float *v, float *gu, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= USERS * RANK) return;
    float a = 0;
    for (int i = 0; i < n; ++i)
        if (r[i].user == k / RANK) a += e[i] * v[r[i].item * RANK + k % RANK];
    gu[k] = a;
}

__global__ void item_slope(const struct rating *r, const float *e, const float *u, float *gv, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= ITEMS * RANK) return;
    float a = 0;
    for (int i = 0; i < n; ++i)
        if (r[i].item == k / RANK) a += e[i] * u[r[i].user * RANK + k % RANK];
    gv[k] = a;
}

__global__ void heavy_ball(float *w, const float *g, float *vel, float rate, float ridge, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n) return;
    vel[k] = 0.9f * vel[k] - rate * (g[k] + ridge * w[k]);
    w[k] += vel[k];
}

static unsigned long long x64 = 0x123456789abcdefULL;
static float rnd(void)
{
    x64 ^= x64 >> 12;
    x64 ^= x64 << 25;
    x64 ^= x64 >> 27;
    return (float)((x64 * 2685821657736338717ULL) >> 40) / 16777216.0f;
}

int main(int argc, char **argv)
{
    static struct rating all[RATINGS];
    static float tu[USERS * 3], tv[ITEMS * 3], h[(USERS + ITEMS) * RANK], hs[BATCH];
    for (int k = 0; k < USERS * 3; ++k) tu[k] = 2 * rnd() - 1;
    for (int k = 0; k < ITEMS * 3; ++k) tv[k] = 2 * rnd() - 1;
    for (int i = 0; i < RATINGS; ++i) {
        all[i].user = (int)(rnd() * USERS);
        all[i].item = (int)(rnd() * ITEMS);
        all[i].stars = 0.3f * (rnd() - 0.5f);
        for (int k = 0; k < 3; ++k) all[i].stars += 1.5f * tu[all[i].user * 3 + k] * tv[all[i].item * 3 + k];
    }
    for (int k = 0; k < (USERS + ITEMS) * RANK; ++k) h[k] = rnd() - 0.5f;
    struct rating *r;
    float *w, *g, *vel, *e, *sq;
    const int nu = USERS * RANK, nv = ITEMS * RANK, np = nu + nv;
    SAFE(cudaMalloc((void **)&r, sizeof all));
    SAFE(cudaMalloc((void **)&w, np * 4));
    SAFE(cudaMalloc((void **)&g, np * 4));
    SAFE(cudaMalloc((void **)&vel, np * 4));
    SAFE(cudaMalloc((void **)&e, BATCH * 4));
    SAFE(cudaMalloc((void **)&sq, BATCH * 4));
    SAFE(cudaMemcpy(r, all, sizeof all, cudaMemcpyHostToDevice));
    SAFE(cudaMemcpy(w, h, np * 4, cudaMemcpyHostToDevice));
    SAFE(cudaMemset(vel, 0, np * 4));
    float *u = w, *v = w + nu, *gu = g, *gv = g + nu;
    DDP_PARAMETER(u, nu, DDP_FLOAT32);
    DDP_PARAMETER(v, nv, DDP_FLOAT32);
    DDP_GRADIENT(gu, nu, DDP_FLOAT32);
    DDP_GRADIENT(gv, nv, DDP_FLOAT32);
    cublasHandle_t blas;
    SAFE(cublasCreate(&blas));

    for (int it = 0; it < 80; ++it) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        const struct rating *part = r + (it * BATCH) % RATINGS + first;
        const int n = (int)count;
        const float ranks = (float)DDP_WORLD_SIZE();
        misfit<<<1, BATCH>>>(part, u, v, e, sq, n, 1.0f / BATCH);
        user_slope<<<(nu + 63) / 64, 64>>>(part, e, v, gu, n);
        item_slope<<<(nv + 63) / 64, 64>>>(part, e, u, gv, n);
        DDP_STEP(0);
        SAFE(cublasSscal(blas, np, &ranks, g, 1));
        heavy_ball<<<(np + 63) / 64, 64>>>(w, g, vel, 0.9f, 1e-3f, np);
        if (it % 20 == 0 || it == 79) {
            float sum = 0;
            SAFE(cudaMemcpy(hs, sq, n * 4, cudaMemcpyDeviceToHost));
            for (int i = 0; i < n; ++i) sum += hs[i] / BATCH;
            printf("rank %d, step %d: %.4f\n", DDP_RANK(), it, sum);
        }
    }
    SAFE(cudaMemcpy(h, w, np * 4, cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(h, 4, np, f);
        fclose(f);
    }
    cublasDestroy(blas);
    return 0;
}
