/* Fills in blanks: a bag-of-neighbours model predicts masked words of made-up sentences. The number of masked words
 * differs from sentence to sentence, and the number of sentences is odd. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ddprun.h"

#define WORDS 30
#define DIM 14
#define LENGTH 12
#define REACH 2
#define SENTENCES 37
#define CORPUS 370
#define STEPS 60
#define MASK WORDS /* the id of the blank */

#define CUDA(f, ...)                                                            \
    do {                                                                        \
        cudaError_t e_ = cuda##f(__VA_ARGS__);                                  \
        if (e_ != cudaSuccess) {                                                \
            fprintf(stderr, "cuda" #f ": %s\n", cudaGetErrorString(e_));        \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

typedef struct sentence {
    int seen[LENGTH]; /* with blanks */
    int word[LENGTH]; /* without */
} sentence;

typedef struct matrices {
    float *in;   /* (WORDS + 1) x DIM */
    float *pos;  /* (2 REACH + 1) x DIM: a gain for each offset */
    float *out;  /* DIM x WORDS */
    float *bias; /* WORDS */
} matrices;

static unsigned lcg = 321;
static unsigned below(unsigned n)
{
    lcg = lcg * 1103515245u + 12345u;
    return (lcg >> 12) % n;
}

/* One thread a place. Places that hold no blank have dlogit 0 and loss 0. */
__global__ void places(matrices m, const sentence *text, float *ctx, float *dlogit, float *loss, int places_n, int divisor)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= places_n)
        return;
    const sentence *s = text + i / LENGTH;
    int at = i % LENGTH;
    loss[i] = 0.0f;
    for (int d = 0; d < DIM; ++d)
        ctx[i * DIM + d] = 0.0f;
    for (int w = 0; w < WORDS; ++w)
        dlogit[i * WORDS + w] = 0.0f;
    if (s->seen[at] != MASK)
        return;
    for (int o = -REACH; o <= REACH; ++o)
        if (at + o >= 0 && at + o < LENGTH)
            for (int d = 0; d < DIM; ++d)
                ctx[i * DIM + d] += m.in[s->seen[at + o] * DIM + d] * m.pos[(o + REACH) * DIM + d];
    float z[WORDS], top = -1e30f, sum = 0.0f;
    for (int w = 0; w < WORDS; ++w) {
        z[w] = m.bias[w];
        for (int d = 0; d < DIM; ++d)
            z[w] += ctx[i * DIM + d] * m.out[d * WORDS + w];
        top = fmaxf(top, z[w]);
    }
    for (int w = 0; w < WORDS; ++w)
        sum += expf(z[w] - top);
    loss[i] = top + logf(sum) - z[s->word[at]];
    for (int w = 0; w < WORDS; ++w)
        dlogit[i * WORDS + w] = (expf(z[w] - top) / sum - (w == s->word[at] ? 1.0f : 0.0f)) / divisor;
}

__global__ void context_gradient(matrices m, const float *dlogit, float *dctx, int places_n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= places_n * DIM)
        return;
    float s = 0.0f;
    for (int w = 0; w < WORDS; ++w)
        s += dlogit[i / DIM * WORDS + w] * m.out[i % DIM * WORDS + w];
    dctx[i] = s;
}

__global__ void output_gradient(matrices g, const float *ctx, const float *dlogit, int places_n)
{
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= (DIM + 1) * WORDS)
        return;
    int d = e / WORDS, w = e % WORDS;
    float s = 0.0f;
    for (int i = 0; i < places_n; ++i)
        s += (d < DIM ? ctx[i * DIM + d] : 1.0f) * dlogit[i * WORDS + w];
    if (d < DIM)
        g.out[e] = s;
    else
        g.bias[w] = s;
}

__global__ void input_gradient(matrices m, matrices g, const sentence *text, const float *dctx, int places_n, float decay)
{
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= (WORDS + 1) * DIM)
        return;
    int v = e / DIM, d = e % DIM;
    float s = decay * m.in[e];
    for (int i = 0; i < places_n; ++i)
        for (int o = -REACH; o <= REACH; ++o) {
            int at = i % LENGTH + o;
            if (at >= 0 && at < LENGTH && text[i / LENGTH].seen[at] == v)
                s += dctx[i * DIM + d] * m.pos[(o + REACH) * DIM + d];
        }
    g.in[e] = s;
}

__global__ void offset_gradient(matrices m, matrices g, const sentence *text, const float *dctx, int places_n)
{
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= (2 * REACH + 1) * DIM)
        return;
    int o = e / DIM - REACH, d = e % DIM;
    float s = 0.0f;
    for (int i = 0; i < places_n; ++i) {
        int at = i % LENGTH + o;
        if (at >= 0 && at < LENGTH)
            s += dctx[i * DIM + d] * m.in[text[i / LENGTH].seen[at] * DIM + d];
    }
    g.pos[e] = s;
}

__global__ void lion(float *w, float *m, const float *g, int n, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float u = 0.9f * m[i] + 0.1f * g[i];
    w[i] -= rate * tanhf(300.0f * u);
    m[i] = 0.97f * m[i] + 0.03f * g[i];
}

int main(int argc, char **argv)
{
    static sentence corpus[CORPUS];
    for (int s = 0; s < CORPUS; ++s) {
        int w = (int)below(WORDS), stride = 1 + (int)below(3);
        for (int i = 0; i < LENGTH; ++i) {
            corpus[s].word[i] = w;
            w = below(14) == 0 ? (int)below(WORDS) : (w + stride) % WORDS;
            corpus[s].seen[i] = below(10) < 1 + (unsigned)(s % SENTENCES) / 8 ? MASK : corpus[s].word[i];
        }
        corpus[s].seen[s % LENGTH] = MASK;
    }
    const int size[4] = {(WORDS + 1) * DIM, (2 * REACH + 1) * DIM, DIM * WORDS, WORDS};
    float *w[4], *g[4], *mom[4], init[(WORDS + 1) * DIM];
    for (int k = 0; k < 4; ++k) {
        for (int i = 0; i < size[k]; ++i)
            init[i] = k == 3 ? 0.0f : k == 1 ? 0.5f + below(1000) / 1000.0f : below(2001) / 2000.0f - 0.5f;
        CUDA(Malloc, (void **)&w[k], size[k] * sizeof(float));
        CUDA(Malloc, (void **)&g[k], size[k] * sizeof(float));
        CUDA(Malloc, (void **)&mom[k], size[k] * sizeof(float));
        CUDA(Memcpy, w[k], init, size[k] * sizeof(float), cudaMemcpyHostToDevice);
        CUDA(Memset, g[k], 0, size[k] * sizeof(float));
        CUDA(Memset, mom[k], 0, size[k] * sizeof(float));
        DDP_PARAMETER(w[k], size[k], DDP_FLOAT32);
        DDP_GRADIENT(g[k], size[k], DDP_FLOAT32);
        DDP_STATE(mom[k], size[k], DDP_FLOAT32);
    }
    matrices weights = {w[0], w[1], w[2], w[3]}, grads = {g[0], g[1], g[2], g[3]};

    sentence *text;
    float *ctx, *dctx, *dlogit, *loss;
    CUDA(Malloc, (void **)&text, sizeof(corpus));
    CUDA(Memcpy, text, corpus, sizeof(corpus), cudaMemcpyHostToDevice);
    CUDA(Malloc, (void **)&ctx, SENTENCES * LENGTH * DIM * sizeof(float));
    CUDA(Malloc, (void **)&dctx, SENTENCES * LENGTH * DIM * sizeof(float));
    CUDA(Malloc, (void **)&dlogit, SENTENCES * LENGTH * WORDS * sizeof(float));
    CUDA(Malloc, (void **)&loss, SENTENCES * LENGTH * sizeof(float));

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        int at = step * SENTENCES % CORPUS, blanks = 0, all_blanks = 0;
        DDP_SHARD(SENTENCES, &first, &count);
        for (int s = 0; s < SENTENCES; ++s)
            for (int i = 0; i < LENGTH; ++i)
                if (corpus[at + s].seen[i] == MASK) {
                    ++all_blanks;
                    blanks += (size_t)s >= first && (size_t)s < first + count;
                }
        DDP_WEIGHT(blanks, all_blanks);
        const sentence *mine = text + at + first;
        int n = (int)count * LENGTH;

        places<<<(n + 31) / 32, 32>>>(weights, mine, ctx, dlogit, loss, n, blanks);
        context_gradient<<<(n * DIM + 63) / 64, 64>>>(weights, dlogit, dctx, n);
        output_gradient<<<((DIM + 1) * WORDS + 63) / 64, 64>>>(grads, ctx, dlogit, n);
        input_gradient<<<((WORDS + 1) * DIM + 63) / 64, 64>>>(weights, grads, mine, dctx, n, 1e-3f);
        offset_gradient<<<2, 64>>>(weights, grads, mine, dctx, n);
        DDP_STEP(0);
        for (int k = 0; k < 4; ++k)
            lion<<<(size[k] + 63) / 64, 64>>>(w[k], mom[k], g[k], size[k], 0.03f);

        if (step % 15 == 0 || step == STEPS - 1) {
            static float host[SENTENCES * LENGTH];
            float sum = 0.0f;
            CUDA(Memcpy, host, loss, n * sizeof(float), cudaMemcpyDeviceToHost);
            for (int i = 0; i < n; ++i)
                sum += host[i];
            DDP_REDUCE(&sum, 1, DDP_FLOAT32, DDP_OP_SUM, 0);
            if (DDP_RANK() == 0)
                printf("step %2d: %.4f nats a blank (%d blanks)\n", step, sum / all_blanks, all_blanks);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        for (int k = 0; k < 4; ++k) {
            CUDA(Memcpy, init, w[k], size[k] * sizeof(float), cudaMemcpyDeviceToHost);
            fwrite(init, sizeof(float), size[k], f);
        }
        fclose(f);
    }
    return 0;
}
