// Skip-gram with negative sampling, updates straight into the tables as in the original word2vec.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <cuda_runtime.h>

typedef unsigned long long ull;

const int vocab_size = 200;
const int layer1_size = 24;
const int negative = 4;
const int window = 2;
const int corpus_size = 9000;
const int max_pairs = 256; // training pairs sent to the device at once

struct vocab_word {
    long cn;
    char word[16];
};

static std::vector<vocab_word> vocab(vocab_size);
static std::vector<int> unigram_table;
static ull next_random = 1;

static ull rnd()
{
    next_random = next_random * 25214903917ULL + 11;
    return next_random >> 16;
}

// Words come in 20 topics of 10 words; a sentence of the corpus stays in its topic
static void make_corpus(std::vector<int> &corpus)
{
    for (int i = 0; i < vocab_size; i++) {
        vocab[i].cn = 0;
        snprintf(vocab[i].word, sizeof vocab[i].word, "w%d_%d", i / 10, i % 10);
    }
    int topic = 0;
    for (int i = 0; i < corpus_size; i++) {
        if (i % 12 == 0) topic = rnd() % 20;
        int a = rnd() % 10, b = rnd() % 10;
        corpus.push_back(topic * 10 + (a < b ? a : b));
        vocab[corpus.back()].cn++;
    }
}

static void init_unigram_table()
{
    double total = 0;
    for (auto &w : vocab) total += pow(w.cn, 0.75);
    for (int i = 0; i < vocab_size; i++)
        for (int k = 0; k < 5000 * pow(vocab[i].cn, 0.75) / total; k++) unigram_table.push_back(i);
}

// One block per pair, one thread per component. targets[pair][0] is the context word, the others are negative samples
__global__ void train_pairs(const int *centers, const int *targets, float *syn0, float *syn1neg, float alpha, float *loss)
{
    __shared__ float dot[layer1_size];
    int a = threadIdx.x;
    float *in = syn0 + centers[blockIdx.x] * layer1_size;
    float neu1e = 0;
    for (int d = 0; d <= negative; d++) {
        float *out = syn1neg + targets[blockIdx.x * (negative + 1) + d] * layer1_size;
        dot[a] = in[a] * out[a];
        __syncthreads();
        float f = 0;
        for (int k = 0; k < layer1_size; k++) f += dot[k];
        float p = 1.f / (1.f + expf(-f));
        float g = ((d == 0) - p) * alpha;
        if (a == 0) atomicAdd(loss, -logf((d == 0 ? p : 1 - p) + 1e-7f));
        neu1e += g * out[a];
        atomicAdd(&out[a], g * in[a]);
        __syncthreads();
    }
    atomicAdd(&in[a], neu1e);
}

int main()
{
    std::vector<int> corpus;
    make_corpus(corpus);
    init_unigram_table();

    float *syn0, *syn1neg, *d_loss;
    int *d_centers, *d_targets;
    std::vector<float> init(vocab_size * layer1_size);
    for (auto &v : init) v = ((rnd() & 0xFFFF) / 65536.f - 0.5f) / layer1_size * 4;
    cudaMalloc(&syn0, init.size() * sizeof(float));
    cudaMalloc(&syn1neg, init.size() * sizeof(float));
    cudaMemcpy(syn0, init.data(), init.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(syn1neg, 0, init.size() * sizeof(float));
    cudaMalloc(&d_centers, max_pairs * sizeof(int));
    cudaMalloc(&d_targets, max_pairs * (negative + 1) * sizeof(int));
    cudaMalloc(&d_loss, sizeof(float));
    cudaMemset(d_loss, 0, sizeof(float));

    std::vector<int> centers, targets;
    float alpha = 0.4f, starting_alpha = alpha;
    int launches = 0, since = 0;
    for (int pos = window; pos < corpus_size - window; pos++) {
        for (int off = -window; off <= window; off++) {
            if (off == 0) continue;
            centers.push_back(corpus[pos]);
            targets.push_back(corpus[pos + off]);
            for (int d = 0; d < negative; d++) targets.push_back(unigram_table[rnd() % unigram_table.size()]);
        }
        if (centers.size() + 2 * window <= max_pairs) continue;

        // the buffer is full
        cudaMemcpy(d_centers, centers.data(), centers.size() * sizeof(int), cudaMemcpyHostToDevice);
        cudaMemcpy(d_targets, targets.data(), targets.size() * sizeof(int), cudaMemcpyHostToDevice);
        train_pairs<<<centers.size(), layer1_size>>>(d_centers, d_targets, syn0, syn1neg, alpha, d_loss);
        since += centers.size();
        centers.clear();
        targets.clear();
        alpha = starting_alpha * (1 - 0.5f * pos / corpus_size);
        if (++launches % 20 == 0) {
            float loss;
            cudaMemcpy(&loss, d_loss, sizeof(float), cudaMemcpyDeviceToHost);
            printf("Alpha: %f  Progress: %.1f%%  loss: %.4f\n", alpha, 100.0 * pos / corpus_size, loss / since);
            cudaMemset(d_loss, 0, sizeof(float));
            since = 0;
        }
    }

    // nearest neighbours of one word
    std::vector<float> v(vocab_size * layer1_size);
    cudaMemcpy(v.data(), syn0, v.size() * sizeof(float), cudaMemcpyDeviceToHost);
    int best = -1;
    float best_cos = -2;
    for (int w = 1; w < vocab_size; w++) {
        float ab = 0, aa = 0, bb = 0;
        for (int k = 0; k < layer1_size; k++) {
            ab += v[k] * v[w * layer1_size + k];
            aa += v[k] * v[k];
            bb += v[w * layer1_size + k] * v[w * layer1_size + k];
        }
        if (ab / sqrtf(aa * bb) > best_cos) {
            best_cos = ab / sqrtf(aa * bb);
            best = w;
        }
    }
    printf("nearest to %s: %s (%.3f)\n", vocab[0].word, vocab[best].word, best_cos);
    return 0;
}
