/* Which symbol occurs most often in the sequence? Embedding + self attention + mean pooling + linear. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "nn.h"

static const int BATCH = 64, T = 12, D = 24, SYMBOLS = 6, ITERS = 80;

__global__ void embed(const int *tok, const float *emb, const float *pos, float *x, int T, int D)
{
    int bt = blockIdx.x, d = threadIdx.x;
    x[bt * D + d] = emb[tok[bt] * D + d] + pos[(bt % T) * D + d];
}

__global__ void embed_backward(const int *tok, const float *dx, float *demb, float *dpos, int total, int T, int D)
{
    int s = blockIdx.x, d = threadIdx.x; /* a row of emb or of pos */
    float e = 0.f, p = 0.f;
    for (int bt = 0; bt < total; bt++) {
        if (tok[bt] == s) e += dx[bt * D + d];
        if (bt % T == s) p += dx[bt * D + d];
    }
    if (s < 6) demb[s * D + d] += e;
    if (s < T) dpos[s * D + d] += p;
}

__global__ void pool(const float *o, const float *x, float *pooled, int T, int D)
{
    int b = blockIdx.x, d = threadIdx.x;
    float s = 0.f;
    for (int t = 0; t < T; t++) s += o[(b * T + t) * D + d] + x[(b * T + t) * D + d];
    pooled[b * D + d] = s / T;
}

__global__ void pool_backward(const float *dpooled, float *d_o, int T, int D)
{
    int bt = blockIdx.x, d = threadIdx.x;
    d_o[bt * D + d] = dpooled[(bt / T) * D + d] / T;
}

__global__ void cross_entropy(const float *logits, const int *label, float *dlogits, float *loss, int batch, int c)
{
    int b = threadIdx.x;
    float mx = -1e30f, z = 0.f;
    for (int j = 0; j < c; j++) mx = fmaxf(mx, logits[b * c + j]);
    for (int j = 0; j < c; j++) z += expf(logits[b * c + j] - mx);
    for (int j = 0; j < c; j++)
        dlogits[b * c + j] = (expf(logits[b * c + j] - mx) / z - (j == label[b])) / batch;
    loss[b] = logf(z) + mx - logits[b * c + label[b]];
}

static void make_batch(int *tok, int *label)
{
    for (int b = 0; b < BATCH; b++) {
        int major = rand() % SYMBOLS, cnt[16] = { 0 }, best = 0;
        for (int t = 0; t < T; t++) {
            tok[b * T + t] = rand() % 3 ? rand() % SYMBOLS : major;
            cnt[tok[b * T + t]]++;
        }
        for (int s = 1; s < SYMBOLS; s++)
            if (cnt[s] > cnt[best]) best = s;
        label[b] = best;
    }
}

int main(void)
{
    srand(21);
    nn_registry reg;
    memset(&reg, 0, sizeof(reg));
    nn_param *emb = nn_register(&reg, "emb", SYMBOLS, D, 0.5f);
    nn_param *pos = nn_register(&reg, "pos", T, D, 0.1f);
    nn_param *wq = nn_register(&reg, "wq", D, D, 0.2f);
    nn_param *wk = nn_register(&reg, "wk", D, D, 0.2f);
    nn_param *wv = nn_register(&reg, "wv", D, D, 0.2f);
    nn_param *wo = nn_register(&reg, "wo", D, SYMBOLS, 0.2f);

    const int R = BATCH * T;
    const size_t rd = (size_t)R * D * sizeof(float);
    float *x = (float *)nn_alloc(rd), *q = (float *)nn_alloc(rd), *k = (float *)nn_alloc(rd), *v = (float *)nn_alloc(rd), *o = (float *)nn_alloc(rd);
    float *dx = (float *)nn_alloc(rd), *dq = (float *)nn_alloc(rd), *dk = (float *)nn_alloc(rd), *dv = (float *)nn_alloc(rd);
    float *att = (float *)nn_alloc((size_t)R * T * 4), *datt = (float *)nn_alloc((size_t)R * T * 4), *d_o = (float *)nn_alloc(rd);
    float *pooled = (float *)nn_alloc(BATCH * D * 4), *dpooled = (float *)nn_alloc(BATCH * D * 4);
    float *logits = (float *)nn_alloc(BATCH * SYMBOLS * 4), *dlogits = (float *)nn_alloc(BATCH * SYMBOLS * 4), *loss = (float *)nn_alloc(BATCH * 4);

    /* tokens and labels in one buffer */
    int *batch_dev = (int *)nn_alloc((R + BATCH) * sizeof(int));
    int *batch_host = (int *)malloc((R + BATCH) * sizeof(int));
    int *tok = batch_dev, *label = batch_dev + R;
    float *hloss = (float *)malloc(BATCH * sizeof(float));

    for (int it = 0; it < ITERS; it++) {
        make_batch(batch_host, batch_host + R);
        cudaMemcpy(batch_dev, batch_host, (R + BATCH) * sizeof(int), cudaMemcpyHostToDevice);
        nn_zero_grad(&reg);

        embed<<<R, D>>>(tok, emb->data, pos->data, x, T, D);
        nn_gemm(x, 0, wq->data, 0, q, R, D, D, 1.f, 0.f);
        nn_gemm(x, 0, wk->data, 0, k, R, D, D, 1.f, 0.f);
        nn_gemm(x, 0, wv->data, 0, v, R, D, D, 1.f, 0.f);
        nn_attention_forward(q, k, v, att, o, BATCH, T, D);
        pool<<<BATCH, D>>>(o, x, pooled, T, D);
        nn_gemm(pooled, 0, wo->data, 0, logits, BATCH, SYMBOLS, D, 1.f, 0.f);
        cross_entropy<<<1, BATCH>>>(logits, label, dlogits, loss, BATCH, SYMBOLS);

        nn_gemm(pooled, 1, dlogits, 0, wo->grad, D, SYMBOLS, BATCH, 1.f, 1.f);
        nn_gemm(dlogits, 0, wo->data, 1, dpooled, BATCH, D, SYMBOLS, 1.f, 0.f);
        pool_backward<<<R, D>>>(dpooled, d_o, T, D);
        cudaMemcpy(dx, d_o, rd, cudaMemcpyDeviceToDevice); /* residual */
        nn_attention_backward(q, k, v, att, d_o, datt, dq, dk, dv, BATCH, T, D);
        nn_gemm(x, 1, dq, 0, wq->grad, D, D, R, 1.f, 1.f);
        nn_gemm(x, 1, dk, 0, wk->grad, D, D, R, 1.f, 1.f);
        nn_gemm(x, 1, dv, 0, wv->grad, D, D, R, 1.f, 1.f);
        nn_gemm(dq, 0, wq->data, 1, dx, R, D, D, 1.f, 1.f);
        nn_gemm(dk, 0, wk->data, 1, dx, R, D, D, 1.f, 1.f);
        nn_gemm(dv, 0, wv->data, 1, dx, R, D, D, 1.f, 1.f);
        embed_backward<<<T, D>>>(tok, dx, emb->grad, pos->grad, R, T, D);

        float lr = 0.01f * (it < 10 ? (it + 1) / 10.f : 1.f);
        nn_adamw(&reg, lr, 0.01f);

        if (it % 8 == 0 || it == ITERS - 1) {
            cudaMemcpy(hloss, loss, BATCH * sizeof(float), cudaMemcpyDeviceToHost);
            float s = 0.f;
            for (int b = 0; b < BATCH; b++) s += hloss[b];
            printf("iter %3d  loss %.4f\n", it, s / BATCH);
        }
    }
    return 0;
}
