// Skip-gram word vectors with negative sampling, after word2vec.c: the vectors are changed in place,
// pair after pair, inside one kernel (one block, one thread a dimension). No gradient is kept.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cuda_runtime.h>
#ifdef ORACLE
#include "oracle.h"
#endif

#define VOCAB 240
#define DIM 32
#define TOPICS 20
#define TABLE_SIZE 4096
#define SENT_LEN 12
#define CHUNK 4               // sentences a launch
#define WINDOW 3
#define NEGATIVE 4
#define CHUNKS 200

typedef float real;

static real *syn0, *syn1neg;             // device
static real *h_syn0, *h_syn1;            // host copies
static int *d_table, *d_text;
static real *d_loss;
static int counts[VOCAB];
static int corpus[CHUNKS * CHUNK * SENT_LEN];
real starting_alpha = 0.08f;
unsigned long long next_random = 1;

void gpuCheck(const char *where)
{
    cudaError_t err = cudaGetLastError();
    if (err != cudaSuccess) {
        printf("CUDA error at %s: %s\n", where, cudaGetErrorString(err));
        exit(1);
    }
}

unsigned int lcg16(void)
{
    next_random = next_random * 25214903917ULL + 11;
    return (next_random >> 16) & 0xFFFF;
}

__device__ real warpSum(real v)
{
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffff, v, o);
    return v;
}

__global__ void trainChunk(real *syn0, real *syn1neg, const int *text, const int *table, unsigned long long seed, real alpha, real *loss)
{
    const int t = threadIdx.x;           // dimension
    unsigned long long rnd = seed;
    real total = 0;
    int pairs = 0;
    for (int s = 0; s < CHUNK; s++) {
        const int *sen = text + s * SENT_LEN;
        for (int pos = 0; pos < SENT_LEN; pos++) {
            int word = sen[pos];
            rnd = rnd * 25214903917ULL + 11;
            int b = (int)((rnd >> 16) % WINDOW);
            for (int a = b; a < WINDOW * 2 + 1 - b; a++) {
                if (a == WINDOW) continue;
                int c = pos - WINDOW + a;
                if (c < 0 || c >= SENT_LEN) continue;
                int l1 = sen[c] * DIM + t;
                real neu1e = 0, v = syn0[l1];
                for (int d = 0; d < NEGATIVE + 1; d++) {
                    int target, label;
                    if (d == 0) { target = word; label = 1; }
                    else {
                        rnd = rnd * 25214903917ULL + 11;
                        target = table[(rnd >> 16) % TABLE_SIZE];
                        if (target == word) continue;
                        label = 0;
                    }
                    int l2 = target * DIM + t;
                    real w = syn1neg[l2];
                    real f = warpSum(v * w);
                    real p = 1.0f / (1.0f + expf(-f));
                    total -= logf((label ? p : 1.0f - p) + 1e-7f);
                    real g = (label - p) * alpha;
                    neu1e += g * w;
                    syn1neg[l2] = w + g * v;
                }
                syn0[l1] = v + neu1e;
                pairs++;
            }
        }
    }
    if (t == 0) *loss = total / pairs;
}

// topics of VOCAB / TOPICS words each; a sentence stays in one topic except for a few words
void makeCorpus(void)
{
    const int per = VOCAB / TOPICS;
    for (int s = 0; s < CHUNKS * CHUNK; s++) {
        int topic = lcg16() % TOPICS;
        for (int i = 0; i < SENT_LEN; i++) {
            int u = lcg16() % per, v = lcg16() % per;
            int w = topic * per + (u < v ? u : v);             // some words are more frequent
            if (lcg16() % 10 == 0) w = lcg16() % VOCAB;
            corpus[s * SENT_LEN + i] = w;
            counts[w]++;
        }
    }
}

void initUnigramTable(void)
{
    static int table[TABLE_SIZE];
    double total = 0, d1;
    int w = 0;
    for (int a = 0; a < VOCAB; a++) total += pow(counts[a], 0.75);
    d1 = pow(counts[0], 0.75) / total;
    for (int a = 0; a < TABLE_SIZE; a++) {
        table[a] = w;
        if (a / (double)TABLE_SIZE > d1) {
            w++;
            d1 += pow(counts[w < VOCAB ? w : VOCAB - 1], 0.75) / total;
        }
        if (w >= VOCAB) w = VOCAB - 1;
    }
    cudaMalloc((void **)&d_table, sizeof table);
    cudaMemcpy(d_table, table, sizeof table, cudaMemcpyHostToDevice);
}

void initNet(void)
{
    const size_t bytes = VOCAB * DIM * sizeof(real);
    h_syn0 = (real *)malloc(bytes);
    h_syn1 = (real *)malloc(bytes);
    for (int a = 0; a < VOCAB * DIM; a++) h_syn0[a] = (lcg16() / (real)65536 - 0.5f) * 4 / DIM;
    cudaMalloc((void **)&syn0, bytes);
    cudaMalloc((void **)&syn1neg, bytes);
    cudaMemcpy(syn0, h_syn0, bytes, cudaMemcpyHostToDevice);
    cudaMemset(syn1neg, 0, bytes);
    cudaMalloc((void **)&d_text, CHUNK * SENT_LEN * sizeof(int));
    cudaMalloc((void **)&d_loss, sizeof(real));
    gpuCheck("initNet");
#ifdef ORACLE
    oracle::state(syn0, VOCAB * DIM);
    oracle::state(syn1neg, VOCAB * DIM);
    oracle::fused();
#endif
}

// share of words whose nearest neighbour (cosine) is of their own topic
double neighbourScore(void)
{
    const int per = VOCAB / TOPICS;
    int good = 0;
    static double norm[VOCAB];
    for (int a = 0; a < VOCAB; a++) {
        norm[a] = 1e-12;
        for (int k = 0; k < DIM; k++) norm[a] += (double)h_syn0[a * DIM + k] * h_syn0[a * DIM + k];
        norm[a] = sqrt(norm[a]);
    }
    for (int a = 0; a < VOCAB; a++) {
        int best = -1;
        double bd = -2;
        for (int b = 0; b < VOCAB; b++) {
            if (a == b) continue;
            double dot = 0;
            for (int k = 0; k < DIM; k++) dot += (double)h_syn0[a * DIM + k] * h_syn0[b * DIM + k];
            dot /= norm[a] * norm[b];
            if (dot > bd) { bd = dot; best = b; }
        }
        good += best / per == a / per;
    }
    return good / (double)VOCAB;
}

int main(int argc, char **argv)
{
    const char *output_file = argc > 1 ? argv[1] : "model.bin";
    const size_t bytes = VOCAB * DIM * sizeof(real);
    makeCorpus();
    initUnigramTable();
    initNet();
    printf("Vocab %d, dim %d, %d words in the corpus\n", VOCAB, DIM, CHUNKS * CHUNK * SENT_LEN);

    real l, sum = 0;
    for (int c = 0; c < CHUNKS; c++) {
#ifdef ORACLE
        oracle::begin();
#endif
        real alpha = starting_alpha * (1 - c / (real)(CHUNKS + 1));
        if (alpha < starting_alpha * 0.0001f) alpha = starting_alpha * 0.0001f;
        cudaMemcpy(d_text, corpus + c * CHUNK * SENT_LEN, CHUNK * SENT_LEN * sizeof(int), cudaMemcpyHostToDevice);
        trainChunk<<<1, DIM>>>(syn0, syn1neg, d_text, d_table, (unsigned long long)c + 1, alpha, d_loss);
#ifdef ORACLE
        oracle::end();
#endif
        cudaMemcpy(&l, d_loss, sizeof l, cudaMemcpyDeviceToHost);
        gpuCheck("trainChunk");
        sum += l;
        if (c % 20 == 19) {
            printf("Alpha: %f  Progress: %.1f%%  Loss: %.4f\n", alpha, 100.0 * (c + 1) / CHUNKS, sum / 20);
            sum = 0;
        }
    }
#ifdef ORACLE
    oracle::boundary();
#endif
    cudaMemcpy(h_syn0, syn0, bytes, cudaMemcpyDeviceToHost);
    cudaMemcpy(h_syn1, syn1neg, bytes, cudaMemcpyDeviceToHost);
    printf("Nearest neighbour in the same topic: %.3f\n", neighbourScore());
    FILE *fo = fopen(output_file, "wb");
    fwrite(h_syn0, sizeof(real), VOCAB * DIM, fo);
    fwrite(h_syn1, sizeof(real), VOCAB * DIM, fo);
    fclose(fo);
    cudaFree(syn0); cudaFree(syn1neg); cudaFree(d_table); cudaFree(d_text); cudaFree(d_loss);
    free(h_syn0); free(h_syn1);
    return 0;
}
