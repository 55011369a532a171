/* Guesses a word from the four words around it (CBOW) with one table of word vectors for input and output. */
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define WORDS   48
#define DIM     16
#define AROUND  4
#define BATCH   32
#define CORPUS  2400

#define MUST(c)                                                                   \
    do {                                                                          \
        int rc_ = (int)(c);                                                       \
        if (rc_) {                                                                \
            printf("%s line %d: error %d\n", __FILE__, __LINE__, rc_);            \
            exit(3);                                                              \
        }                                                                         \
    } while (0)

static unsigned state = 5;
static unsigned roll(unsigned n)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state % n;
}

typedef struct {
    float *table, *grad;      /* WORDS x DIM */
    float *mix, *dmix;        /* DIM x DIM: from the context's mean to the query */
    float *ctx, *query;       /* n x DIM */
    float *dctx, *dquery;
    float *logits;            /* n x WORDS */
    float *loss;
    cublasHandle_t blas;
} model;

__global__ void mean_context(const int *corpus, const float *table, float *ctx, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * DIM)
        return;
    int i = t / DIM, d = t % DIM;
    float s = 0;
    for (int k = 0; k <= AROUND; ++k)
        if (k != AROUND / 2)
            s += table[corpus[i + k] * DIM + d];
    ctx[t] = s / AROUND;
}

__global__ void softmax_loss(const int *corpus, float *logits, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float *z = logits + i * WORDS, top = z[0], sum = 0;
    int target = corpus[i + AROUND / 2];
    for (int c = 1; c < WORDS; ++c)
        top = fmaxf(top, z[c]);
    for (int c = 0; c < WORDS; ++c)
        sum += expf(z[c] - top);
    loss[i] = top + logf(sum) - z[target];
    for (int c = 0; c < WORDS; ++c)
        z[c] = (expf(z[c] - top) / sum - (c == target ? 1.0f : 0.0f)) / n;
}

/* One thread for each element of the table, so that words that occur twice need no atomics. */
__global__ void scatter_context(const int *corpus, const float *dctx, float *grad, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= WORDS * DIM)
        return;
    float s = 0;
    for (int i = 0; i < n; ++i)
        for (int k = 0; k <= AROUND; ++k)
            if (k != AROUND / 2 && corpus[i + k] == t / DIM)
                s += dctx[i * DIM + t % DIM];
    grad[t] += s / AROUND;
}

__global__ void adagrad(float *w, float *acc, const float *g, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        acc[i] += g[i] * g[i];
        w[i] -= lr * g[i] / (sqrtf(acc[i]) + 1e-5f);
    }
}

/* row-major C (m x n) = op(A) op(B) */
static void mul(model *m, int ta, int tb, int rows, int cols, int inner, const float *a, const float *b, float *c)
{
    const float one = 1, zero = 0;
    MUST(cublasSgemm(m->blas, tb ? CUBLAS_OP_T : CUBLAS_OP_N, ta ? CUBLAS_OP_T : CUBLAS_OP_N, cols, rows, inner, &one, b,
                     tb ? inner : cols, a, ta ? rows : inner, &zero, c, cols));
}

static float *room(size_t n)
{
    float *p;
    MUST(cudaMalloc((void **)&p, n * sizeof(float)));
    MUST(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    /* A walk over the words: each word has three likely followers. */
    static int text[CORPUS + AROUND];
    text[0] = 1;
    for (int i = 1; i < CORPUS + AROUND; ++i)
        text[i] = roll(10) == 0 ? (int)roll(WORDS) : (text[i - 1] * 5 + 7 + (int)roll(2)) % WORDS;
    int *corpus;
    MUST(cudaMalloc((void **)&corpus, sizeof text));
    MUST(cudaMemcpy(corpus, text, sizeof text, cudaMemcpyHostToDevice));

    model m;
    MUST(cublasCreate(&m.blas));
    m.table = room(WORDS * DIM);
    m.grad = room(WORDS * DIM);
    m.mix = room(DIM * DIM);
    m.dmix = room(DIM * DIM);
    m.ctx = room(BATCH * DIM);
    m.query = room(BATCH * DIM);
    m.dctx = room(BATCH * DIM);
    m.dquery = room(BATCH * DIM);
    m.logits = room(BATCH * WORDS);
    m.loss = room(BATCH);
    float *acc_table = room(WORDS * DIM), *acc_mix = room(DIM * DIM);

    static float init[WORDS * DIM];
    for (int i = 0; i < WORDS * DIM; ++i)
        init[i] = (roll(2001) / 1000.0f - 1) * 0.5f;
    MUST(cudaMemcpy(m.table, init, sizeof init, cudaMemcpyHostToDevice));
    for (int i = 0; i < DIM * DIM; ++i)
        init[i] = (i % (DIM + 1) == 0) + (roll(2001) / 1000.0f - 1) * 0.1f;
    MUST(cudaMemcpy(m.mix, init, DIM * DIM * sizeof(float), cudaMemcpyHostToDevice));

    DDP_PARAMETER(m.table, WORDS * DIM, DDP_FLOAT32);
    DDP_PARAMETER(m.mix, DIM * DIM, DDP_FLOAT32);
    DDP_STATE(acc_table, WORDS * DIM, DDP_FLOAT32);
    DDP_STATE(acc_mix, DIM * DIM, DDP_FLOAT32);
    DDP_GRADIENT(m.grad, WORDS * DIM, DDP_FLOAT32);
    DDP_GRADIENT(m.dmix, DIM * DIM, DDP_FLOAT32);

    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        const int *here = corpus + (size_t)step * BATCH % CORPUS + first;

        mean_context<<<(n * DIM + 63) / 64, 64>>>(here, m.table, m.ctx, n);
        mul(&m, 0, 0, n, DIM, DIM, m.ctx, m.mix, m.query);
        mul(&m, 0, 1, n, WORDS, DIM, m.query, m.table, m.logits);
        softmax_loss<<<1, BATCH>>>(here, m.logits, m.loss, n);

        mul(&m, 1, 0, WORDS, DIM, n, m.logits, m.query, m.grad);
        mul(&m, 0, 0, n, DIM, WORDS, m.logits, m.table, m.dquery);
        mul(&m, 1, 0, DIM, DIM, n, m.ctx, m.dquery, m.dmix);
        DDP_STEP(0);
        mul(&m, 0, 1, n, DIM, DIM, m.dquery, m.mix, m.dctx);
        scatter_context<<<(WORDS * DIM + 63) / 64, 64>>>(here, m.dctx, m.grad, n);

        adagrad<<<(WORDS * DIM + 63) / 64, 64>>>(m.table, acc_table, m.grad, WORDS * DIM, 0.15f);
        adagrad<<<(DIM * DIM + 63) / 64, 64>>>(m.mix, acc_mix, m.dmix, DIM * DIM, 0.15f);

        if (step % 12 == 0 || step == steps - 1) {
            float each[BATCH], mean = 0;
            MUST(cudaMemcpy(each, m.loss, n * sizeof(float), cudaMemcpyDeviceToHost));
            for (int i = 0; i < n; ++i)
                mean += each[i] / n;
            DDP_MEAN_AS("loss", &mean);
            if (DDP_RANK() == 0)
                printf("step %d loss %f\n", step, mean);
        }
    }

    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        MUST(cudaMemcpy(init, m.table, sizeof init, cudaMemcpyDeviceToHost));
        fwrite(init, sizeof(float), WORDS * DIM, f);
        MUST(cudaMemcpy(init, m.mix, DIM * DIM * sizeof(float), cudaMemcpyDeviceToHost));
        fwrite(init, sizeof(float), DIM * DIM, f);
        fclose(f);
    }
    cublasDestroy(m.blas);
    return 0;
}
