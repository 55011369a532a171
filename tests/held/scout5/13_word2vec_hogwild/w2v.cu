/* Skip-gram with negative sampling. The kernel updates both tables in place. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VOCAB 200
#define DIM 24
#define NEG 4
#define WINDOW 2
#define CORPUS 6000
#define PAIRS_PER_BATCH 256
#define TOPICS 10

typedef struct { int center, context, neg[NEG]; } Sample;

static int corpus[CORPUS];
static int unigram[1 << 14];

static unsigned long long next_random = 1;
static unsigned rnd(void)
{
    next_random = next_random * 25214903917ULL + 11;
    return (unsigned)(next_random >> 16);
}

/* A text of sentences that each have a topic; the words of a topic go together. */
static void make_corpus(void)
{
    int topic = 0, counts[VOCAB] = {0};
    for (int i = 0; i < CORPUS; i++) {
        if (i % 12 == 0) topic = rnd() % TOPICS;
        int r = rnd() % 100, per = VOCAB / TOPICS, in = rnd() % per;
        if (in > per / 2) in = rnd() % per; /* some words are frequent */
        corpus[i] = r < 85 ? topic * per + in : (int)(rnd() % VOCAB);
        counts[corpus[i]]++;
    }
    double total = 0, cum = 0;
    for (int v = 0; v < VOCAB; v++) total += pow(counts[v], 0.75);
    int v = 0;
    cum = pow(counts[0], 0.75) / total;
    for (int i = 0; i < (1 << 14); i++) {
        unigram[i] = v;
        if ((i + 1.0) / (1 << 14) > cum && v < VOCAB - 1) cum += pow(counts[++v], 0.75) / total;
    }
}

__global__ void train_pairs(float *syn0, float *syn1, const Sample *samples, float alpha, float *loss)
{
    __shared__ float prod[32];
    Sample s = samples[blockIdx.x];
    int d = threadIdx.x; /* 32 threads, DIM of them work */
    float v = d < DIM ? syn0[s.center * DIM + d] : 0.f, acc = 0.f;
    for (int t = 0; t <= NEG; t++) {
        int target = t == 0 ? s.context : s.neg[t - 1];
        float label = t == 0 ? 1.f : 0.f;
        if (t > 0 && target == s.context) continue;
        float u = d < DIM ? syn1[target * DIM + d] : 0.f;
        prod[d] = u * v;
        __syncthreads();
        float f = 0.f;
        for (int k = 0; k < DIM; k++) f += prod[k];
        __syncthreads();
        float p = 1.f / (1.f + expf(-f));
        float g = (label - p) * alpha;
        acc += g * u;
        if (d < DIM) atomicAdd(&syn1[target * DIM + d], g * v);
        if (d == 0) atomicAdd(loss, -logf(fmaxf(label > 0.f ? p : 1.f - p, 1e-7f)));
    }
    if (d < DIM) atomicAdd(&syn0[s.center * DIM + d], acc);
}

int main(int argc, char **argv)
{
    int epochs = 1, batch_pairs = PAIRS_PER_BATCH;
    float start_alpha = 0.15f;
    for (int a = 1; a + 1 < argc; a += 2) {
        if (!strcmp(argv[a], "-iter")) epochs = atoi(argv[a + 1]);
        if (!strcmp(argv[a], "-alpha")) start_alpha = (float)atof(argv[a + 1]);
    }
    make_corpus();

    float *syn0, *syn1, *d_loss, *init = (float *)malloc(VOCAB * DIM * sizeof(float));
    Sample *d_samples, *samples = (Sample *)malloc(batch_pairs * sizeof(Sample));
    for (int i = 0; i < VOCAB * DIM; i++) init[i] = ((rnd() & 0xFFFF) / 65536.f - 0.5f) * 0.5f;
    cudaMalloc((void **)&syn0, VOCAB * DIM * sizeof(float));
    cudaMalloc((void **)&syn1, VOCAB * DIM * sizeof(float));
    cudaMalloc((void **)&d_loss, sizeof(float));
    cudaMalloc((void **)&d_samples, batch_pairs * sizeof(Sample));
    cudaMemcpy(syn0, init, VOCAB * DIM * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(syn1, 0, VOCAB * DIM * sizeof(float));
    cudaMemset(d_loss, 0, sizeof(float));

    int filled = 0, batches = 0, since = 0;
    long done = 0, all = (long)epochs * CORPUS;
    for (int e = 0; e < epochs; e++)
        for (int pos = 0; pos < CORPUS; pos++, done++) {
            int b = 1 + rnd() % WINDOW; /* the window shrinks at random, as in the original */
            for (int o = -b; o <= b; o++) {
                if (o == 0 || pos + o < 0 || pos + o >= CORPUS) continue;
                samples[filled].center = corpus[pos];
                samples[filled].context = corpus[pos + o];
                for (int n = 0; n < NEG; n++) samples[filled].neg[n] = unigram[rnd() & ((1 << 14) - 1)];
                if (++filled < batch_pairs) continue;
                float alpha = start_alpha * (1.f - 0.9f * done / all);
                cudaMemcpy(d_samples, samples, filled * sizeof(Sample), cudaMemcpyHostToDevice);
                train_pairs<<<filled, 32>>>(syn0, syn1, d_samples, alpha, d_loss);
                filled = 0;
                batches++;
                since++;
                if (batches % 10 == 0) {
                    float l;
                    cudaMemcpy(&l, d_loss, sizeof(float), cudaMemcpyDeviceToHost);
                    cudaMemset(d_loss, 0, sizeof(float));
                    printf("batch %d alpha %.4f loss %.4f\n", batches, alpha, l / (since * batch_pairs));
                    since = 0;
                }
            }
        }
    /* what is left in the buffer is dropped */
    cudaFree(syn0);
    cudaFree(syn1);
    cudaFree(d_samples);
    cudaFree(d_loss);
    free(init);
    free(samples);
    return 0;
}
