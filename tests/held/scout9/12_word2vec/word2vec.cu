// Skip-gram with negative sampling on a synthetic corpus.
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const int VOCAB = 240;
const int DIM = 24;
const int WINDOW = 2;
const int NEGATIVES = 5;
const int PAIRS_PER_BATCH = 256;
const int CORPUS = 12000;
const int TOPICS = 8;
const int MAX_STEPS = 180;

typedef struct {
    int center;
    int context;
} Pair;

typedef struct {
    float *in, *out;       // VOCAB x DIM
    float *d_in, *d_out;
    int *touched_in, *touched_out;
} Embeddings;

__device__ unsigned int hash(unsigned int a)
{
    a = (a ^ 61) ^ (a >> 16);
    a *= 9;
    a ^= a >> 4;
    a *= 0x27d4eb2d;
    a ^= a >> 15;
    return a;
}

// one block for a pair, one thread for a dimension
__global__ void sgns(Embeddings e, const Pair *pairs, const int *negatives, float *loss)
{
    __shared__ float s[32];
    const Pair p = pairs[blockIdx.x];
    const int d = threadIdx.x;
    const float v = d < DIM ? e.in[p.center * DIM + d] : 0.f;
    float gv = 0.f;
    for (int k = 0; k <= NEGATIVES; ++k) {
        const int word = k == 0 ? p.context : negatives[blockIdx.x * NEGATIVES + k - 1];
        const float u = d < DIM ? e.out[word * DIM + d] : 0.f;
        s[d] = u * v;
        __syncthreads();
        for (int w = 16; w > 0; w >>= 1) {
            if (d < w)
                s[d] += s[d + w];
            __syncthreads();
        }
        const float f = 1.f / (1.f + expf(-s[0]));
        const float g = f - (k == 0 ? 1.f : 0.f);
        __syncthreads();
        if (d < DIM) {
            gv += g * u;
            atomicAdd(&e.d_out[word * DIM + d], g * v);
        }
        if (d == 0) {
            e.touched_out[word] = 1;
            atomicAdd(loss, -logf((k == 0 ? f : 1.f - f) + 1e-7f));
        }
    }
    if (d < DIM)
        atomicAdd(&e.d_in[p.center * DIM + d], gv);
    if (d == 0)
        e.touched_in[p.center] = 1;
}

// rows that no pair of the batch has touched are left alone
__global__ void sgd_rows(float *w, float *g, int *touched, float lr)
{
    const int row = blockIdx.x, d = threadIdx.x;
    if (touched[row]) {
        w[row * DIM + d] -= lr * g[row * DIM + d];
        g[row * DIM + d] = 0.f;
    }
    __syncthreads();
    if (d == 0)
        touched[row] = 0;
}

__global__ void init_rows(float *w, float scale, unsigned int seed)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    w[i] = scale * ((hash(i * 7919u + seed) & 0xffff) / 65536.f - 0.5f);
}

static unsigned int next = 1;
static int randint(int n)
{
    next = next * 1103515245u + 12345u;
    return (int)((next >> 16) % (unsigned)n);
}

int main(void)
{
    // a text of topics: the words of a topic appear together
    int *corpus = (int *)malloc(CORPUS * sizeof(int));
    int topic = 0;
    for (int i = 0; i < CORPUS; i++) {
        if (randint(20) == 0)
            topic = randint(TOPICS);
        corpus[i] = randint(5) == 0 ? randint(VOCAB) : randint(VOCAB / TOPICS) * TOPICS + topic;
    }

    Embeddings e;
    const size_t bytes = VOCAB * DIM * sizeof(float);
    cudaMalloc((void **)&e.in, bytes);
    cudaMalloc((void **)&e.out, bytes);
    cudaMalloc((void **)&e.d_in, bytes);
    cudaMalloc((void **)&e.d_out, bytes);
    cudaMalloc((void **)&e.touched_in, VOCAB * sizeof(int));
    cudaMalloc((void **)&e.touched_out, VOCAB * sizeof(int));
    init_rows<<<VOCAB, DIM>>>(e.in, 1.f / DIM, 1u);
    init_rows<<<VOCAB, DIM>>>(e.out, 1.f / DIM, 99u);
    cudaMemset(e.d_in, 0, bytes);
    cudaMemset(e.d_out, 0, bytes);
    cudaMemset(e.touched_in, 0, VOCAB * sizeof(int));
    cudaMemset(e.touched_out, 0, VOCAB * sizeof(int));

    Pair *pairs, *d_pairs;
    int *negatives, *d_negatives;
    float *d_loss, loss, total = 0;
    cudaHostAlloc((void **)&pairs, PAIRS_PER_BATCH * sizeof(Pair), cudaHostAllocDefault);
    cudaHostAlloc((void **)&negatives, PAIRS_PER_BATCH * NEGATIVES * sizeof(int), cudaHostAllocDefault);
    cudaMalloc((void **)&d_pairs, PAIRS_PER_BATCH * sizeof(Pair));
    cudaMalloc((void **)&d_negatives, PAIRS_PER_BATCH * NEGATIVES * sizeof(int));
    cudaMalloc((void **)&d_loss, sizeof(float));

    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaDeviceSynchronize();

    int fill = 0, steps = 0;
    for (int pos = 0; steps < MAX_STEPS; pos = (pos + 1) % CORPUS) {
        const int window = 1 + randint(WINDOW);
        for (int o = -window; o <= window && steps < MAX_STEPS; o++) {
            if (o == 0 || pos + o < 0 || pos + o >= CORPUS)
                continue;
            pairs[fill].center = corpus[pos];
            pairs[fill].context = corpus[pos + o];
            for (int k = 0; k < NEGATIVES; k++)
                negatives[fill * NEGATIVES + k] = corpus[randint(CORPUS)];
            if (++fill < PAIRS_PER_BATCH)
                continue;
            // the batch is full
            const float lr = 0.12f * (1.f - 0.8f * steps / MAX_STEPS);
            cudaMemcpyAsync(d_pairs, pairs, PAIRS_PER_BATCH * sizeof(Pair), cudaMemcpyHostToDevice, stream);
            cudaMemcpyAsync(d_negatives, negatives, PAIRS_PER_BATCH * NEGATIVES * sizeof(int), cudaMemcpyHostToDevice, stream);
            cudaMemsetAsync(d_loss, 0, sizeof(float), stream);
            sgns<<<PAIRS_PER_BATCH, 32, 0, stream>>>(e, d_pairs, d_negatives, d_loss);
            sgd_rows<<<VOCAB, DIM, 0, stream>>>(e.in, e.d_in, e.touched_in, lr);
            sgd_rows<<<VOCAB, DIM, 0, stream>>>(e.out, e.d_out, e.touched_out, lr);
            cudaMemcpyAsync(&loss, d_loss, sizeof(float), cudaMemcpyDeviceToHost, stream);
            cudaStreamSynchronize(stream);
            total += loss / PAIRS_PER_BATCH;
            fill = 0;
            if (++steps % 30 == 0) {
                printf("step %d: lr %.4f, loss per pair %.4f\n", steps, lr, total / 30);
                total = 0;
            }
        }
    }

    // similarity inside of topics and across
    float *h = (float *)malloc(bytes);
    cudaMemcpy(h, e.in, bytes, cudaMemcpyDeviceToHost);
    double same = 0, other = 0;
    int nsame = 0, nother = 0;
    for (int a = 0; a < VOCAB; a++)
        for (int b = a + 1; b < VOCAB; b++) {
            double ab = 0, aa = 1e-9, bb = 1e-9;
            for (int d = 0; d < DIM; d++) {
                ab += h[a * DIM + d] * h[b * DIM + d];
                aa += h[a * DIM + d] * h[a * DIM + d];
                bb += h[b * DIM + d] * h[b * DIM + d];
            }
            if (a % TOPICS == b % TOPICS) {
                same += ab / sqrt(aa * bb);
                nsame++;
            } else {
                other += ab / sqrt(aa * bb);
                nother++;
            }
        }
    printf("mean cosine inside of topics %.3f, across %.3f\n", same / nsame, other / nother);
    return 0;
}
