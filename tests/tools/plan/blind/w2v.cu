// word2vec: skip-gram with negative sampling on a little synthetic corpus; the two embedding tables are changed in
// place. Truth: state (both tables Vin and Vout around each batch). Batches: 36 (batches of 48 pairs with 4 negatives
// each).
#include "truth.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORDS = 24, TOPICS = 4, DIMS = 12, PAIRS = 48, NEG = 4, K = NEG + 1, CORPUS = 2000, ITER = 36 };

// device globals instead of pointers handed around
__device__ float Vin[WORDS * DIMS], Vout[WORDS * DIMS];
__device__ float coef[PAIRS * K], gin[PAIRS * DIMS], pair_loss[PAIRS];

__global__ void
scores(const int *centre, const int *ctx)
{
    int p = blockIdx.x, k = threadIdx.x;
    __shared__ float l[K];
    float dot = 0;
    for (int d = 0; d < DIMS; d++)
        dot += Vin[centre[p] * DIMS + d] * Vout[ctx[p * K + k] * DIMS + d];
    float s = 1 / (1 + expf(-dot));
    float label = k == 0 ? 1.0f : 0.0f;
    coef[p * K + k] = label - s;
    l[k] = -logf(k == 0 ? s + 1e-9f : 1 - s + 1e-9f);
    __syncthreads();
    if (k == 0) {
        float t = 0;
        for (int i = 0; i < K; i++)
            t += l[i];
        pair_loss[p] = t;
    }
}
__global__ void
centre_grad(const int *ctx)
{
    int p = blockIdx.x, d = threadIdx.x;
    float s = 0;
    for (int k = 0; k < K; k++)
        s += coef[p * K + k] * Vout[ctx[p * K + k] * DIMS + d];
    gin[p * DIMS + d] = s;
}
// every word looks for the pairs it is in: no atomics, same sum each time
__global__ void
move_out(const int *centre, const int *ctx, float alpha)
{
    int w = blockIdx.x, d = threadIdx.x;
    float s = 0;
    for (int q = 0; q < PAIRS * K; q++)
        if (ctx[q] == w)
            s += coef[q] * Vin[centre[q / K] * DIMS + d];
    Vout[w * DIMS + d] += alpha * s;
}
__global__ void
move_in(const int *centre, float alpha)
{
    int w = blockIdx.x, d = threadIdx.x;
    float s = 0;
    for (int p = 0; p < PAIRS; p++)
        if (centre[p] == w)
            s += gin[p * DIMS + d];
    Vin[w * DIMS + d] += alpha * s;
}
__global__ void
similarity(float *sim)
{
    int a = blockIdx.x, b = threadIdx.x;
    float x = 0, y = 0, z = 0;
    for (int d = 0; d < DIMS; d++) {
        float u = Vin[a * DIMS + d], v = Vin[b * DIMS + d];
        x += u * v;
        y += u * u;
        z += v * v;
    }
    sim[a * WORDS + b] = x * rsqrtf(y * z + 1e-12f);
}

static unsigned s0 = 42;
static unsigned
next_int(unsigned n)
{
    s0 = s0 * 1103515245u + 12345u;
    return (s0 >> 16) % n;
}

int
main()
{
    static int corpus[CORPUS], hc[PAIRS], hx[PAIRS * K];
    static float h[WORDS * DIMS], hl[PAIRS], sim[WORDS * WORDS];
    int topic = 0;
    for (int i = 0; i < CORPUS; i++) { // runs of words of one topic
        if (next_int(10) == 0)
            topic = next_int(TOPICS);
        corpus[i] = topic * (WORDS / TOPICS) + next_int(WORDS / TOPICS);
    }
    for (int i = 0; i < WORDS * DIMS; i++)
        h[i] = (next_int(1000) / 1000.0f - 0.5f);
    cudaMemcpyToSymbol(Vin, h, sizeof h);
    for (int i = 0; i < WORDS * DIMS; i++)
        h[i] = (next_int(1000) / 1000.0f - 0.5f) * 0.2f;
    cudaMemcpyToSymbol(Vout, h, sizeof h);
    int *centre, *ctx;
    float *dsim;
    cudaMalloc((void **)&centre, sizeof hc);
    cudaMalloc((void **)&ctx, sizeof hx);
    cudaMalloc((void **)&dsim, sizeof sim);
    void *pin, *pout;
    cudaGetSymbolAddress(&pin, Vin);
    cudaGetSymbolAddress(&pout, Vout);
    truth_by_state keep;

    float avg = 0;
    for (int it = 1; it <= ITER; it++) {
        for (int p = 0; p < PAIRS; p++) {
            int at = 2 + next_int(CORPUS - 4), off = 1 + next_int(2);
            hc[p] = corpus[at];
            hx[p * K] = corpus[next_int(2) ? at + off : at - off];
            for (int k = 1; k < K; k++)
                hx[p * K + k] = next_int(WORDS);
        }
        cudaMemcpy(centre, hc, sizeof hc, cudaMemcpyHostToDevice);
        cudaMemcpy(ctx, hx, sizeof hx, cudaMemcpyHostToDevice);
        keep.begin({{pin, WORDS * DIMS}, {pout, WORDS * DIMS}});
        scores<<<PAIRS, K>>>(centre, ctx);
        centre_grad<<<PAIRS, DIMS>>>(ctx);
        move_out<<<WORDS, DIMS>>>(centre, ctx, 0.25f);
        move_in<<<WORDS, DIMS>>>(centre, 0.25f);
        keep.end();
        cudaMemcpyFromSymbol(hl, pair_loss, sizeof hl);
        float l = 0;
        for (int p = 0; p < PAIRS; p++)
            l += hl[p];
        avg += l / PAIRS;
        printf("%d: loss %.4f, mean so far %.4f\n", it, l / PAIRS, avg / it);
    }
    keep.close();
    similarity<<<WORDS, WORDS>>>(dsim);
    cudaError_t err = cudaMemcpy(sim, dsim, sizeof sim, cudaMemcpyDeviceToHost);
    if (err) {
        printf("error: %s\n", cudaGetErrorString(err));
        return 1;
    }
    float in = 0, out = 0;
    int ni = 0, no = 0;
    for (int a = 0; a < WORDS; a++)
        for (int b = 0; b < WORDS; b++)
            if (a != b) {
                if (a / (WORDS / TOPICS) == b / (WORDS / TOPICS))
                    in += sim[a * WORDS + b], ni++;
                else
                    out += sim[a * WORDS + b], no++;
            }
    printf("cosine in a topic %.4f, between topics %.4f\n", in / ni, out / no);
    truth_dump({{pin, WORDS * DIMS}, {pout, WORDS * DIMS}});
    return 0;
}
