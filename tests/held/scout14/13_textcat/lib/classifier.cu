#include "textcat.h"

#include <cuda_runtime.h>
#include <stdexcept>
#include <string>

namespace textcat {

static void check(cudaError_t e)
{
    if (e != cudaSuccess) throw std::runtime_error(std::string("textcat: ") + cudaGetErrorString(e));
}

template <typename T> static T *alloc(size_t n)
{
    void *p = nullptr;
    check(cudaMalloc(&p, n * sizeof(T)));
    check(cudaMemset(p, 0, n * sizeof(T)));
    return static_cast<T *>(p);
}

// Mean of the embeddings of a document's words. One block a document, one thread a dimension.
__global__ void average(const int16_t *words, const float *embedding, float *hidden, int length)
{
    const int d = threadIdx.x, dim = blockDim.x;
    const int16_t *w = words + blockIdx.x * length;
    float s = 0.f;
    int n = 0;
    for (; n < length && w[n] >= 0; ++n) s += embedding[w[n] * dim + d];
    hidden[blockIdx.x * dim + d] = n > 0 ? s / n : 0.f;
}

__global__ void probabilities(const float *hidden, const float *linear, const float *bias, float *prob, int n, int dim, int labels)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float *p = prob + i * labels, total = 0.f;
    for (int c = 0; c < labels; ++c) {
        float s = bias[c];
        for (int d = 0; d < dim; ++d) s += hidden[i * dim + d] * linear[c * dim + d];
        total += p[c] = expf(s);
    }
    for (int c = 0; c < labels; ++c) p[c] /= total;
}

__global__ void lossAndDelta(float *prob, const uint8_t *label, float *loss, int n, int labels)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicAdd(loss, -logf(prob[i * labels + label[i]]) / n);
    for (int c = 0; c < labels; ++c) prob[i * labels + c] = (prob[i * labels + c] - (c == label[i] ? 1.f : 0.f)) / n;
}

__global__ void linearGradient(const float *hidden, const float *delta, float *linear, float *bias, int n, int dim, int labels)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= labels * dim) return;
    int c = i / dim, d = i % dim;
    float s = 0.f, b = 0.f;
    for (int k = 0; k < n; ++k) {
        s += delta[k * labels + c] * hidden[k * dim + d];
        b += delta[k * labels + c];
    }
    linear[i] = s;
    if (d == 0) bias[c] = b;
}

__global__ void embeddingGradient(const int16_t *words, const float *delta, const float *linear, float *embedding, int length, int labels)
{
    const int d = threadIdx.x, dim = blockDim.x;
    const int16_t *w = words + blockIdx.x * length;
    float s = 0.f;
    for (int c = 0; c < labels; ++c) s += delta[blockIdx.x * labels + c] * linear[c * dim + d];
    int n = 0;
    while (n < length && w[n] >= 0) ++n;
    for (int k = 0; k < n; ++k) atomicAdd(&embedding[w[k] * dim + d], s / n);
}

__global__ void momentum(float *w, const float *g, float *v, int n, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        v[i] = 0.85f * v[i] + g[i];
        w[i] -= rate * v[i];
    }
}

Classifier::Weights Classifier::create() const
{
    return {alloc<float>(vocabulary_ * dimension_), alloc<float>(labels_ * dimension_), alloc<float>(labels_)};
}

Classifier::Classifier(const Corpus &shape, int dimension, int maxBatch, std::mt19937 &rng)
    : length_(shape.length), labels_(shape.labels), vocabulary_(shape.vocabulary), dimension_(dimension), maxBatch_(maxBatch),
      w_(create()), g_(create()), v_(create())
{
    std::uniform_real_distribution<float> u(-0.3f, 0.3f);
    std::vector<float> h(vocabulary_ * dimension_);
    for (float &x : h) x = u(rng);
    check(cudaMemcpy(w_.embedding, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice));
    words_ = alloc<int16_t>(maxBatch * length_);
    label_ = alloc<uint8_t>(maxBatch);
    hidden_ = alloc<float>(maxBatch * dimension);
    prob_ = alloc<float>(maxBatch * labels_);
    loss_ = alloc<float>(1);
}

Classifier::~Classifier()
{
    for (const Weights &w : {w_, g_, v_})
        for (float *p : {w.embedding, w.linear, w.bias}) cudaFree(p);
    cudaFree(words_);
    cudaFree(label_);
    for (float *p : {hidden_, prob_, loss_}) cudaFree(p);
}

void Classifier::upload(const Corpus &c, int first, int count)
{
    if (count > maxBatch_) throw std::invalid_argument("batch too large");
    check(cudaMemcpy(words_, &c.words[first * length_], count * length_ * sizeof(int16_t), cudaMemcpyHostToDevice));
    check(cudaMemcpy(label_, &c.label[first], count, cudaMemcpyHostToDevice));
}

float Classifier::fit(const Corpus &c, int first, int count, float rate)
{
    upload(c, first, count);
    average<<<count, dimension_>>>(words_, w_.embedding, hidden_, length_);
    probabilities<<<(count + 31) / 32, 32>>>(hidden_, w_.linear, w_.bias, prob_, count, dimension_, labels_);
    check(cudaMemset(loss_, 0, sizeof(float)));
    lossAndDelta<<<(count + 31) / 32, 32>>>(prob_, label_, loss_, count, labels_);
    check(cudaMemset(g_.embedding, 0, vocabulary_ * dimension_ * sizeof(float)));
    embeddingGradient<<<count, dimension_>>>(words_, prob_, w_.linear, g_.embedding, length_, labels_);
    linearGradient<<<(labels_ * dimension_ + 63) / 64, 64>>>(hidden_, prob_, g_.linear, g_.bias, count, dimension_, labels_);

    momentum<<<(vocabulary_ * dimension_ + 127) / 128, 128>>>(w_.embedding, g_.embedding, v_.embedding, vocabulary_ * dimension_, rate);
    momentum<<<(labels_ * dimension_ + 127) / 128, 128>>>(w_.linear, g_.linear, v_.linear, labels_ * dimension_, rate);
    momentum<<<1, 128>>>(w_.bias, g_.bias, v_.bias, labels_, rate);
    float loss;
    check(cudaMemcpy(&loss, loss_, sizeof loss, cudaMemcpyDeviceToHost));
    return loss;
}

float Classifier::accuracy(const Corpus &c, int first, int count)
{
    upload(c, first, count);
    average<<<count, dimension_>>>(words_, w_.embedding, hidden_, length_);
    probabilities<<<(count + 31) / 32, 32>>>(hidden_, w_.linear, w_.bias, prob_, count, dimension_, labels_);
    std::vector<float> p(count * labels_);
    check(cudaMemcpy(p.data(), prob_, p.size() * sizeof(float), cudaMemcpyDeviceToHost));
    int right = 0;
    for (int i = 0; i < count; ++i) {
        int best = 0;
        for (int k = 1; k < labels_; ++k)
            if (p[i * labels_ + k] > p[i * labels_ + best]) best = k;
        right += best == c.label[first + i];
    }
    return (float)right / count;
}

} // namespace textcat
