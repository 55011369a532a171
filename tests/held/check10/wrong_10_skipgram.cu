/* Skip-gram with negative sampling on a synthetic corpus with topics. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define WORDS 60
#define DIM 12
#define CORPUS 6000
#define WINDOW 3
#define BATCH 64
#define NEG 4

struct random_source { unsigned x; };

static unsigned draw(struct random_source *r, unsigned below)
{
    r->x ^= r->x << 13;
    r->x ^= r->x >> 17;
    r->x ^= r->x << 5;
    return (unsigned)(((unsigned long long)r->x * below) >> 32);
}

struct batch {
    int center[BATCH];
    int target[BATCH * (1 + NEG)]; /* the word in the window, then the negatives */
};

struct model {
    float *in, *out, *g_in, *g_out, *err, *loss;
    struct batch *batch;
};

__global__ void pair_errors(const struct batch *b, const float *in, const float *out, float *err, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float l = 0;
    for (int k = 0; k <= NEG; ++k) {
        const float *u = in + b->center[i] * DIM, *v = out + b->target[i * (1 + NEG) + k] * DIM;
        float dot = 0;
        for (int d = 0; d < DIM; ++d) dot += u[d] * v[d];
        float p = 1 / (1 + expf(-dot));
        err[i * (1 + NEG) + k] = (p - (k == 0)) / n;
        l -= logf((k == 0 ? p : 1 - p) + 1e-9f);
    }
    loss[i] = l;
}
__global__ void gather_gradients(const struct batch *b, const float *in, const float *out, const float *err, float *g_in,
                                 float *g_out, int n)
{
    int w = blockIdx.x, d = threadIdx.x;
    float a = 0, c = 0;
    for (int i = 0; i < n; ++i)
        for (int k = 0; k <= NEG; ++k) {
            int t = b->target[i * (1 + NEG) + k];
            float e = err[i * (1 + NEG) + k];
            if (b->center[i] == w) a += e * out[t * DIM + d];
            if (t == w) c += e * in[b->center[i] * DIM + d];
        }
    g_in[w * DIM + d] = a;
    g_out[w * DIM + d] = c;
}
__global__ void adagrad(float *w, float *h, const float *g, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    h[i] += g[i] * g[i];
    w[i] -= lr * g[i] / (sqrtf(h[i]) + 1e-3f);
}

static float *zeros(size_t n)
{
    float *p = NULL;
    if (cudaMalloc((void **)&p, n * sizeof(float)) != cudaSuccess) exit(1);
    cudaMemset(p, 0, n * sizeof(float));
    return p;
}

static void make_corpus(int *word, struct random_source *r)
{
    int topic = 0;
    for (int i = 0; i < CORPUS; ++i) {
        if (draw(r, 20) == 0) topic = (int)draw(r, 6);
        word[i] = draw(r, 10) == 0 ? (int)draw(r, WORDS) : topic * 10 + (int)draw(r, 10);
    }
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    static int corpus[CORPUS];
    static float host[WORDS * DIM];
    struct random_source r = {2166136261u};
    struct model m;
    struct batch b;
    const int n_par = WORDS * DIM;
    make_corpus(corpus, &r);
    m.in = zeros(n_par);
    m.out = zeros(n_par);
    m.g_in = zeros(n_par);
    m.g_out = zeros(n_par);
    m.err = zeros(BATCH * (1 + NEG));
    m.loss = zeros(BATCH);
    float *h_in = zeros(n_par), *h_out = zeros(n_par);
    cudaMalloc((void **)&m.batch, sizeof(struct batch));
    for (int i = 0; i < n_par; ++i) host[i] = ((int)draw(&r, 2001) - 1000) * 0.0003f;
    cudaMemcpy(m.in, host, sizeof host, cudaMemcpyHostToDevice);
    for (int i = 0; i < n_par; ++i) host[i] = ((int)draw(&r, 2001) - 1000) * 0.0003f;
    cudaMemcpy(m.out, host, sizeof host, cudaMemcpyHostToDevice);
    DDP_PARAMETER(m.in, n_par, DDP_FLOAT32);
    DDP_PARAMETER(m.out, n_par, DDP_FLOAT32);
    DDP_STATE(h_in, n_par, DDP_FLOAT32);
    DDP_STATE(h_out, n_par, DDP_FLOAT32);
    DDP_GRADIENT(m.g_in, n_par, DDP_FLOAT32);
    DDP_GRADIENT(m.g_out, n_par, DDP_FLOAT32);

    for (int s = 0; s < steps; ++s) {
        size_t first, count;
        int at[BATCH], off[BATCH];
        for (int i = 0; i < BATCH; ++i) {
            at[i] = WINDOW + (int)draw(&r, CORPUS - 2 * WINDOW);
            off[i] = 1 + (int)draw(&r, WINDOW);
            if (draw(&r, 2)) off[i] = -off[i];
        }
        DDP_SHARD(BATCH, &first, &count);
        for (size_t i = 0; i < count; ++i) {
            b.center[i] = corpus[at[first + i]];
            b.target[i * (1 + NEG)] = corpus[at[first + i] + off[first + i]];
            for (int k = 1; k <= NEG; ++k) b.target[i * (1 + NEG) + k] = (int)draw(&r, WORDS);
        }
        cudaMemcpy(m.batch, &b, sizeof b, cudaMemcpyHostToDevice);
        pair_errors<<<2, 32>>>(m.batch, m.in, m.out, m.err, m.loss, (int)count);
        gather_gradients<<<WORDS, DIM>>>(m.batch, m.in, m.out, m.err, m.g_in, m.g_out, (int)count);
        DDP_STEP(0);
        adagrad<<<WORDS, DIM>>>(m.in, h_in, m.g_in, 0.12f);
        adagrad<<<WORDS, DIM>>>(m.out, h_out, m.g_out, 0.12f);
        if (s % 20 == 19 || s == 0) {
            float l[BATCH], mean = 0;
            cudaMemcpy(l, m.loss, count * sizeof(float), cudaMemcpyDeviceToHost);
            for (size_t i = 0; i < count; ++i) mean += l[i] / count;
            DDP_MEAN_AS("loss", &mean);
            printf("step %d loss %.4f\n", s + 1, mean);
        }
    }
    FILE *f = NULL;
    if (argc > 1 && DDP_RANK() == 0) f = fopen(argv[1], "wb");
    cudaMemcpy(host, m.in, sizeof host, cudaMemcpyDeviceToHost);
    if (f) fwrite(host, 1, sizeof host, f);
    cudaMemcpy(host, m.out, sizeof host, cudaMemcpyDeviceToHost);
    if (f) { fwrite(host, 1, sizeof host, f); fclose(f); }
    return 0;
}
