#pragma once
#include <cstdint>
#include <random>
#include <vector>

namespace textcat {

// Documents of at most `length` words, padded with -1.
struct Corpus {
    int length = 0, labels = 0, vocabulary = 0;
    std::vector<int16_t> words; // size() * length
    std::vector<uint8_t> label;
    int size() const { return (int)label.size(); }
    void shuffle(std::mt19937 &rng);
};

Corpus makeCorpus(int documents, int length, int labels, int vocabulary, std::mt19937 &rng);

class Classifier {
public:
    Classifier(const Corpus &shape, int dimension, int maxBatch, std::mt19937 &rng);
    ~Classifier();
    Classifier(const Classifier &) = delete;
    Classifier &operator=(const Classifier &) = delete;

    // One step of gradient descent with momentum; returns the mean loss.
    float fit(const Corpus &c, int first, int count, float rate);
    // Share of right answers among documents [first, first + count).
    float accuracy(const Corpus &c, int first, int count);

private:
    void upload(const Corpus &c, int first, int count);

    struct Weights {
        float *embedding, *linear, *bias;
    };
    Weights create() const;
    int length_, labels_, vocabulary_, dimension_, maxBatch_;
    Weights w_, g_, v_;
    int16_t *words_;
    uint8_t *label_;
    float *hidden_, *prob_, *loss_;
};

} // namespace textcat
