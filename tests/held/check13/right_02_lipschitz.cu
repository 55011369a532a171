/* A scorer with a spectrally normalised hidden layer; one power iteration for each step. C. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define D 20
#define BATCH 32
#define DATA 320

#define OK(e) do { cudaError_t r_ = (e); if (r_ != cudaSuccess) { fprintf(stderr, "%s -> %s\n", #e, cudaGetErrorString(r_)); exit(1); } } while (0)

struct net {
    float *w, *a;        /* D x D, normalised by its largest singular value; D */
    float *gw, *ga;
    float *u, *v, *sigma;
};

static unsigned lfsr = 0x1234567u;
static float noise(void)
{
    lfsr ^= lfsr << 13;
    lfsr ^= lfsr >> 17;
    lfsr ^= lfsr << 5;
    return (float)(lfsr >> 8) / 8388608.0f - 1.0f;
}

__global__ void power_iteration(struct net m)
{
    __shared__ float tmp[D], len;
    int i = threadIdx.x;
    float s = 0;
    for (int k = 0; k < D; ++k) s += m.w[k * D + i] * m.u[k];
    tmp[i] = s;
    __syncthreads();
    if (i == 0) {
        len = 0;
        for (int k = 0; k < D; ++k) len += tmp[k] * tmp[k];
        len = sqrtf(len) + 1e-8f;
    }
    __syncthreads();
    m.v[i] = tmp[i] / len;
    __syncthreads();
    s = 0;
    for (int k = 0; k < D; ++k) s += m.w[i * D + k] * m.v[k];
    tmp[i] = s;
    __syncthreads();
    if (i == 0) {
        len = 0;
        for (int k = 0; k < D; ++k) len += tmp[k] * tmp[k];
        len = sqrtf(len) + 1e-8f;
        *m.sigma = len;
    }
    __syncthreads();
    m.u[i] = tmp[i] / len;
}

__global__ void score(struct net m, const float *x, const float *t, float *h, float *e, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float z = 0;
    for (int j = 0; j < D; ++j) {
        float s = 0;
        for (int k = 0; k < D; ++k) s += x[r * D + k] * m.w[k * D + j];
        h[r * D + j] = tanhf(2 * s / *m.sigma);
        z += h[r * D + j] * m.a[j];
    }
    e[r] = z - t[r];
}

__global__ void gradient(struct net m, const float *x, const float *h, const float *e, int rows)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= D * D + D) return;
    float s = 0;
    if (id < D * D) {
        int k = id / D, j = id % D;
        for (int r = 0; r < rows; ++r)
            s += e[r] * m.a[j] * (1 - h[r * D + j] * h[r * D + j]) * 2 / *m.sigma * x[r * D + k];
        m.gw[id] = 2 * s / rows;
    } else {
        for (int r = 0; r < rows; ++r) s += e[r] * h[r * D + id - D * D];
        m.ga[id - D * D] = 2 * s / rows;
    }
}

__global__ void lion(float *w, const float *g, float *mom, int n, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float c = 0.9f * mom[i] + 0.1f * g[i];
    w[i] -= rate * c / (fabsf(c) + 0.02f);
    mom[i] = 0.98f * mom[i] + 0.02f * g[i];
}

static float *floats(int n)
{
    float *p;
    OK(cudaMalloc((void **)&p, n * sizeof(float)));
    OK(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

static float hx[DATA * D], ht[DATA], tmp[D * D + D], err[BATCH];

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 80;
    struct net m;
    for (int i = 0; i < DATA; ++i) {
        float s = 0, q = 0;
        for (int k = 0; k < D; ++k) {
            hx[i * D + k] = noise();
            s += k % 3 ? hx[i * D + k] : -hx[i * D + k];
            q += k < 5 ? hx[i * D + k] : 0;
        }
        ht[i] = tanhf(s) + 0.5f * sinf(q);
    }
    m.w = floats(D * D);
    m.a = floats(D);
    m.gw = floats(D * D);
    m.ga = floats(D);
    m.u = floats(D);
    m.v = floats(D);
    m.sigma = floats(1);
    float *mw = floats(D * D), *ma = floats(D), *x = floats(BATCH * D), *t = floats(BATCH), *h = floats(BATCH * D), *e = floats(BATCH);
    for (int i = 0; i < D * D + D; ++i) tmp[i] = 0.4f * noise();
    OK(cudaMemcpy(m.w, tmp, D * D * sizeof(float), cudaMemcpyHostToDevice));
    OK(cudaMemcpy(m.a, tmp + D * D, D * sizeof(float), cudaMemcpyHostToDevice));
    for (int i = 0; i < D; ++i) tmp[i] = noise();
    OK(cudaMemcpy(m.u, tmp, D * sizeof(float), cudaMemcpyHostToDevice));

    DDP_PARAMETER(m.w, D * D, DDP_FLOAT32);
    DDP_PARAMETER(m.a, D, DDP_FLOAT32);
    DDP_GRADIENT(m.gw, D * D, DDP_FLOAT32);
    DDP_GRADIENT(m.ga, D, DDP_FLOAT32);

    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t at = (size_t)step * BATCH % DATA + first;
        OK(cudaMemcpy(x, hx + at * D, count * D * sizeof(float), cudaMemcpyHostToDevice));
        OK(cudaMemcpy(t, ht + at, count * sizeof(float), cudaMemcpyHostToDevice));
        power_iteration<<<1, D>>>(m);
        score<<<1, BATCH>>>(m, x, t, h, e, (int)count);
        gradient<<<(D * D + D + 63) / 64, 64>>>(m, x, h, e, (int)count);
        DDP_STEP(0);
        lion<<<(D * D + 63) / 64, 64>>>(m.w, m.gw, mw, D * D, 0.03f);
        lion<<<1, 64>>>(m.a, m.ga, ma, D, 0.03f);
        if (step % 10 == 0 || step + 1 == steps) {
            float mse = 0;
            OK(cudaMemcpy(err, e, count * sizeof(float), cudaMemcpyDeviceToHost));
            for (size_t i = 0; i < count; ++i) mse += err[i] * err[i];
            mse /= count;
            DDP_MEAN(&mse);
            if (DDP_RANK() == 0) printf("step %d mse %.5f\n", step, mse);
        }
    }
    OK(cudaMemcpy(tmp, m.w, D * D * sizeof(float), cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(tmp + D * D, m.a, D * sizeof(float), cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(tmp, sizeof tmp, 1, f);
        fclose(f);
    }
    return 0;
}
