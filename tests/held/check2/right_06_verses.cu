// Bigrams of verses of very different lengths. Whole verses are dealt out so that the ranks have about the same number of
// letters, hence different numbers of verses and letters. The optimizer (Adam with a clipped norm) works on the host.
//
// Why it is equal: a rank's gradient is the mean over its letters, and DDP_WEIGHT(letters here, letters of the batch)
// weighs it by them; DDP_STEP gives the mean over all letters of the batch, before clipping and Adam use it. Every verse
// goes to exactly one rank.
#include <cuda_runtime.h>
#include <ddprun.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LETTERS 12
#define SIZE    (LETTERS * LETTERS)
#define VERSES  10  /* in a batch */
#define LONGEST 40
#define BATCHES 4

struct verse {
    int length; /* number of pairs of letters */
    unsigned char letter[LONGEST + 1];
};

struct host_adam {
    float *w, *g; /* pinned: the device reads and writes them by copies */
    float m[SIZE], v[SIZE];
    int t;
};

/* A block for each letter that comes first, a thread for each that may follow. */
__global__ void bigram(const unsigned char *pair, int pairs, const float *w, float *g, float *nats)
{
    __shared__ float e[LETTERS];
    int a = blockIdx.x, b = threadIdx.x, here = 0, both = 0;
    e[b] = expf(w[a * LETTERS + b]);
    __syncthreads();
    float sum = 0.0f, p;
    for (int k = 0; k < LETTERS; ++k)
        sum += e[k];
    p = e[b] / sum;
    for (int i = 0; i < pairs; ++i)
        if (pair[2 * i] == a) {
            here++;
            both += pair[2 * i + 1] == b;
        }
    g[a * LETTERS + b] = (here * p - both) / pairs;
    nats[a * LETTERS + b] = -logf(p) * both;
}

static void adam_step(struct host_adam *o)
{
    double norm = 0;
    for (int i = 0; i < SIZE; ++i)
        norm += (double)o->g[i] * o->g[i];
    float scale = (float)(sqrt(norm) > 0.1 ? 0.1 / sqrt(norm) : 1.0);
    o->t++;
    for (int i = 0; i < SIZE; ++i) {
        float g = scale * o->g[i];
        o->m[i] = 0.9f * o->m[i] + 0.1f * g;
        o->v[i] = 0.97f * o->v[i] + 0.03f * g * g;
        o->w[i] -= 0.15f * o->m[i] / (1.0f - powf(0.9f, (float)o->t)) /
                   (sqrtf(o->v[i] / (1.0f - powf(0.97f, (float)o->t))) + 1e-3f);
    }
}

/* The verses of this rank: those whose middle lies in its share of the batch's letters. Returns the batch's letters. */
static int deal(const struct verse *batch, unsigned char *pair, int *mine)
{
    int total = 0, before = 0;
    *mine = 0;
    for (int i = 0; i < VERSES; ++i)
        total += batch[i].length;
    for (int i = 0; i < VERSES; before += batch[i++].length) {
        int owner = (2 * before + batch[i].length) * DDP_WORLD_SIZE() / (2 * total);
        for (int k = 0; owner == DDP_RANK() && k < batch[i].length; ++k, ++*mine) {
            pair[2 * *mine] = batch[i].letter[k];
            pair[2 * *mine + 1] = batch[i].letter[k + 1];
        }
    }
    return total;
}

#define GOOD(call)                                                              \
    if ((call) != cudaSuccess) {                                                \
        fprintf(stderr, "verses.cu:%d: %s\n", __LINE__, #call);                 \
        return 1;                                                               \
    }

int main(void)
{
    static struct verse poem[VERSES * BATCHES];
    static struct host_adam o;
    static float nats[SIZE];
    static unsigned char pair[2 * VERSES * LONGEST];
    unsigned r = 8;
    for (int i = 0; i < VERSES * BATCHES; ++i) {
        poem[i].length = i % 3 == 0 ? LONGEST - i % 4 : 3 + i % 7;
        for (int k = 0; k <= poem[i].length; ++k) {
            r = r * 1103515245u + 12345u;
            unsigned dice = r >> 16 & 0xff;
            poem[i].letter[k] = (unsigned char)(k > 0 && dice < 170 ? (poem[i].letter[k - 1] * 5 + 2) % LETTERS : dice % LETTERS);
        }
    }
    unsigned char *d_pair;
    float *w, *g, *d_nats;
    GOOD(cudaMalloc((void **)&d_pair, sizeof pair));
    GOOD(cudaMalloc((void **)&w, SIZE * sizeof(float)));
    GOOD(cudaMalloc((void **)&g, SIZE * sizeof(float)));
    GOOD(cudaMalloc((void **)&d_nats, sizeof nats));
    GOOD(cudaMallocHost((void **)&o.w, SIZE * sizeof(float)));
    GOOD(cudaMallocHost((void **)&o.g, SIZE * sizeof(float)));
    memset(o.w, 0, SIZE * sizeof(float));
    memset(o.g, 0, SIZE * sizeof(float));
    DDP_PARAMETER(o.w, SIZE, DDP_FLOAT32);
    DDP_GRADIENT(o.g, SIZE, DDP_FLOAT32);

    for (int step = 0; step < 18; ++step) {
        int mine, total = deal(poem + step % BATCHES * VERSES, pair, &mine);
        DDP_WEIGHT(mine, total);
        GOOD(cudaMemcpy(w, o.w, SIZE * sizeof(float), cudaMemcpyHostToDevice));
        GOOD(cudaMemcpy(d_pair, pair, 2 * (size_t)mine, cudaMemcpyHostToDevice));
        bigram<<<LETTERS, LETTERS>>>(d_pair, mine, w, g, d_nats);
        GOOD(cudaMemcpy(o.g, g, SIZE * sizeof(float), cudaMemcpyDeviceToHost));
        GOOD(cudaMemcpy(nats, d_nats, sizeof nats, cudaMemcpyDeviceToHost));
        DDP_STEP(0);
        adam_step(&o);

        double sum = 0;
        for (int i = 0; i < SIZE; ++i)
            sum += nats[i];
        DDP_REDUCE(&sum, 1, DDP_FLOAT64, DDP_OP_SUM, 0);
        if (DDP_RANK() == 0)
            printf("step %2d: %.4f nats a letter\n", step, sum / total);
    }
    GOOD(cudaDeviceSynchronize());
    return 0;
}
