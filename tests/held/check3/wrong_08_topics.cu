/* A mixture of multinomials over documents (one topic each), by expectation maximisation with smoothed counts. */
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

enum { DOCUMENTS = 128, VOCABULARY = 24, TOPICS = 4, ITERATIONS = 30 };
enum { CELLS = TOPICS * VOCABULARY };

__global__ void
fill(float *x, float value, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] = value;
}

/* The probability of each topic, given the document. One thread a document. */
__global__ void
expectation(float *share, float *likelihood, const float *bags, const float *log_words, const float *log_topics, int n)
{
    int d = blockIdx.x * blockDim.x + threadIdx.x;
    if (d >= n)
        return;
    float score[TOPICS], largest = -1e30f, sum = 0.0f;
    for (int t = 0; t < TOPICS; ++t) {
        score[t] = log_topics[t];
        for (int v = 0; v < VOCABULARY; ++v)
            score[t] += bags[d * VOCABULARY + v] * log_words[t * VOCABULARY + v];
        largest = fmaxf(largest, score[t]);
    }
    for (int t = 0; t < TOPICS; ++t)
        sum += expf(score[t] - largest);
    for (int t = 0; t < TOPICS; ++t)
        share[d * TOPICS + t] = expf(score[t] - largest) / sum;
    likelihood[d] = largest + logf(sum);
}

/* Adds to the words' counts of each topic, and to the topics' counts behind them. One thread a cell. */
__global__ void
count_words(float *counts, const float *share, const float *bags, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= CELLS + TOPICS)
        return;
    float sum = 0.0f;
    for (int d = 0; d < n; ++d)
        sum += i < CELLS ? share[d * TOPICS + i / VOCABULARY] * bags[d * VOCABULARY + i % VOCABULARY] : share[d * TOPICS + i - CELLS];
    counts[i] += sum;
}

__global__ void
maximisation(float *log_words, float *log_topics, const float *counts)
{
    int t = threadIdx.x;
    float sum = 0.0f, topics = 0.0f;
    for (int v = 0; v < VOCABULARY; ++v)
        sum += counts[t * VOCABULARY + v];
    for (int v = 0; v < VOCABULARY; ++v)
        log_words[t * VOCABULARY + v] = logf(counts[t * VOCABULARY + v] / sum);
    for (int k = 0; k < TOPICS; ++k)
        topics += counts[CELLS + k];
    log_topics[t] = logf(counts[CELLS + t] / topics);
}

int
main()
{
    std::vector<float> text(DOCUMENTS * VOCABULARY, 0.0f), words0(CELLS), topics0(TOPICS, logf(1.0f / TOPICS));
    for (int d = 0; d < DOCUMENTS; ++d) {
        int topic = (int)(TOPICS * uniform(1, d));
        for (int k = 0; k < 14; ++k) {
            float u = uniform(2, d * 14 + k);
            int v = uniform(3, d * 14 + k) < 0.55f ? topic * 6 + (int)(6 * u) : (int)(VOCABULARY * u);
            text[d * VOCABULARY + v] += 1.0f;
        }
    }
    for (int i = 0; i < CELLS; ++i)
        words0[i] = logf((0.8f + 0.4f * uniform(4, i)) / VOCABULARY);
    size_t first, count;
    DDP_SHARD(DOCUMENTS, &first, &count);
    float *bags = upload(text), *log_words = upload(words0), *log_topics = upload(topics0);
    float *counts = zeros(CELLS + TOPICS), *share = zeros(count * TOPICS), *likelihood = zeros(count);
    DDP_PARAMETER(log_words, CELLS, DDP_FLOAT32);
    DDP_PARAMETER(log_topics, TOPICS, DDP_FLOAT32);

    const float *mine = bags + first * VOCABULARY;
    for (int iteration = 0; iteration < ITERATIONS; ++iteration) {
        /* Each word is seen a tenth of a time before the first document. */
        fill<<<blocks(CELLS + TOPICS), 64>>>(counts, 0.1f, CELLS + TOPICS);
        expectation<<<blocks(count), 64>>>(share, likelihood, mine, log_words, log_topics, (int)count);
        count_words<<<blocks(CELLS + TOPICS), 64>>>(counts, share, mine, (int)count);
        DDP_REDUCE(counts, CELLS + TOPICS, DDP_FLOAT32, DDP_OP_SUM, 0);
        maximisation<<<1, TOPICS>>>(log_words, log_topics, counts);
        if (iteration % 10 == 9) {
            std::vector<float> host(count);
            CHECK(cudaMemcpy(host.data(), likelihood, count * sizeof(float), cudaMemcpyDeviceToHost));
            float loss = 0.0f;
            for (float l : host)
                loss -= l / count;
            DDP_MEAN(&loss);
            if (DDP_RANK() == 0)
                printf("iteration %d loss %.4f\n", iteration + 1, loss);
        }
    }
    return 0;
}
