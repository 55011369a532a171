/* wordvec.cu - skip-gram with negative sampling, after word2vec.c: static arrays, no objects.
   The tables and their gradients are __device__ arrays; a warp takes one (centre, context) pair with
   its negative samples.  Row-wise Adagrad (one sum of squares for each word vector).            */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VOCAB 90
#define DIM 32                  /* one lane for each component */
#define NEG 4
#define PAIRS 96                /* pairs of a batch */
#define TOPICS 6
#define CORPUS 4000
#define WINDOW 3
#define TABLE 4096

__device__ float syn0[VOCAB][DIM], syn1[VOCAB][DIM];        /* words as centres, as contexts */
__device__ float grad0[VOCAB][DIM], grad1[VOCAB][DIM];
__device__ float sq0[VOCAB], sq1[VOCAB];
__device__ int d_centre[PAIRS], d_context[PAIRS][NEG + 1];
__device__ float d_loss;
__constant__ struct { float rate, eps, per_pair; } hyper;

static int corpus[CORPUS], table[TABLE], centre[PAIRS], context[PAIRS][NEG + 1];
static unsigned long long next_random = 1;

static void die_if(cudaError_t e, int line) {
    if (e != cudaSuccess) { fprintf(stderr, "wordvec.cu:%d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define DO(x) die_if(x, __LINE__)

static unsigned draw(void) {
    next_random = next_random * 25214903917ULL + 11;
    return (unsigned)(next_random >> 16) & 0x7fffffff;
}

__global__ void clear_gradients(void) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < VOCAB * DIM) { (&grad0[0][0])[i] = 0; (&grad1[0][0])[i] = 0; }
    if (i == 0) d_loss = 0;
}

__global__ void pairs(void) {
    int pair = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (pair >= PAIRS) return;
    int c = d_centre[pair];
    float x = syn0[c][lane], dx = 0, loss = 0;
    for (int k = 0; k <= NEG; k++) {
        int o = d_context[pair][k];
        float y = syn1[o][lane], f = x * y;
        for (int s = 16; s > 0; s /= 2) f += __shfl_xor_sync(0xffffffffu, f, s);
        float sg = 1 / (1 + expf(-f)), g = (sg - (k == 0)) * hyper.per_pair;
        loss -= logf((k == 0 ? sg : 1 - sg) + 1e-9f);
        dx += g * y;
        atomicAdd(&grad1[o][lane], g * x);
    }
    atomicAdd(&grad0[c][lane], dx);
    if (lane == 0) atomicAdd(&d_loss, loss * hyper.per_pair);
}

/* one warp for each row of the two tables */
__global__ void adagrad(void) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= 2 * VOCAB) return;
    int second = row >= VOCAB, r = second ? row - VOCAB : row;
    float *w = second ? syn1[r] : syn0[r], *g = second ? grad1[r] : grad0[r], *sq = second ? sq1 + r : sq0 + r;
    float s = g[lane] * g[lane];
    for (int o = 16; o > 0; o /= 2) s += __shfl_xor_sync(0xffffffffu, s, o);
    if (s == 0) return;                          /* a word that nobody met */
    float total = *sq + s / DIM;
    w[lane] -= hyper.rate * g[lane] / (sqrtf(total) + hyper.eps);
    if (lane == 0) *sq = total;
}

/* the text: topics follow one another, each with words of its own and some common ones */
static void make_corpus(void) {
    int topic = 0;
    for (int i = 0; i < CORPUS; i++) {
        if (draw() % 25 == 0) topic = draw() % TOPICS;
        int a = draw() % 14, b = draw() % 14;
        corpus[i] = draw() % 5 == 0 ? (int)(draw() % 6) : 6 + topic * 14 + (a < b ? a : b);
    }
}
static void make_table(void) {
    double count[VOCAB] = {0}, z = 0, sum = 0;
    for (int i = 0; i < CORPUS; i++) count[corpus[i]]++;
    for (int w = 0; w < VOCAB; w++) z += pow(count[w], 0.75);
    int w = 0;
    sum = pow(count[0], 0.75) / z;
    for (int a = 0; a < TABLE; a++) {
        table[a] = w;
        if ((a + 1) / (double)TABLE > sum && w < VOCAB - 1) sum += pow(count[++w], 0.75) / z;
    }
}

/* ---- what one process has to do in the place of R: host sums of both gradient tables ---- */
static int oracle_R = 0, oracle_have = 0;
static float osum[2][VOCAB][DIM];
static int oracle_not_yet(void) {
    static float g[2][VOCAB][DIM];
    float *s = &osum[0][0][0], *x = &g[0][0][0];
    DO(cudaMemcpyFromSymbol(g[0], grad0, sizeof g[0]));
    DO(cudaMemcpyFromSymbol(g[1], grad1, sizeof g[1]));
    for (int i = 0; i < 2 * VOCAB * DIM; i++) s[i] += x[i];
    if (++oracle_have < oracle_R) return 1;
    for (int i = 0; i < 2 * VOCAB * DIM; i++) s[i] /= oracle_R;
    DO(cudaMemcpyToSymbol(grad0, osum[0], sizeof osum[0]));
    DO(cudaMemcpyToSymbol(grad1, osum[1], sizeof osum[1]));
    memset(osum, 0, sizeof osum);
    oracle_have = 0;
    return 0;
}

int main(int argc, char **argv) {
    char *save = NULL;
    int max_batches = 1 << 30;
    for (int a = 1; a < argc - 1; a++) {
        if (strcmp(argv[a], "--save") == 0) save = argv[a + 1];
        if (strcmp(argv[a], "--oracle") == 0) oracle_R = atoi(argv[a + 1]);
        if (strcmp(argv[a], "--batches") == 0) max_batches = atoi(argv[a + 1]);
    }
    make_corpus();
    make_table();

    static float w0[VOCAB][DIM], w1[VOCAB][DIM];
    for (int w = 0; w < VOCAB; w++)
        for (int d = 0; d < DIM; d++) {
            w0[w][d] = (draw() % 20001 / 10000.0f - 1) * 0.5f;
            w1[w][d] = (draw() % 20001 / 10000.0f - 1) * 0.1f;
        }
    DO(cudaMemcpyToSymbol(syn0, w0, sizeof w0));
    DO(cudaMemcpyToSymbol(syn1, w1, sizeof w1));
    struct { float rate, eps, per_pair; } h = {0.08f, 1e-6f, 1.0f / PAIRS};
    DO(cudaMemcpyToSymbol(hyper, &h, sizeof h));

    int filled = 0, batch = 0;
    double shown = 0;
    for (int i = 0; i < CORPUS && batch < max_batches; i++) {
        int reach = 1 + draw() % WINDOW;
        for (int j = i - reach; j <= i + reach; j++) {
            if (j < 0 || j >= CORPUS || j == i) continue;
            centre[filled] = corpus[i];
            context[filled][0] = corpus[j];
            for (int k = 1; k <= NEG; k++) {
                do context[filled][k] = table[draw() % TABLE]; while (context[filled][k] == corpus[j]);
            }
            if (++filled < PAIRS) continue;
            /* a full batch */
            filled = 0;
            DO(cudaMemcpyToSymbol(d_centre, centre, sizeof centre));
            DO(cudaMemcpyToSymbol(d_context, context, sizeof context));
            clear_gradients<<<(VOCAB * DIM + 127) / 128, 128>>>();
            pairs<<<PAIRS / 4, 128>>>();
            float l;
            DO(cudaMemcpyFromSymbol(&l, d_loss, sizeof l));
            shown += l;
            if (++batch % 10 == 0) {
                printf("batch %4d  text %5.1f%%  loss %.4f\n", batch, 100.0 * i / CORPUS, shown / 10);
                shown = 0;
            }
            if (oracle_R && oracle_not_yet()) continue;
            adagrad<<<(2 * VOCAB + 3) / 4, 128>>>();
            DO(cudaGetLastError());
        }
    }
    DO(cudaMemcpyFromSymbol(w0, syn0, sizeof w0));
    DO(cudaMemcpyFromSymbol(w1, syn1, sizeof w1));
    if (save) {
        FILE *fo = fopen(save, "wb");
        for (int w = 0; w < VOCAB; w++) for (int d = 0; d < DIM; d++) fprintf(fo, "%.9g\n", w0[w][d]);
        for (int w = 0; w < VOCAB; w++) for (int d = 0; d < DIM; d++) fprintf(fo, "%.9g\n", w1[w][d]);
        fclose(fo);
    }
    return 0;
}
