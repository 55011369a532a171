#include "model.h"
#include <cuda_runtime.h>
#include <cstdlib>
#include <iostream>
#include <random>

#define CK(e) check((e), __LINE__)
static inline void check(cudaError_t e, int line)
{
    if (e == cudaSuccess) return;
    std::cerr << "model.cu:" << line << ": " << cudaGetErrorString(e) << "\n";
    std::exit(2);
}

// one block for each document, one thread for each dimension
__global__ void bagForward(const int *words, const int *offsets, const float *emb, float *mean, int dim)
{
    const int doc = blockIdx.x, j = threadIdx.x;
    const int begin = offsets[doc], end = offsets[doc + 1];
    float s = 0.f;
    for (int w = begin; w < end; ++w) s += emb[words[w] * dim + j];
    mean[doc * dim + j] = s / (end - begin);
}

__global__ void softmaxForward(const float *mean, const float *out, const int *labels, float *probs, float *losses, int count,
                               int dim, int topics)
{
    const int doc = blockIdx.x * blockDim.x + threadIdx.x;
    if (doc >= count) return;
    float *p = probs + doc * topics;
    float top = -1e30f, sum = 0.f;
    for (int c = 0; c < topics; ++c) {
        p[c] = 0.f;
        for (int j = 0; j < dim; ++j) p[c] += out[c * dim + j] * mean[doc * dim + j];
        top = fmaxf(top, p[c]);
    }
    for (int c = 0; c < topics; ++c) sum += p[c] = __expf(p[c] - top);
    for (int c = 0; c < topics; ++c) p[c] /= sum;
    losses[doc] = -logf(fmaxf(p[labels[doc]], 1e-9f));
}

__global__ void bagBackward(const int *words, const int *offsets, const int *labels, const float *mean, const float *probs,
                            const float *out, float *embGrad, float *outGrad, int count, int dim, int topics)
{
    const int doc = blockIdx.x, j = threadIdx.x;
    const int begin = offsets[doc], end = offsets[doc + 1];
    float dmean = 0.f;
    for (int c = 0; c < topics; ++c) {
        const float d = probs[doc * topics + c] - (labels[doc] == c);
        dmean += d * out[c * dim + j];
        atomicAdd(&outGrad[c * dim + j], d * mean[doc * dim + j] / count);
    }
    dmean /= (end - begin) * count;
    for (int w = begin; w < end; ++w) atomicAdd(&embGrad[words[w] * dim + j], dmean);
}

__global__ void descend(float *param, const float *grad, int n, float rate)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) param[i] -= rate * grad[i];
}

TextClassifier::TextClassifier(int vocabulary, int dim, int topics, int maxBatch, int maxWords)
    : vocabulary_(vocabulary), dim_(dim), topics_(topics), losses_(maxBatch), probs_(maxBatch * topics)
{
    CK(cudaMalloc(&dWords_, maxBatch * maxWords * sizeof(int)));
    CK(cudaMalloc(&dOffsets_, (maxBatch + 1) * sizeof(int)));
    CK(cudaMalloc(&dLabels_, maxBatch * sizeof(int)));
    CK(cudaMalloc(&dEmbedding_, vocabulary * dim * sizeof(float)));
    CK(cudaMalloc(&dEmbeddingGrad_, vocabulary * dim * sizeof(float)));
    CK(cudaMalloc(&dOutput_, topics * dim * sizeof(float)));
    CK(cudaMalloc(&dOutputGrad_, topics * dim * sizeof(float)));
    CK(cudaMalloc(&dMean_, maxBatch * dim * sizeof(float)));
    CK(cudaMalloc(&dProbs_, maxBatch * topics * sizeof(float)));
    CK(cudaMalloc(&dLosses_, maxBatch * sizeof(float)));

    std::minstd_rand rng(17);
    std::uniform_real_distribution<float> u(-0.5f / dim, 0.5f / dim);
    std::vector<float> e(vocabulary * dim);
    for (float &x : e) x = u(rng);
    CK(cudaMemcpy(dEmbedding_, e.data(), e.size() * sizeof(float), cudaMemcpyHostToDevice));
    e.resize(topics * dim);
    for (float &x : e) x = 4.f * u(rng);
    CK(cudaMemcpy(dOutput_, e.data(), e.size() * sizeof(float), cudaMemcpyHostToDevice));
}

TextClassifier::~TextClassifier()
{
    for (void *p : {(void *)dWords_, (void *)dOffsets_, (void *)dLabels_, (void *)dEmbedding_, (void *)dEmbeddingGrad_,
                    (void *)dOutput_, (void *)dOutputGrad_, (void *)dMean_, (void *)dProbs_, (void *)dLosses_})
        cudaFree(p);
}

void TextClassifier::stage(const std::vector<Document> &docs, int first, int count)
{
    words_.clear();
    labels_.clear();
    offsets_.assign(1, 0);
    for (int i = first; i < first + count; ++i) {
        words_.insert(words_.end(), docs[i].words.begin(), docs[i].words.end());
        offsets_.push_back((int)words_.size());
        labels_.push_back(docs[i].topic);
    }
    CK(cudaMemcpy(dWords_, words_.data(), words_.size() * sizeof(int), cudaMemcpyHostToDevice));
    CK(cudaMemcpy(dOffsets_, offsets_.data(), offsets_.size() * sizeof(int), cudaMemcpyHostToDevice));
    CK(cudaMemcpy(dLabels_, labels_.data(), labels_.size() * sizeof(int), cudaMemcpyHostToDevice));
}

float TextClassifier::trainBatch(const std::vector<Document> &docs, int first, int count, float rate)
{
    stage(docs, first, count);
    CK(cudaMemset(dEmbeddingGrad_, 0, vocabulary_ * dim_ * sizeof(float)));
    CK(cudaMemset(dOutputGrad_, 0, topics_ * dim_ * sizeof(float)));
    bagForward<<<count, dim_>>>(dWords_, dOffsets_, dEmbedding_, dMean_, dim_);
    softmaxForward<<<(count + 31) / 32, 32>>>(dMean_, dOutput_, dLabels_, dProbs_, dLosses_, count, dim_, topics_);
    bagBackward<<<count, dim_>>>(dWords_, dOffsets_, dLabels_, dMean_, dProbs_, dOutput_, dEmbeddingGrad_, dOutputGrad_,
                                 count, dim_, topics_);
    descend<<<8, 128>>>(dEmbedding_, dEmbeddingGrad_, vocabulary_ * dim_, rate);
    descend<<<1, 128>>>(dOutput_, dOutputGrad_, topics_ * dim_, rate);
    CK(cudaMemcpy(losses_.data(), dLosses_, count * sizeof(float), cudaMemcpyDeviceToHost));
    float s = 0.f;
    for (int i = 0; i < count; ++i) s += losses_[i];
    return s / count;
}

float TextClassifier::accuracy(const std::vector<Document> &docs, int first, int count)
{
    stage(docs, first, count);
    bagForward<<<count, dim_>>>(dWords_, dOffsets_, dEmbedding_, dMean_, dim_);
    softmaxForward<<<(count + 31) / 32, 32>>>(dMean_, dOutput_, dLabels_, dProbs_, dLosses_, count, dim_, topics_);
    CK(cudaMemcpy(probs_.data(), dProbs_, count * topics_ * sizeof(float), cudaMemcpyDeviceToHost));
    int right = 0;
    for (int i = 0; i < count; ++i) {
        int best = 0;
        for (int c = 1; c < topics_; ++c)
            if (probs_[i * topics_ + c] > probs_[i * topics_ + best]) best = c;
        right += best == labels_[i];
    }
    return right / (float)count;
}
