#ifndef COMMON_H
#define COMMON_H
#include <vector>
// ragged documents: tokens of document i are tokens[offset[i]] .. tokens[offset[i + 1]]
struct Corpus {
    std::vector<int> tokens, offset;
    std::vector<float> label;
    int size() const { return (int)label.size(); }
};
Corpus make_corpus(int docs, int vocab, unsigned seed);

struct BagModel {
    int vocab, dim;
    float *emb, *w, *bias;            // vocab x dim, dim, 1
    float *g_emb, *g_w, *g_bias;
    float *a_emb, *a_w, *a_bias;      // adagrad
    float *pooled, *err, *loss;
};
void model_create(BagModel &m, int vocab, int dim, int max_batch);
void model_destroy(BagModel &m);
// documents first .. first + n of the device copies
float model_train(BagModel &m, const int *tokens, const int *offset, const float *label, int first, int n, float lr);
float model_accuracy(BagModel &m, const int *tokens, const int *offset, const float *label, int docs, int chunk);
#endif
