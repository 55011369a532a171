#include "common.h"
#include <cstdio>
#include <cuda_runtime.h>

struct DeviceCorpus {
    int *tokens, *offset;
    float *label;
    explicit DeviceCorpus(const Corpus &c)
    {
        cudaMalloc(&tokens, c.tokens.size() * sizeof(int));
        cudaMalloc(&offset, c.offset.size() * sizeof(int));
        cudaMalloc(&label, c.label.size() * sizeof(float));
        cudaMemcpy(tokens, c.tokens.data(), c.tokens.size() * sizeof(int), cudaMemcpyHostToDevice);
        cudaMemcpy(offset, c.offset.data(), c.offset.size() * sizeof(int), cudaMemcpyHostToDevice);
        cudaMemcpy(label, c.label.data(), c.label.size() * sizeof(float), cudaMemcpyHostToDevice);
    }
    ~DeviceCorpus() { cudaFree(tokens); cudaFree(offset); cudaFree(label); }
};

int main()
{
    const int vocab = 400, dim = 16, batch = 64;
    Corpus train = make_corpus(1920, vocab, 1), test = make_corpus(300, vocab, 2);
    DeviceCorpus dtrain(train), dtest(test);
    BagModel m;
    model_create(m, vocab, dim, batch);
    for (int epoch = 0; epoch < 4; epoch++) {
        float total = 0;
        for (int first = 0; first < train.size(); first += batch)
            total += model_train(m, dtrain.tokens, dtrain.offset, dtrain.label, first, batch, 0.1f);
        printf("epoch %d loss %.4f, test accuracy %.3f\n", epoch, total / (train.size() / batch),
               model_accuracy(m, dtest.tokens, dtest.offset, dtest.label, test.size(), batch));
    }
    model_destroy(m);
    return 0;
}
