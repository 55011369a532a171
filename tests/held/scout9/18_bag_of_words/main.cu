// Text classification by averaged word embeddings, as in fastText.
#include "kernels.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

namespace {

const int kVocab = 400, kDim = 20, kClasses = 6;
const int kBatchSize = 64;
const int kEpochs = 10;
const float kRate = 0.25f;

struct Corpus {
    std::vector<int> words;
    std::vector<int> offsets{0};   // size() + 1
    std::vector<int> labels;
    int size() const { return (int)labels.size(); }
    int longest(int batch) const
    {
        int n = 0;
        for (int d = 0; d < size(); d += batch)
            n = std::max(n, offsets[std::min(d + batch, size())] - offsets[d]);
        return n;
    }
};

Corpus makeCorpus(int docs, std::mt19937 &rng)
{
    Corpus c;
    for (int d = 0; d < docs; ++d) {
        const int label = rng() % kClasses, length = 6 + rng() % 19;
        for (int i = 0; i < length; ++i) {
            int w = rng() % kVocab;
            if (rng() % 3 == 0)
                w = (w / kClasses * kClasses + label) % kVocab;   // a word of the class
            c.words.push_back(w);
        }
        c.offsets.push_back((int)c.words.size());
        c.labels.push_back(label);
    }
    return c;
}

class Trainable {
public:
    Trainable(int n, float range, std::mt19937 &rng) : n_(n)
    {
        std::vector<float> h(n);
        std::uniform_real_distribution<float> u(-range, range);
        for (float &x : h)
            x = range > 0 ? u(rng) : 0.f;
        cudaMalloc(&value, n * sizeof(float));
        cudaMalloc(&gradient, n * sizeof(float));
        cudaMalloc(&history_, n * sizeof(float));
        cudaMemcpy(value, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemset(history_, 0, n * sizeof(float));
    }
    ~Trainable()
    {
        cudaFree(value);
        cudaFree(gradient);
        cudaFree(history_);
    }
    void zeroGrad() { cudaMemset(gradient, 0, n_ * sizeof(float)); }
    void step(float lr) { adagradStep(value, gradient, history_, n_, lr); }
    float *value, *gradient;

private:
    int n_;
    float *history_;
};

struct Batch {
    int *words, *start, *labels;
    Batch(int maxWords, int maxDocs)
    {
        cudaMalloc(&words, maxWords * sizeof(int));
        cudaMalloc(&start, (maxDocs + 1) * sizeof(int));
        cudaMalloc(&labels, maxDocs * sizeof(int));
    }
    // returns the index of the first word
    int load(const Corpus &c, int begin, int docs)
    {
        const int first = c.offsets[begin], last = c.offsets[begin + docs];
        cudaMemcpy(words, &c.words[first], (last - first) * sizeof(int), cudaMemcpyHostToDevice);
        cudaMemcpy(start, &c.offsets[begin], (docs + 1) * sizeof(int), cudaMemcpyHostToDevice);
        cudaMemcpy(labels, &c.labels[begin], docs * sizeof(int), cudaMemcpyHostToDevice);
        return first;
    }
};

struct Score {
    float loss;
    int hits;
};

} // namespace

int main()
{
    std::mt19937 rng(2718);
    const Corpus train = makeCorpus(1000, rng), test = makeCorpus(200, rng);
    Trainable emb(kVocab * kDim, 0.1f, rng), out(kClasses * kDim, 0.3f, rng), bias(kClasses, 0.f, rng);
    Batch batch(std::max(train.longest(kBatchSize), test.longest(kBatchSize)), kBatchSize);

    float *bag, *gBag, *prob;
    cudaMalloc(&bag, kBatchSize * kDim * sizeof(float));
    cudaMalloc(&gBag, kBatchSize * kDim * sizeof(float));
    cudaMalloc(&prob, kBatchSize * kClasses * sizeof(float));
    Score *score, h;
    cudaMalloc(&score, sizeof(Score));

    const int stepsPerEpoch = (train.size() + kBatchSize - 1) / kBatchSize;
    int step = 0;
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
        cudaMemset(score, 0, sizeof(Score));
        for (int begin = 0; begin < train.size(); begin += kBatchSize, ++step) {
            const int docs = std::min(kBatchSize, train.size() - begin);
            const int first = batch.load(train, begin, docs);
            const float lr = 0.5f * kRate * (1.f + std::cos(3.14159265f * step / (kEpochs * stepsPerEpoch)));

            bagForward(emb.value, batch.words, batch.start, first, bag, docs, kDim);
            outputForward(bag, out.value, bias.value, prob, docs, kDim, kClasses);
            lossBackward(prob, batch.labels, &score->loss, &score->hits, docs, kClasses);
            emb.zeroGrad();
            outputBackward(bag, out.value, prob, out.gradient, bias.gradient, gBag, docs, kDim, kClasses);
            bagBackward(emb.gradient, batch.words, batch.start, first, gBag, docs, kDim);

            emb.step(lr);
            out.step(lr);
            bias.step(lr);
        }
        cudaMemcpy(&h, score, sizeof(h), cudaMemcpyDeviceToHost);
        printf("epoch %2d: loss %.4f, accuracy %.3f", epoch, h.loss / train.size(), (float)h.hits / train.size());

        cudaMemset(score, 0, sizeof(Score));
        for (int begin = 0; begin < test.size(); begin += kBatchSize) {
            const int docs = std::min(kBatchSize, test.size() - begin);
            const int first = batch.load(test, begin, docs);
            bagForward(emb.value, batch.words, batch.start, first, bag, docs, kDim);
            outputForward(bag, out.value, bias.value, prob, docs, kDim, kClasses);
            lossBackward(prob, batch.labels, &score->loss, &score->hits, docs, kClasses);
        }
        cudaMemcpy(&h, score, sizeof(h), cudaMemcpyDeviceToHost);
        printf("; test loss %.4f, accuracy %.3f\n", h.loss / test.size(), (float)h.hits / test.size());
    }
    return 0;
}
