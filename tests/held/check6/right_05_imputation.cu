/* An autoencoder fills the gaps of a table: only observed cells count in the loss, and it is the mean over these. The
 * last batch of each pass over the table is smaller. Adam with a rate that decays by the step. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define COLS 18
#define CODE 10
#define BATCH 33
#define ROWS 215
#define N (COLS * CODE * 2 + CODE + COLS) /* encoder [COLS][CODE], decoder [CODE][COLS], two biases */

static int failures;
#define TRY(x)                                                                        \
    if ((x) != cudaSuccess && ++failures) {                                           \
        fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, #x);                        \
        exit(failures);                                                               \
    }

static unsigned s1 = 11111, s2 = 22222;
static float random01(void)
{
    s1 = s1 * 1664525u + 1013904223u;
    s2 ^= s2 << 13;
    s2 ^= s2 >> 17;
    s2 ^= s2 << 5;
    return (float)((s1 ^ s2) >> 8) / 16777216.f;
}

struct table {
    float value[ROWS][COLS];
    unsigned char observed[ROWS][COLS];
};

static void fill(struct table *t)
{
    for (int r = 0; r < ROWS; ++r) {
        float a = random01() - 0.5f, b = random01() - 0.5f, c = random01() - 0.5f, density = 0.3f + 0.65f * random01();
        for (int k = 0; k < COLS; ++k) {
            t->observed[r][k] = random01() < density;
            t->value[r][k] = a * (k + 1) * 0.2f + b * cosf(k) * 2.f + 2.f * c * (k % 3 - 1) + 0.05f * random01();
        }
    }
}

__global__ void encode(const float *p, const float *x, const unsigned char *seen, float *h, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * CODE)
        return;
    int r = t / CODE, j = t % CODE;
    float s = p[2 * COLS * CODE + j];
    for (int k = 0; k < COLS; ++k)
        if (seen[r * COLS + k])
            s += x[r * COLS + k] * p[k * CODE + j];
    h[t] = tanhf(s);
}
__global__ void decode(const float *p, const float *x, const unsigned char *seen, const float *h, float *d, float *loss, float scale, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * COLS)
        return;
    int r = t / COLS, k = t % COLS;
    float s = p[2 * COLS * CODE + CODE + k];
    for (int j = 0; j < CODE; ++j)
        s += h[r * CODE + j] * p[COLS * CODE + j * COLS + k];
    float e = seen[t] ? s - x[t] : 0.f;
    loss[t] = e * e * scale;
    d[t] = 2.f * e * scale;
}
__global__ void back_code(const float *p, const float *h, const float *d, float *dh, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * CODE)
        return;
    float s = 0.f;
    for (int k = 0; k < COLS; ++k)
        s += d[t / CODE * COLS + k] * p[COLS * CODE + t % CODE * COLS + k];
    dh[t] = s * (1.f - h[t] * h[t]);
}
__global__ void collect(const float *x, const unsigned char *seen, const float *h, const float *d, const float *dh, float *g, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= N)
        return;
    float s = 0.f;
    for (int r = 0; r < n; ++r) {
        if (t < COLS * CODE)
            s += seen[r * COLS + t / CODE] ? x[r * COLS + t / CODE] * dh[r * CODE + t % CODE] : 0.f;
        else if (t < 2 * COLS * CODE)
            s += h[r * CODE + (t - COLS * CODE) / COLS] * d[r * COLS + (t - COLS * CODE) % COLS];
        else if (t < 2 * COLS * CODE + CODE)
            s += dh[r * CODE + t - 2 * COLS * CODE];
        else
            s += d[r * COLS + t - 2 * COLS * CODE - CODE];
    }
    g[t] = s;
}
__global__ void adam(float *p, float *m, float *v, const float *g, float rate)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= N)
        return;
    m[t] = 0.9f * m[t] + 0.1f * g[t];
    v[t] = 0.98f * v[t] + 0.02f * g[t] * g[t];
    p[t] -= rate * m[t] / (sqrtf(v[t]) + 1e-3f);
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60, begin = 0;
    static struct table table;
    static float host[N], loss_h[BATCH * COLS];
    float *p, *m, *v, *g, *x, *h, *d, *dh, *loss;
    unsigned char *seen;
    fill(&table);
    TRY(cudaMalloc((void **)&p, sizeof host));
    TRY(cudaMalloc((void **)&m, sizeof host));
    TRY(cudaMalloc((void **)&v, sizeof host));
    TRY(cudaMalloc((void **)&g, sizeof host));
    TRY(cudaMalloc((void **)&x, sizeof loss_h));
    TRY(cudaMalloc((void **)&h, sizeof loss_h));
    TRY(cudaMalloc((void **)&d, sizeof loss_h));
    TRY(cudaMalloc((void **)&dh, sizeof loss_h));
    TRY(cudaMalloc((void **)&loss, sizeof loss_h));
    TRY(cudaMalloc((void **)&seen, BATCH * COLS));
    for (int i = 0; i < N; ++i)
        host[i] = 0.6f * (random01() - 0.5f);
    TRY(cudaMemcpy(p, host, sizeof host, cudaMemcpyHostToDevice));
    TRY(cudaMemset(m, 0, sizeof host));
    TRY(cudaMemset(v, 0, sizeof host));
    DDP_PARAMETER(p, N, DDP_FLOAT32);
    DDP_STATE(m, N, DDP_FLOAT32);
    DDP_STATE(v, N, DDP_FLOAT32);
    DDP_GRADIENT(g, N, DDP_FLOAT32);
    for (int s = 0; s < steps; ++s) {
        int batch = begin + BATCH <= ROWS ? BATCH : ROWS - begin;
        size_t first, count, mine = 0, everyone = 0;
        DDP_SHARD(batch, &first, &count);
        for (size_t r = 0; r < (size_t)batch; ++r)
            for (int k = 0; k < COLS; ++k)
                if (table.observed[begin + r][k]) {
                    ++everyone;
                    mine += r >= first && r < first + count;
                }
        DDP_WEIGHT(mine, everyone);
        int n = (int)count;
        TRY(cudaMemcpy(x, table.value[begin + first], n * COLS * sizeof(float), cudaMemcpyHostToDevice));
        TRY(cudaMemcpy(seen, table.observed[begin + first], n * COLS, cudaMemcpyHostToDevice));
        encode<<<(n * CODE + 63) / 64, 64>>>(p, x, seen, h, n);
        decode<<<(n * COLS + 63) / 64, 64>>>(p, x, seen, h, d, loss, 1.f / mine, n);
        back_code<<<(n * CODE + 63) / 64, 64>>>(p, h, d, dh, n);
        collect<<<(N + 63) / 64, 64>>>(x, seen, h, d, dh, g, n);
        DDP_STEP(0);
        adam<<<(N + 63) / 64, 64>>>(p, m, v, g, 0.03f / (1.f + 0.02f * s));
        if (s % 10 == 0 || s == steps - 1) {
            float mean = 0.f;
            TRY(cudaMemcpy(loss_h, loss, n * COLS * sizeof(float), cudaMemcpyDeviceToHost));
            for (int i = 0; i < n * COLS; ++i)
                mean += loss_h[i];
            if (DDP_RANK() == 0)
                printf("step %d: error of observed cells %.4f\n", s, mean);
        }
        begin = begin + batch < ROWS ? begin + batch : 0;
    }
    TRY(cudaMemcpy(host, p, sizeof host, cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(host, 1, sizeof host, f);
        fclose(f);
    }
    return 0;
}
