/* Character model: embedding of two previous characters, one softmax layer. Text comes from a small random grammar. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define VOCAB 24
#define EMB 10
#define CTX 2
#define TEXT 4096
#define BATCH 96
#define STEPS 60

static unsigned long state = 88172645463325252ul;
static double next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) / 9007199254740992.0;
}

__global__ void logits_and_softmax(const unsigned char *text, const int *pos, const float *emb, const float *out, float *p,
                                   float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float z[VOCAB], top = -1e30f, sum = 0;
    for (int v = 0; v < VOCAB; ++v) {
        z[v] = 0;
        for (int c = 0; c < CTX; ++c) {
            const float *e = emb + text[pos[i] + c] * EMB, *o = out + (c * EMB) * VOCAB + v;
            for (int k = 0; k < EMB; ++k) z[v] += e[k] * o[k * VOCAB];
        }
        top = fmaxf(top, z[v]);
    }
    for (int v = 0; v < VOCAB; ++v) sum += expf(z[v] - top);
    int y = text[pos[i] + CTX];
    loss[i] = logf(sum) + top - z[y];
    for (int v = 0; v < VOCAB; ++v) p[i * VOCAB + v] = (expf(z[v] - top) / sum - (v == y)) / n;
}
__global__ void grad_out(const unsigned char *text, const int *pos, const float *emb, const float *p, float *g, int n)
{
    int row = blockIdx.x, v = threadIdx.x, c = row / EMB, k = row % EMB;
    float s = 0;
    for (int i = 0; i < n; ++i) s += emb[text[pos[i] + c] * EMB + k] * p[i * VOCAB + v];
    g[row * VOCAB + v] = s;
}
__global__ void grad_emb(const unsigned char *text, const int *pos, const float *out, const float *p, float *g, int n)
{
    int tok = blockIdx.x, k = threadIdx.x;
    float s = 0;
    for (int i = 0; i < n; ++i)
        for (int c = 0; c < CTX; ++c)
            if (text[pos[i] + c] == tok)
                for (int v = 0; v < VOCAB; ++v) s += p[i * VOCAB + v] * out[(c * EMB + k) * VOCAB + v];
    g[tok * EMB + k] = s;
}
__global__ void apply(float *w, const float *g, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= lr * g[i];
}

static double schedule(long seen, long total)
{
    double at = (double)seen / (double)total, warm = 0.1;
    if (at < warm) return at / warm;
    if (at > 1) at = 1;
    return 0.05 + 0.95 * 0.5 * (1 + cos(3.14159265358979 * (at - warm) / (1 - warm)));
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : STEPS;
    const int ne = VOCAB * EMB, no = CTX * EMB * VOCAB;
    static unsigned char text[TEXT];
    static float we[VOCAB * EMB], wo[CTX * EMB * VOCAB];
    for (int i = 0; i < TEXT; ++i) {
        if (i < 2 || next_random() < 0.15) text[i] = (unsigned char)(next_random() * VOCAB);
        else text[i] = (unsigned char)((text[i - 1] * 5 + 3 + (text[i - 2] > 11)) % VOCAB);
    }
    for (int i = 0; i < ne; ++i) we[i] = (float)(next_random() - 0.5);
    for (int i = 0; i < no; ++i) wo[i] = (float)(next_random() - 0.5) * 0.5f;
    unsigned char *d_text;
    int *d_pos, h_pos[BATCH];
    float *emb, *out, *gemb, *gout, *p, *loss, h_loss[BATCH];
    cudaMalloc((void **)&d_text, TEXT);
    cudaMalloc((void **)&d_pos, BATCH * sizeof(int));
    cudaMalloc((void **)&emb, sizeof we);
    cudaMalloc((void **)&out, sizeof wo);
    cudaMalloc((void **)&gemb, sizeof we);
    cudaMalloc((void **)&gout, sizeof wo);
    cudaMalloc((void **)&p, BATCH * VOCAB * sizeof(float));
    cudaMalloc((void **)&loss, BATCH * sizeof(float));
    cudaMemcpy(d_text, text, TEXT, cudaMemcpyHostToDevice);
    cudaMemcpy(emb, we, sizeof we, cudaMemcpyHostToDevice);
    cudaMemcpy(out, wo, sizeof wo, cudaMemcpyHostToDevice);
    DDP_PARAMETER(emb, ne, DDP_FLOAT32);
    DDP_PARAMETER(out, no, DDP_FLOAT32);
    DDP_GRADIENT(gemb, ne, DDP_FLOAT32);
    DDP_GRADIENT(gout, no, DDP_FLOAT32);

    long seen = 0, total = (long)STEPS * BATCH;
    for (int s = 0; s < steps; ++s) {
        size_t first, count;
        for (int i = 0; i < BATCH; ++i) h_pos[i] = (int)(next_random() * (TEXT - CTX - 1));
        DDP_SHARD(BATCH, &first, &count);
        cudaMemcpy(d_pos, h_pos + first, count * sizeof(int), cudaMemcpyHostToDevice);
        int n = (int)count;
        logits_and_softmax<<<(n + 31) / 32, 32>>>(d_text, d_pos, emb, out, p, loss, n);
        grad_out<<<CTX * EMB, VOCAB>>>(d_text, d_pos, emb, p, gout, n);
        grad_emb<<<VOCAB, EMB>>>(d_text, d_pos, out, p, gemb, n);
        DDP_STEP(0);
        seen += n;
        float lr = (float)(3.0 * schedule(seen, total));
        apply<<<(ne + 63) / 64, 64>>>(emb, gemb, lr, ne);
        apply<<<(no + 63) / 64, 64>>>(out, gout, lr, no);
        if (s % 15 == 0 || s == steps - 1) {
            double mean = 0;
            cudaMemcpy(h_loss, loss, count * sizeof(float), cudaMemcpyDeviceToHost);
            for (int i = 0; i < n; ++i) mean += h_loss[i] / n;
            DDP_MEAN(&mean);
            printf("%d: %.4f nats, rate %.3f\n", s, mean, lr);
        }
    }
    cudaMemcpy(we, emb, sizeof we, cudaMemcpyDeviceToHost);
    cudaMemcpy(wo, out, sizeof wo, cudaMemcpyDeviceToHost);
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(we, 1, sizeof we, f);
        fwrite(wo, 1, sizeof wo, f);
        fclose(f);
    }
    return 0;
}
