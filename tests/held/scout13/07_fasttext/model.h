#pragma once
#include <vector>

struct Document {
    std::vector<int> words;
    int topic;
};

// Bag of words -> mean of embeddings -> softmax (as in fastText), plain SGD
class TextClassifier {
public:
    TextClassifier(int vocabulary, int dim, int topics, int maxBatch, int maxWords);
    ~TextClassifier();
    float trainBatch(const std::vector<Document> &docs, int first, int count, float rate);
    float accuracy(const std::vector<Document> &docs, int first, int count);

private:
    void stage(const std::vector<Document> &docs, int first, int count);

    int vocabulary_, dim_, topics_;
    std::vector<int> words_, offsets_, labels_;       // staging, CSR
    std::vector<float> losses_, probs_;
    int *dWords_, *dOffsets_, *dLabels_;
    float *dEmbedding_, *dOutput_;
    float *dEmbeddingGrad_, *dOutputGrad_;
    float *dMean_, *dProbs_, *dLosses_;
};
