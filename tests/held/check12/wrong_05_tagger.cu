// Window tagger: sentences of different lengths, padded to MAXLEN; embedding of 3 words -> tags; RMSprop.
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include "ddprun.h"

#define SENTENCES 160
#define MAXLEN 14
#define VOCAB 40
#define EMB 8
#define TAGS 5
#define BATCH 16
#define STEPS 60
#define PAD (-1)

typedef struct {
    float *emb, *out; /* VOCAB x EMB, TAGS x 3 EMB */
} tagger;

static unsigned lfsr = 0xACE1u;
static unsigned draw(unsigned n)
{
    lfsr = lfsr * 1103515245u + 12345u;
    return (lfsr >> 10) % n;
}
static float draw_f(void) { return draw(20001) / 10000.0f - 1.0f; }

__device__ static float feature(const float *emb, const int *sent, int pos, int k)
{
    int q = pos + k / EMB - 1;
    if (q < 0 || q >= MAXLEN || sent[q] == PAD) return 0.0f;
    return emb[sent[q] * EMB + k % EMB];
}

__global__ void forward(tagger m, const int *words, const int *tags, float *d, float *loss, int rows)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= rows * MAXLEN) return;
    const int *sent = words + t / MAXLEN * MAXLEN;
    int pos = t % MAXLEN;
    float z[TAGS], top = -1e30f, sum = 0;
    loss[t] = 0;
    if (sent[pos] == PAD) {
        for (int c = 0; c < TAGS; ++c) d[t * TAGS + c] = 0;
        return;
    }
    for (int c = 0; c < TAGS; ++c) {
        z[c] = 0;
        for (int k = 0; k < 3 * EMB; ++k)
            z[c] += m.out[c * 3 * EMB + k] * feature(m.emb, sent, pos, k);
        top = fmaxf(top, z[c]);
    }
    for (int c = 0; c < TAGS; ++c) sum += expf(z[c] - top);
    for (int c = 0; c < TAGS; ++c) d[t * TAGS + c] = expf(z[c] - top) / sum - (c == tags[t] ? 1.0f : 0.0f);
    loss[t] = logf(sum) + top - z[tags[t]];
}

__global__ void grad_out(tagger m, float *gout, const int *words, const float *d, int rows, float scale)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= TAGS * 3 * EMB) return;
    int c = t / (3 * EMB), k = t % (3 * EMB);
    float s = 0;
    for (int i = 0; i < rows * MAXLEN; ++i)
        s += d[i * TAGS + c] * feature(m.emb, words + i / MAXLEN * MAXLEN, i % MAXLEN, k);
    gout[t] = s * scale;
}

__global__ void grad_emb(tagger m, float *gemb, const int *words, const float *d, int rows, float scale)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= VOCAB * EMB) return;
    int w = t / EMB, k = t % EMB;
    float s = 0;
    for (int i = 0; i < rows * MAXLEN; ++i) {
        if (words[i] != w) continue;
        int pos = i % MAXLEN, base = i - pos;
        for (int o = 0; o < 3; ++o) {
            int q = pos - o + 1; /* the position that sees this word in slot o */
            if (q < 0 || q >= MAXLEN) continue;
            for (int c = 0; c < TAGS; ++c)
                s += d[(base + q) * TAGS + c] * m.out[c * 3 * EMB + o * EMB + k];
        }
    }
    gemb[t] = s * scale;
}

__global__ void rmsprop(float *w, const float *g, float *sq, int n, float rate)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    sq[t] = 0.9f * sq[t] + 0.1f * g[t] * g[t];
    w[t] -= rate * g[t] / (sqrtf(sq[t]) + 1e-2f);
}

static void *alloc(size_t bytes)
{
    void *p = NULL;
    cudaMalloc(&p, bytes);
    cudaMemset(p, 0, bytes);
    return p;
}

int main(int argc, char **argv)
{
    static int words[SENTENCES * MAXLEN], tags[SENTENCES * MAXLEN];
    for (int i = 0; i < SENTENCES; ++i) {
        int len = 2 + draw(MAXLEN - 1);
        for (int p = 0; p < MAXLEN; ++p)
            words[i * MAXLEN + p] = p < len ? (int)draw(VOCAB) : PAD;
        for (int p = 0; p < len; ++p)
            tags[i * MAXLEN + p] = (words[i * MAXLEN + p] % 5 + (p > 0 && words[i * MAXLEN + p - 1] % 2)) % TAGS;
    }
    int ne = VOCAB * EMB, no = TAGS * 3 * EMB;
    static float he[VOCAB * EMB], ho[TAGS * 3 * EMB], hl[BATCH * MAXLEN];
    for (int i = 0; i < ne; ++i) he[i] = 0.5f * draw_f();
    for (int i = 0; i < no; ++i) ho[i] = 0.3f * draw_f();

    tagger m, g, sq;
    m.emb = (float *)alloc(ne * 4); m.out = (float *)alloc(no * 4);
    g.emb = (float *)alloc(ne * 4); g.out = (float *)alloc(no * 4);
    sq.emb = (float *)alloc(ne * 4); sq.out = (float *)alloc(no * 4);
    int *dw = (int *)alloc(sizeof(words)), *dt = (int *)alloc(sizeof(tags));
    float *d = (float *)alloc(BATCH * MAXLEN * TAGS * 4), *loss = (float *)alloc(BATCH * MAXLEN * 4);
    cudaMemcpy(m.emb, he, sizeof(he), cudaMemcpyHostToDevice);
    cudaMemcpy(m.out, ho, sizeof(ho), cudaMemcpyHostToDevice);
    cudaMemcpy(dw, words, sizeof(words), cudaMemcpyHostToDevice);
    cudaMemcpy(dt, tags, sizeof(tags), cudaMemcpyHostToDevice);
    DDP_PARAMETER(m.emb, ne, DDP_FLOAT32);
    DDP_PARAMETER(m.out, no, DDP_FLOAT32);
    DDP_GRADIENT(g.emb, ne, DDP_FLOAT32);
    DDP_GRADIENT(g.out, no, DDP_FLOAT32);

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t s0 = (size_t)(step * BATCH) % SENTENCES + first;
        int rows = (int)count, tokens = 0;
        for (size_t i = s0 * MAXLEN; i < (s0 + count) * MAXLEN; ++i)
            tokens += words[i] != PAD;
        const int *bw = dw + s0 * MAXLEN, *bt = dt + s0 * MAXLEN;
        float scale = 1.0f / tokens;
        forward<<<(rows * MAXLEN + 63) / 64, 64>>>(m, bw, bt, d, loss, rows);
        grad_out<<<(no + 63) / 64, 64>>>(m, g.out, bw, d, rows, scale);
        grad_emb<<<(ne + 63) / 64, 64>>>(m, g.emb, bw, d, rows, scale);
        DDP_STEP(0);
        rmsprop<<<(ne + 63) / 64, 64>>>(m.emb, g.emb, sq.emb, ne, 0.02f);
        rmsprop<<<(no + 63) / 64, 64>>>(m.out, g.out, sq.out, no, 0.02f);
        if (step % 10 == 0 || step == STEPS - 1) {
            float s = 0;
            cudaMemcpy(hl, loss, rows * MAXLEN * 4, cudaMemcpyDeviceToHost);
            for (int i = 0; i < rows * MAXLEN; ++i) s += hl[i];
            s /= tokens;
            DDP_MEAN(&s);
            if (DDP_RANK() == 0) printf("%d: %.4f\n", step, s);
        }
    }
    cudaMemcpy(he, m.emb, sizeof(he), cudaMemcpyDeviceToHost);
    cudaMemcpy(ho, m.out, sizeof(ho), cudaMemcpyDeviceToHost);
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(he, 4, ne, f);
        fwrite(ho, 4, no, f);
        fclose(f);
    }
    return 0;
}
