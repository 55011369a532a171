/* word2vec-like skip-gram with negative sampling.
 * The corpus is a made-up walk over a few "topics".  As in the classic program the
 * two tables are changed in place: no gradient array, atomics for colliding words. */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#ifdef ORACLE
#include "oracle.h"
#endif

#define VOCAB  120
#define DIM    16
#define TOPICS 6
#define WORDS  6000
#define WINDOW 2
#define NEG    4
#define PAIRS  128        /* pairs per batch */

#define OK(x) if ((x) != cudaSuccess) { printf("cuda failure at line %d\n", __LINE__); exit(1); }

static unsigned long long next_random = 25214903917ULL;
static unsigned rnd(void) { next_random = next_random * 6364136223846793005ULL + 11; return (unsigned)(next_random >> 33); }

static int corpus[WORDS];
static int table[4096];

/* one warp-sized block for a pair: thread = dimension */
__global__ void skipgram(float *syn0, float *syn1, const int *centre, const int *target, const int *neg, float lr, float *loss)
{
    __shared__ float red[DIM];
    int p = blockIdx.x, d = threadIdx.x;
    int c = centre[p];
    float v = syn0[c * DIM + d], dv = 0.f, l = 0.f;
    for (int k = 0; k <= NEG; k++) {
        int w = k == 0 ? target[p] : neg[p * NEG + k - 1];
        float u = syn1[w * DIM + d];
        red[d] = v * u;
        __syncthreads();
        for (int s = DIM / 2; s > 0; s /= 2) {
            if (d < s) red[d] += red[d + s];
            __syncthreads();
        }
        float dot = red[0];
        __syncthreads();
        float label = k == 0 ? 1.f : 0.f;
        float f = 1.f / (1.f + expf(-dot));
        float g = (label - f) * lr;
        l -= logf(label > 0 ? f + 1e-7f : 1.f - f + 1e-7f);
        dv += g * u;
        atomicAdd(&syn1[w * DIM + d], g * v);
    }
    atomicAdd(&syn0[c * DIM + d], dv);
    if (d == 0) loss[p] = l;
}

int main(int argc, char **argv)
{
    char path[512];
    strcpy(path, argc > 1 ? argv[1] : "model.bin");
    int topic = 0;
    for (int i = 0; i < WORDS; i++) {
        if (rnd() % 20 == 0) topic = rnd() % TOPICS;
        corpus[i] = rnd() % 10 < 9 ? topic * (VOCAB / TOPICS) + rnd() % (VOCAB / TOPICS) : rnd() % VOCAB;
    }
    /* unigram table */
    for (int i = 0; i < 4096; i++) table[i] = corpus[rnd() % WORDS];

    float *h0 = (float *)malloc(VOCAB * DIM * sizeof(float)), *h1 = (float *)calloc(VOCAB * DIM, sizeof(float));
    for (int i = 0; i < VOCAB * DIM; i++) h0[i] = ((rnd() & 0xFFFF) / 65536.0f - 0.5f) / 4;
    float *syn0, *syn1, *loss;
    int *dc, *dt, *dn;
    OK(cudaMalloc(&syn0, VOCAB * DIM * sizeof(float)));
    OK(cudaMalloc(&syn1, VOCAB * DIM * sizeof(float)));
    OK(cudaMalloc(&loss, PAIRS * sizeof(float)));
    OK(cudaMalloc(&dc, PAIRS * sizeof(int)));
    OK(cudaMalloc(&dt, PAIRS * sizeof(int)));
    OK(cudaMalloc(&dn, PAIRS * NEG * sizeof(int)));
    OK(cudaMemcpy(syn0, h0, VOCAB * DIM * sizeof(float), cudaMemcpyHostToDevice));
    OK(cudaMemcpy(syn1, h1, VOCAB * DIM * sizeof(float), cudaMemcpyHostToDevice));
#ifdef ORACLE
    oracle::state(syn0, VOCAB * DIM); oracle::state(syn1, VOCAB * DIM);
    oracle::fused();      /* no gradients to average: both ways are `state` */
#endif
    int c[PAIRS], t[PAIRS], n[PAIRS * NEG], have = 0, batch = 0;
    float hl[PAIRS], lr = 0.06f;
    double acc = 0; int accn = 0;
    for (int iter = 0; iter < 1; iter++)
        for (int pos = WINDOW; pos < WORDS - WINDOW; pos++) {
            for (int o = -WINDOW; o <= WINDOW; o++) {
                if (o == 0) continue;
                c[have] = corpus[pos];
                t[have] = corpus[pos + o];
                for (int k = 0; k < NEG; k++) n[have * NEG + k] = table[rnd() % 4096];
                have++;
                if (have < PAIRS) continue;
                have = 0;
                OK(cudaMemcpy(dc, c, sizeof c, cudaMemcpyHostToDevice));
                OK(cudaMemcpy(dt, t, sizeof t, cudaMemcpyHostToDevice));
                OK(cudaMemcpy(dn, n, sizeof n, cudaMemcpyHostToDevice));
#ifdef ORACLE
                oracle::begin();
#endif
                skipgram<<<PAIRS, DIM>>>(syn0, syn1, dc, dt, dn, lr, loss);
                OK(cudaGetLastError());
#ifdef ORACLE
                oracle::end();
#endif
                OK(cudaMemcpy(hl, loss, sizeof hl, cudaMemcpyDeviceToHost));
                for (int i = 0; i < PAIRS; i++) acc += hl[i];
                accn += PAIRS;
                if (++batch % 20 == 0) { printf("batch %d  loss/pair %.4f\n", batch, acc / accn); acc = 0; accn = 0; }
            }
        }
#ifdef ORACLE
    oracle::boundary();
#endif
    OK(cudaMemcpy(h0, syn0, VOCAB * DIM * sizeof(float), cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(h1, syn1, VOCAB * DIM * sizeof(float), cudaMemcpyDeviceToHost));
    FILE *fo = fopen(path, "wb");
    if (fo == NULL) { printf("cannot open %s\n", path); return 1; }
    fwrite(h0, sizeof(float), VOCAB * DIM, fo);
    fwrite(h1, sizeof(float), VOCAB * DIM, fo);
    fclose(fo);
    free(h0); free(h1);
    return 0;
}
