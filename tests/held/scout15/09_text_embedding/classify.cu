// Text classification by the average of word embeddings, as in small sentiment demos.
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

constexpr int kVocab = 150, kDim = 12, kLabels = 4, kWords = 9;
constexpr int kDocs = 540, kBatch = 36, kEpochs = 3;

struct CudaFree {
    void operator()(void *p) const { cudaFree(p); }
};
template <typename T> using DevicePtr = std::unique_ptr<T[], CudaFree>;

template <typename T> DevicePtr<T> deviceAlloc(size_t n) {
    T *p = nullptr;
    cudaMalloc(&p, n * sizeof(T));
    cudaMemset(p, 0, n * sizeof(T));
    return DevicePtr<T>(p);
}

__global__ void forwardBackward(const int *words, const int *labels, const float *emb, const float *cls, float *gEmb, float *gCls,
                                float *loss, int n) {
    int doc = blockIdx.x * blockDim.x + threadIdx.x;
    if (doc >= n) return;
    const int *w = words + doc * kWords;
    float avg[kDim], dAvg[kDim], prob[kLabels], sum = 0.f;
    for (int d = 0; d < kDim; ++d) {
        avg[d] = dAvg[d] = 0.f;
        for (int k = 0; k < kWords; ++k) avg[d] += emb[w[k] * kDim + d] / kWords;
    }
    for (int l = 0; l < kLabels; ++l) {
        float z = 0.f;
        for (int d = 0; d < kDim; ++d) z += cls[l * kDim + d] * avg[d];
        sum += prob[l] = expf(z);
    }
    for (int l = 0; l < kLabels; ++l) {
        float e = (prob[l] / sum - (labels[doc] == l ? 1.f : 0.f)) / n;
        for (int d = 0; d < kDim; ++d) {
            dAvg[d] += e * cls[l * kDim + d];
            atomicAdd(&gCls[l * kDim + d], e * avg[d]);
        }
    }
    for (int k = 0; k < kWords; ++k)
        for (int d = 0; d < kDim; ++d) atomicAdd(&gEmb[w[k] * kDim + d], dAvg[d] / kWords);
    loss[doc] = logf(sum / prob[labels[doc]]);
}

__global__ void adagrad(float *param, float *grad, float *cache, int n, float lr) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        cache[i] += grad[i] * grad[i];
        param[i] -= lr * grad[i] / (sqrtf(cache[i]) + 1e-5f);
    }
}

struct Embedding {
    int count;
    DevicePtr<float> value, grad, cache;

    Embedding(int count, std::mt19937 &rng) : count(count) {
        value = deviceAlloc<float>(count);
        grad = deviceAlloc<float>(count);
        cache = deviceAlloc<float>(count);
        std::vector<float> h(count);
        std::uniform_real_distribution<float> u(-0.5f, 0.5f);
        for (float &v : h) v = u(rng);
        cudaMemcpy(value.get(), h.data(), count * sizeof(float), cudaMemcpyHostToDevice);
    }
    void zeroGrad() { cudaMemset(grad.get(), 0, count * sizeof(float)); }
    void step(float lr) { adagrad<<<(count + 255) / 256, 256>>>(value.get(), grad.get(), cache.get(), count, lr); }
};

int main() {
    std::mt19937 rng(8);
    std::vector<int> words(kDocs * kWords), labels(kDocs), order(kDocs);
    for (int i = 0; i < kDocs; ++i) {
        labels[i] = rng() % kLabels;
        for (int k = 0; k < kWords; ++k)  // half of the words come from the topic's own part of the vocabulary
            words[i * kWords + k] = rng() % 2 ? labels[i] * 30 + rng() % 30 : rng() % kVocab;
    }
    std::iota(order.begin(), order.end(), 0);

    Embedding embedding(kVocab * kDim, rng), classifier(kLabels * kDim, rng);
    auto dWords = deviceAlloc<int>(kBatch * kWords);
    auto dLabels = deviceAlloc<int>(kBatch);
    auto dLoss = deviceAlloc<float>(kBatch);
    std::vector<int> batchWords(kBatch * kWords), batchLabels(kBatch);
    std::vector<float> loss(kBatch);

    for (int epoch = 0; epoch < kEpochs; ++epoch) {
        std::shuffle(order.begin(), order.end(), rng);
        float total = 0.f;
        for (int start = 0; start < kDocs; start += kBatch) {
            for (int i = 0; i < kBatch; ++i) {
                int doc = order[start + i];
                std::copy_n(&words[doc * kWords], kWords, &batchWords[i * kWords]);
                batchLabels[i] = labels[doc];
            }
            cudaMemcpy(dWords.get(), batchWords.data(), kBatch * kWords * sizeof(int), cudaMemcpyHostToDevice);
            cudaMemcpy(dLabels.get(), batchLabels.data(), kBatch * sizeof(int), cudaMemcpyHostToDevice);
            embedding.zeroGrad();
            classifier.zeroGrad();
            forwardBackward<<<(kBatch + 31) / 32, 32>>>(dWords.get(), dLabels.get(), embedding.value.get(), classifier.value.get(),
                                                        embedding.grad.get(), classifier.grad.get(), dLoss.get(), kBatch);
            embedding.step(0.05f);
            classifier.step(0.05f);
            cudaMemcpy(loss.data(), dLoss.get(), kBatch * sizeof(float), cudaMemcpyDeviceToHost);
            total += std::accumulate(loss.begin(), loss.end(), 0.f) / kBatch;
        }
        printf("Epoch %d/%d - loss: %.4f\n", epoch + 1, kEpochs, total * kBatch / kDocs);
    }
}
