/* Skip-gram with negative sampling in the manner of word2vec.c: the vectors are
 * updated in place while the pairs of a chunk are processed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cuda_runtime.h>

#define MAX_EXP 6
#define EXP_TABLE_SIZE 1000

typedef float real;

struct pair {
    int center;
    int context;
    int negative[5];
};

static int vocab_size = 300, layer1_size = 24, window = 2, negative = 5, chunk = 256;
static int corpus_words = 7000, epochs = 1;
static real alpha = 0.08f, starting_alpha;
static real *syn0, *syn1neg, *d_syn0, *d_syn1neg, *d_loss;
static struct pair *pairs, *d_pairs;
static unsigned long long next_random = 1;

static unsigned rnd(void)
{
    next_random = next_random * 25214903917ULL + 11;
    return (unsigned)(next_random >> 16);
}

__global__ void sgns(const struct pair *p, int n, real *syn0, real *syn1neg, int size, int negative, real alpha, real *loss)
{
    int t = blockIdx.x;            /* one block for each pair, one thread for each dimension */
    int c = threadIdx.x;
    __shared__ real dot;
    real neu1e = 0;
    if (t >= n) return;
    int l1 = p[t].center * size;
    for (int d = 0; d < negative + 1; d++) {
        int target = d == 0 ? p[t].context : p[t].negative[d - 1];
        real label = d == 0 ? 1 : 0;
        if (d > 0 && target == p[t].context) continue;
        int l2 = target * size;
        if (c == 0) {
            real f = 0;
            for (int k = 0; k < size; k++) f += syn0[l1 + k] * syn1neg[l2 + k];
            dot = f;
        }
        __syncthreads();
        real f = dot;
        real s = f > MAX_EXP ? 1 : f < -MAX_EXP ? 0 : 1 / (1 + expf(-f));
        real g = (label - s) * alpha;
        if (c == 0) atomicAdd(loss, -logf(fmaxf(label > 0 ? s : 1 - s, 1e-6f)));
        neu1e += g * syn1neg[l2 + c];
        __syncthreads();
        atomicAdd(&syn1neg[l2 + c], g * syn0[l1 + c]);
    }
    atomicAdd(&syn0[l1 + c], neu1e);
}

static void init_net(void)
{
    size_t n = (size_t)vocab_size * layer1_size;
    syn0 = (real *)malloc(n * sizeof(real));
    syn1neg = (real *)calloc(n, sizeof(real));
    for (size_t i = 0; i < n; i++) syn0[i] = ((rnd() & 0xFFFF) / (real)65536 - 0.5f);
    cudaMalloc((void **)&d_syn0, n * sizeof(real));
    cudaMalloc((void **)&d_syn1neg, n * sizeof(real));
    cudaMemcpy(d_syn0, syn0, n * sizeof(real), cudaMemcpyHostToDevice);
    cudaMemcpy(d_syn1neg, syn1neg, n * sizeof(real), cudaMemcpyHostToDevice);
    cudaMalloc((void **)&d_pairs, chunk * sizeof(struct pair));
    cudaMalloc((void **)&d_loss, sizeof(real));
    cudaMallocHost((void **)&pairs, chunk * sizeof(struct pair));
}

/* words of one topic follow each other */
static int *make_corpus(int n)
{
    int *w = (int *)malloc(n * sizeof(int));
    int topic = 0;
    for (int i = 0; i < n; i++) {
        if (rnd() % 20 == 0) topic = rnd() % 10;
        w[i] = topic * (vocab_size / 10) + rnd() % (vocab_size / 10);
    }
    return w;
}

static void flush(int n, real *total)
{
    real l;
    cudaMemcpy(d_pairs, pairs, n * sizeof(struct pair), cudaMemcpyHostToDevice);
    cudaMemset(d_loss, 0, sizeof(real));
    sgns<<<n, layer1_size>>>(d_pairs, n, d_syn0, d_syn1neg, layer1_size, negative, alpha, d_loss);
    cudaMemcpy(&l, d_loss, sizeof(real), cudaMemcpyDeviceToHost);
    *total = l / n;
}

static void train_model(void)
{
    int *corpus = make_corpus(corpus_words);
    int filled = 0, step = 0;
    long done = 0, all = (long)epochs * corpus_words;
    real loss = 0;
    starting_alpha = alpha;
    init_net();
    for (int e = 0; e < epochs; e++)
        for (int i = 0; i < corpus_words; i++, done++) {
            for (int a = -window; a <= window; a++) {
                if (a == 0 || i + a < 0 || i + a >= corpus_words) continue;
                struct pair *p = &pairs[filled++];
                p->center = corpus[i];
                p->context = corpus[i + a];
                for (int d = 0; d < negative; d++) p->negative[d] = rnd() % vocab_size;
                if (filled == chunk) {
                    alpha = starting_alpha * (1 - done / (real)(all + 1));
                    if (alpha < starting_alpha * 0.0001f) alpha = starting_alpha * 0.0001f;
                    flush(filled, &loss);
                    filled = 0;
                    if (step++ % 20 == 0)
                        printf("Alpha: %f  Progress: %.2f%%  Loss: %f\n", alpha, 100.0 * done / all, loss);
                }
            }
        }
    if (filled) flush(filled, &loss);
    printf("final loss %f after %d chunks\n", loss, step);
    cudaMemcpy(syn0, d_syn0, (size_t)vocab_size * layer1_size * sizeof(real), cudaMemcpyDeviceToHost);
    free(corpus);
}

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "-size")) layer1_size = atoi(argv[i + 1]);
        if (!strcmp(argv[i], "-alpha")) alpha = atof(argv[i + 1]);
        if (!strcmp(argv[i], "-window")) window = atoi(argv[i + 1]);
        if (!strcmp(argv[i], "-iter")) epochs = atoi(argv[i + 1]);
    }
    train_model();
    return 0;
}
