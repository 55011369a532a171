/* Tags the words of sentences from the word and the one before it. Sentences have 3 to 12 words; the rest is padding. */
#include <cuda_runtime.h>
#include <ddprun.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

#define CHECK(call)                                                                               \
    do {                                                                                          \
        cudaError_t error_ = (call);                                                              \
        if (error_ != cudaSuccess) {                                                              \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error_));       \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

/* A number in [0, 1) that depends on its two arguments only. */
static __host__ __device__ inline float
uniform(unsigned seed, unsigned i)
{
    unsigned x = seed * 0x9e3779b9u + i * 0x85ebca6bu + 0x7f4a7c15u;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return (x >> 8) * (1.0f / 16777216.0f);
}

static float *
zeros(size_t n)
{
    float *p;
    CHECK(cudaMalloc((void **)&p, n * sizeof(float)));
    CHECK(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

template <typename T> static T *
upload(const std::vector<T> &values)
{
    T *p;
    CHECK(cudaMalloc((void **)&p, values.size() * sizeof(T)));
    CHECK(cudaMemcpy(p, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}

static inline int
blocks(size_t n)
{
    return (int)((n + 63) / 64);
}

enum { WORDS = 40, TAGS = 5, LONGEST = 12, SENTENCES = 192, BATCH = 16, STEPS = 60 };
enum { TABLE = WORDS * TAGS, TOTAL = 2 * TABLE + TAGS };

/* One thread a place. Padding has tag -1, no loss and no gradient. */
__global__ void
tag(float *delta, float *losses, const float *w, const int *words, const int *tags, float inverse, int places)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= places)
        return;
    float z[TAGS], sum = 0.0f;
    int before = i % LONGEST ? words[i - 1] : 0;
    for (int t = 0; t < TAGS; ++t) {
        z[t] = w[words[i] * TAGS + t] + w[TABLE + before * TAGS + t] + w[2 * TABLE + t];
        sum += expf(z[t]);
    }
    losses[i] = tags[i] < 0 ? 0.0f : logf(sum) - z[tags[i]];
    for (int t = 0; t < TAGS; ++t)
        delta[i * TAGS + t] = tags[i] < 0 ? 0.0f : (expf(z[t]) / sum - (t == tags[i])) * inverse;
}

/* One thread a weight: adds the places that used it in their order. */
__global__ void
gradient(float *dw, const float *delta, const int *words, int places)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= TOTAL)
        return;
    float sum = 0.0f;
    for (int i = 0; i < places; ++i) {
        int before = i % LONGEST ? words[i - 1] : 0;
        bool used = j < TABLE ? words[i] == j / TAGS : j < 2 * TABLE ? before == (j - TABLE) / TAGS : true;
        sum += used ? delta[i * TAGS + j % TAGS] : 0.0f;
    }
    dw[j] = sum;
}

__global__ void
descend(float *w, const float *dw, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < TOTAL)
        w[i] -= rate * dw[i];
}

int
main()
{
    std::vector<int> words(SENTENCES * LONGEST, 0), tags(SENTENCES * LONGEST, -1), lengths(SENTENCES);
    for (int s = 0; s < SENTENCES; ++s) {
        lengths[s] = 3 + (int)(10 * uniform(1, s));
        for (int k = 0; k < lengths[s]; ++k) {
            int i = s * LONGEST + k;
            words[i] = (int)(WORDS * uniform(2, i));
            tags[i] = (words[i] % 3 + (k ? words[i - 1] % 3 : 0)) % TAGS;
        }
    }
    int *dwords = upload(words), *dtags = upload(tags);
    float *w = zeros(TOTAL), *dw = zeros(TOTAL);
    float *delta = zeros(BATCH * LONGEST * TAGS), *losses = zeros(BATCH * LONGEST);
    DDP_PARAMETER(w, TOTAL, DDP_FLOAT32);
    DDP_GRADIENT(dw, TOTAL, DDP_FLOAT32);

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t begin = (size_t)(step * BATCH) % SENTENCES + first;

        /* The loss is the mean over words, without the padding. */
        int tokens = 0;
        for (size_t s = 0; s < count; ++s)
            tokens += lengths[begin + s];
        float inverse = 1.0f / tokens;

        const int *in = dwords + begin * LONGEST, *out = dtags + begin * LONGEST;
        int places = (int)count * LONGEST;
        tag<<<blocks(places), 64>>>(delta, losses, w, in, out, inverse, places);
        gradient<<<blocks(TOTAL), 64>>>(dw, delta, in, places);
        DDP_STEP(0);
        descend<<<blocks(TOTAL), 64>>>(w, dw, 4.0f);
        if (step % 15 == 14) {
            std::vector<float> host(places);
            CHECK(cudaMemcpy(host.data(), losses, places * sizeof(float), cudaMemcpyDeviceToHost));
            double sums[2] = {0.0, (double)tokens};
            for (float l : host)
                sums[0] += l;
            DDP_REDUCE(sums, 2, DDP_FLOAT64, DDP_OP_SUM, 0);
            if (DDP_RANK() == 0)
                printf("step %d loss %.4f\n", step + 1, sums[0] / sums[1]);
        }
    }
    return 0;
}
