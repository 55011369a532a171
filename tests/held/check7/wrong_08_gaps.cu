/* Fill-in-the-gap language model: a masked token is predicted from the mean of its neighbours' vectors. */
#include <cuda_runtime.h>
#include <cublas_v2.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include "ddprun.h"

#define VOCAB 40
#define DIM 16
#define LEN 12
#define SENTENCES 16
#define CORPUS 256

#define DIE_IF(c) do { if (c) { fprintf(stderr, "failed at line %d\n", __LINE__); exit(1); } } while (0)

static uint32_t hash3(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t h = a * 0x9e3779b1u ^ b * 0x85ebca77u ^ c * 0xc2b2ae3du;
    h ^= h >> 15; h *= 0x2c1b3c6du; h ^= h >> 12; h *= 0x297a2d39u; h ^= h >> 15;
    return h;
}

__global__ void context(const int *tok, const float *emb, float *ctx, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * DIM) return;
    int q = i / DIM, c = i % DIM, pos = q % LEN, used = 0;
    float a = 0;
    for (int o = -2; o <= 2; ++o) {
        if (o == 0 || pos + o < 0 || pos + o >= LEN) continue;
        a += emb[tok[q + o] * DIM + c];
        ++used;
    }
    ctx[i] = a / used;
}

/* logits, VOCAB by n, become the derivative of the loss; unmasked positions get zero */
__global__ void softmax_loss(float *logit, const int *tok, const unsigned char *mask, float *loss, int n, float scale)
{
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= n) return;
    float *z = logit + q * VOCAB, top = z[0], sum = 0;
    for (int v = 1; v < VOCAB; ++v) top = fmaxf(top, z[v]);
    for (int v = 0; v < VOCAB; ++v) sum += expf(z[v] - top);
    loss[q] = mask[q] ? top + logf(sum) - z[tok[q]] : 0;
    for (int v = 0; v < VOCAB; ++v)
        z[v] = mask[q] ? (expf(z[v] - top) / sum - (v == tok[q])) * scale : 0;
}

__global__ void scatter_emb(const int *tok, const float *dctx, float *demb, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= VOCAB * DIM) return;
    int v = k / DIM, c = k % DIM;
    float a = 0;
    for (int q = 0; q < n; ++q) {
        int pos = q % LEN, used = (pos >= 2) + (pos >= 1) + (pos + 1 < LEN) + (pos + 2 < LEN);
        for (int o = -2; o <= 2; ++o)
            if (o != 0 && pos + o >= 0 && pos + o < LEN && tok[q + o] == v) a += dctx[q * DIM + c] / used;
    }
    demb[k] = a;
}

__global__ void adamw(float *w, const float *g, float *m, float *v, float lr, float c1, float c2, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] += 0.1f * (g[i] - m[i]);
    v[i] += 0.02f * (g[i] * g[i] - v[i]);
    w[i] -= lr * (m[i] / c1 / (sqrtf(v[i] / c2) + 1e-3f) + 0.01f * w[i]);
}

int main(int argc, char **argv)
{
    static int corpus[CORPUS * LEN];
    static unsigned char mask[SENTENCES * LEN];
    static float w[2][VOCAB * DIM], hl[SENTENCES * LEN];
    for (int s = 0; s < CORPUS; ++s)
        for (int t = 0; t < LEN; ++t) {
            uint32_t h = hash3(s, t, 1);
            corpus[s * LEN + t] = t == 0 ? h % VOCAB : (corpus[s * LEN + t - 1] * 3 + 1 + (h % 8 == 0 ? h / 8 % 5 : 0)) % VOCAB;
        }
    for (int k = 0; k < 2; ++k)
        for (int i = 0; i < VOCAB * DIM; ++i) w[k][i] = (hash3(i, k, 2) % 1000 / 1000.0f - 0.5f) * 0.6f;
    int *dtok;
    unsigned char *dmask;
    float *par[2], *grad[2], *m[2], *v[2], *ctx, *dctx, *logit, *loss;
    DIE_IF(cudaMalloc((void **)&dtok, sizeof corpus) || cudaMemcpy(dtok, corpus, sizeof corpus, cudaMemcpyHostToDevice));
    DIE_IF(cudaMalloc((void **)&dmask, sizeof mask));
    DIE_IF(cudaMalloc((void **)&ctx, SENTENCES * LEN * DIM * 4) || cudaMalloc((void **)&dctx, SENTENCES * LEN * DIM * 4));
    DIE_IF(cudaMalloc((void **)&logit, SENTENCES * LEN * VOCAB * 4) || cudaMalloc((void **)&loss, sizeof hl));
    for (int k = 0; k < 2; ++k) {
        size_t bytes = sizeof w[k];
        DIE_IF(cudaMalloc((void **)&par[k], bytes) || cudaMalloc((void **)&grad[k], bytes));
        DIE_IF(cudaMalloc((void **)&m[k], bytes) || cudaMalloc((void **)&v[k], bytes));
        DIE_IF(cudaMemset(m[k], 0, bytes) || cudaMemset(v[k], 0, bytes));
        DIE_IF(cudaMemcpy(par[k], w[k], bytes, cudaMemcpyHostToDevice));
        DDP_PARAMETER(par[k], VOCAB * DIM, DDP_FLOAT32);
        DDP_STATE(m[k], VOCAB * DIM, DDP_FLOAT32);
        DDP_STATE(v[k], VOCAB * DIM, DDP_FLOAT32);
        DDP_GRADIENT(grad[k], VOCAB * DIM, DDP_FLOAT32);
    }
    cublasHandle_t cb;
    DIE_IF(cublasCreate(&cb));
    const float one = 1, zero = 0;
    float p1 = 1, p2 = 1;
    for (int step = 0; step < 60; ++step) {
        size_t first, count;
        DDP_SHARD(SENTENCES, &first, &count);
        size_t sent = (size_t)step * SENTENCES % CORPUS + first;
        const int *tok = dtok + sent * LEN;
        int n = (int)count * LEN, masked = 0;
        for (int q = 0; q < n; ++q) {
            mask[q] = hash3(step, (uint32_t)(sent * LEN + q), 3) % 100 < 20;
            masked += mask[q];
        }
        if (masked == 0) { mask[0] = 1; masked = 1; }
        DIE_IF(cudaMemcpy(dmask, mask, n, cudaMemcpyHostToDevice));
        context<<<(n * DIM + 127) / 128, 128>>>(tok, par[0], ctx, n);
        DIE_IF(cublasSgemm(cb, CUBLAS_OP_T, CUBLAS_OP_N, VOCAB, n, DIM, &one, par[1], DIM, ctx, DIM, &zero, logit, VOCAB));
        softmax_loss<<<(n + 63) / 64, 64>>>(logit, tok, dmask, loss, n, 1.0f / masked);
        DIE_IF(cublasSgemm(cb, CUBLAS_OP_N, CUBLAS_OP_T, DIM, VOCAB, n, &one, ctx, DIM, logit, VOCAB, &zero, grad[1], DIM));
        DIE_IF(cublasSgemm(cb, CUBLAS_OP_N, CUBLAS_OP_N, DIM, n, VOCAB, &one, par[1], DIM, logit, VOCAB, &zero, dctx, DIM));
        scatter_emb<<<(VOCAB * DIM + 127) / 128, 128>>>(tok, dctx, grad[0], n);
        DDP_STEP(0);
        p1 *= 0.9f; p2 *= 0.98f;
        for (int k = 0; k < 2; ++k)
            adamw<<<(VOCAB * DIM + 127) / 128, 128>>>(par[k], grad[k], m[k], v[k], 0.03f, 1 - p1, 1 - p2, VOCAB * DIM);
        if (step % 15 == 0 || step == 59) {
            float mean = 0;
            DIE_IF(cudaMemcpy(hl, loss, n * 4, cudaMemcpyDeviceToHost));
            for (int q = 0; q < n; ++q) mean += hl[q] / masked;
            DDP_MEAN(&mean);
            if (DDP_RANK() == 0) printf("step %d, loss per gap %.4f\n", step, mean);
        }
    }
    FILE *f = argc > 1 && DDP_RANK() == 0 ? fopen(argv[1], "wb") : NULL;
    for (int k = 0; k < 2; ++k) {
        DIE_IF(cudaMemcpy(w[k], par[k], sizeof w[k], cudaMemcpyDeviceToHost));
        if (f) fwrite(w[k], 1, sizeof w[k], f);
    }
    if (f) fclose(f);
    cublasDestroy(cb);
    return 0;
}
