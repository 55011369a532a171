// Matrix factorisation of ratings, minimises the root mean square error.
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include "ddprun.h"

#define USERS 48
#define ITEMS 36
#define RANK 6
#define RATINGS 768
#define BATCH 64
#define STEPS 60

struct rating { int user, item; float value; };

static unsigned st = 7u;
static float rnd(void) { st ^= st << 13; st ^= st >> 17; st ^= st << 5; return (float)(st >> 8) / 16777216.0f; }

__global__ void residuals(const struct rating *r, const float *p, const float *q, float *e, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = 0;
    for (int k = 0; k < RANK; ++k)
        s += p[r[i].user * RANK + k] * q[r[i].item * RANK + k];
    e[i] = s - r[i].value;
}

/* out[0] = sqrt(mean e^2) */
__global__ void root_mean_square(const float *e, float *out, int n)
{
    __shared__ float part[64];
    float s = 0;
    for (int i = threadIdx.x; i < n; i += 64) s += e[i] * e[i];
    part[threadIdx.x] = s;
    __syncthreads();
    for (int k = 32; k > 0; k >>= 1) {
        if (threadIdx.x < k) part[threadIdx.x] += part[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[0] = sqrtf(part[0] / n + 1e-8f);
}

__global__ void user_gradient(const struct rating *r, const float *e, const float *rms, const float *q, float *gp, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= USERS * RANK) return;
    float s = 0;
    for (int i = 0; i < n; ++i)
        if (r[i].user == t / RANK) s += e[i] * q[r[i].item * RANK + t % RANK];
    gp[t] = s / (n * rms[0]);
}

__global__ void item_gradient(const struct rating *r, const float *e, const float *rms, const float *p, float *gq, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= ITEMS * RANK) return;
    float s = 0;
    for (int i = 0; i < n; ++i)
        if (r[i].item == t / RANK) s += e[i] * p[r[i].user * RANK + t % RANK];
    gq[t] = s / (n * rms[0]);
}

__global__ void apply(float *w, const float *g, int n, float rate, float decay)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) w[t] = w[t] * (1.0f - rate * decay) - rate * g[t];
}

static void write_out(const char *name, const float *p, const float *q)
{
    FILE *f = fopen(name, "wb");
    fwrite(p, sizeof(float), USERS * RANK, f);
    fwrite(q, sizeof(float), ITEMS * RANK, f);
    fclose(f);
}

int main(int argc, char **argv)
{
    static struct rating data[RATINGS];
    static float tp[USERS * RANK], tq[ITEMS * RANK], hp[USERS * RANK], hq[ITEMS * RANK];
    for (int i = 0; i < USERS * RANK; ++i) tp[i] = rnd() * 2 - 1;
    for (int i = 0; i < ITEMS * RANK; ++i) tq[i] = rnd() * 2 - 1;
    for (int i = 0; i < RATINGS; ++i) {
        data[i].user = (int)(rnd() * USERS) % USERS;
        data[i].item = (int)(rnd() * ITEMS) % ITEMS;
        data[i].value = 0.2f * (rnd() - 0.5f);
        for (int k = 0; k < RANK; ++k)
            data[i].value += tp[data[i].user * RANK + k] * tq[data[i].item * RANK + k];
    }
    for (int i = 0; i < USERS * RANK; ++i) hp[i] = 0.8f * (rnd() - 0.5f);
    for (int i = 0; i < ITEMS * RANK; ++i) hq[i] = 0.8f * (rnd() - 0.5f);

    struct rating *r;
    float *p, *q, *gp, *gq, *e, *rms;
    cudaMalloc((void **)&r, sizeof(data));
    cudaMalloc((void **)&p, sizeof(hp));
    cudaMalloc((void **)&q, sizeof(hq));
    cudaMalloc((void **)&gp, sizeof(hp));
    cudaMalloc((void **)&gq, sizeof(hq));
    cudaMalloc((void **)&e, BATCH * sizeof(float));
    cudaMalloc((void **)&rms, sizeof(float));
    cudaMemcpy(r, data, sizeof(data), cudaMemcpyHostToDevice);
    cudaMemcpy(p, hp, sizeof(hp), cudaMemcpyHostToDevice);
    cudaMemcpy(q, hq, sizeof(hq), cudaMemcpyHostToDevice);
    DDP_PARAMETER(p, USERS * RANK, DDP_FLOAT32);
    DDP_PARAMETER(q, ITEMS * RANK, DDP_FLOAT32);
    DDP_GRADIENT(gp, USERS * RANK, DDP_FLOAT32);
    DDP_GRADIENT(gq, ITEMS * RANK, DDP_FLOAT32);

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        float shown = 0;
        DDP_SHARD(BATCH, &first, &count);
        const struct rating *mine = r + step * BATCH % RATINGS + first;
        int n = (int)count;
        residuals<<<1, 64>>>(mine, p, q, e, n);
        root_mean_square<<<1, 64>>>(e, rms, n);
        user_gradient<<<(USERS * RANK + 63) / 64, 64>>>(mine, e, rms, q, gp, n);
        item_gradient<<<(ITEMS * RANK + 63) / 64, 64>>>(mine, e, rms, p, gq, n);
        DDP_STEP(0);
        apply<<<(USERS * RANK + 63) / 64, 64>>>(p, gp, USERS * RANK, 2.0f, 1e-3f);
        apply<<<(ITEMS * RANK + 63) / 64, 64>>>(q, gq, ITEMS * RANK, 2.0f, 1e-3f);
        if (step % 12 == 0 || step == STEPS - 1) {
            cudaMemcpy(&shown, rms, sizeof(float), cudaMemcpyDeviceToHost);
            DDP_MEAN(&shown);
            if (DDP_RANK() == 0) printf("step %2d rmse %.4f\n", step, shown);
        }
    }
    cudaMemcpy(hp, p, sizeof(hp), cudaMemcpyDeviceToHost);
    cudaMemcpy(hq, q, sizeof(hq), cudaMemcpyDeviceToHost);
    if (argc > 1 && DDP_RANK() == 0) write_out(argv[1], hp, hq);
    return 0;
}
