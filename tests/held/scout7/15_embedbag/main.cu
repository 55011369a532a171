// Bag-of-words text classification (fastText style): mean of word embeddings, then a linear classifier.
// Documents have different lengths: word ids are packed, offsets[i]..offsets[i+1] are the words of document i.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

constexpr int kVocab = 500, kDim = 16, kClasses = 4, kBatchSize = 64, kMaxLen = 24, kDocs = 1920;

struct Document {
    std::vector<int> words;
    int label;
};

struct HostBatch { // pinned
    int *words;
    int *offsets;
    int *labels;
};

struct DeviceBatch {
    int *words, *offsets, *labels;
};

__global__ void bagForward(const int *words, const int *offsets, const float *E, float *bag)
{
    int doc = blockIdx.x, d = threadIdx.x;
    float s = 0;
    for (int i = offsets[doc]; i < offsets[doc + 1]; i++) s += E[words[i] * kDim + d];
    bag[doc * kDim + d] = s / (offsets[doc + 1] - offsets[doc]);
}

__global__ void classify(const float *bag, const float *W, const int *labels, float *dlogits, float *loss)
{
    int doc = threadIdx.x;
    float z[kClasses], m = -1e30f, sum = 0;
    for (int c = 0; c < kClasses; c++) {
        z[c] = W[c * (kDim + 1) + kDim];
        for (int d = 0; d < kDim; d++) z[c] += W[c * (kDim + 1) + d] * bag[doc * kDim + d];
        m = fmaxf(m, z[c]);
    }
    for (int c = 0; c < kClasses; c++) sum += expf(z[c] - m);
    for (int c = 0; c < kClasses; c++) dlogits[doc * kClasses + c] = (expf(z[c] - m) / sum - (c == labels[doc])) / kBatchSize;
    atomicAdd(loss, (logf(sum) + m - z[labels[doc]]) / kBatchSize);
}

__global__ void bagBackward(const int *words, const int *offsets, const float *W, const float *bag, const float *dlogits, float *gE, float *gW)
{
    int doc = blockIdx.x, d = threadIdx.x; // d == kDim: the bias
    float db = 0;
    for (int c = 0; c < kClasses; c++) {
        float dl = dlogits[doc * kClasses + c];
        atomicAdd(&gW[c * (kDim + 1) + d], dl * (d < kDim ? bag[doc * kDim + d] : 1.f));
        db += dl * W[c * (kDim + 1) + d];
    }
    if (d == kDim) return;
    int n = offsets[doc + 1] - offsets[doc];
    for (int i = offsets[doc]; i < offsets[doc + 1]; i++) atomicAdd(&gE[words[i] * kDim + d], db / n);
}

__global__ void adagradStep(float *w, float *g, float *h, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    h[i] += g[i] * g[i];
    w[i] -= lr * g[i] * rsqrtf(h[i] + 1e-10f);
}

int main()
{
    std::mt19937 gen(314);
    std::vector<Document> docs(kDocs);
    for (auto &d : docs) {
        d.label = gen() % kClasses;
        d.words.resize(5 + gen() % (kMaxLen - 5));
        for (auto &w : d.words) w = gen() % 3 ? gen() % kVocab : (int)(gen() % (kVocab / kClasses)) * kClasses + d.label;
    }

    cudaStream_t stream;
    cudaStreamCreate(&stream);
    HostBatch hb;
    cudaMallocHost(&hb.words, kBatchSize * kMaxLen * sizeof(int));
    cudaMallocHost(&hb.offsets, (kBatchSize + 1) * sizeof(int));
    cudaMallocHost(&hb.labels, kBatchSize * sizeof(int));
    DeviceBatch db;
    cudaMalloc(&db.words, kBatchSize * kMaxLen * sizeof(int));
    cudaMalloc(&db.offsets, (kBatchSize + 1) * sizeof(int));
    cudaMalloc(&db.labels, kBatchSize * sizeof(int));

    const int nE = kVocab * kDim, nW = kClasses * (kDim + 1);
    float *E, *W, *gE, *gW, *hE, *hW, *bag, *dlogits, *loss, *hostLoss;
    cudaMalloc(&E, nE * sizeof(float));
    cudaMalloc(&W, nW * sizeof(float));
    cudaMalloc(&gE, nE * sizeof(float));
    cudaMalloc(&gW, nW * sizeof(float));
    cudaMalloc(&hE, nE * sizeof(float));
    cudaMalloc(&hW, nW * sizeof(float));
    cudaMalloc(&bag, kBatchSize * kDim * sizeof(float));
    cudaMalloc(&dlogits, kBatchSize * kClasses * sizeof(float));
    cudaMalloc(&loss, sizeof(float));
    cudaMallocHost(&hostLoss, sizeof(float));
    cudaMemset(W, 0, nW * sizeof(float));
    cudaMemset(hE, 0, nE * sizeof(float));
    cudaMemset(hW, 0, nW * sizeof(float));
    {
        std::uniform_real_distribution<float> u(-1.f / kDim, 1.f / kDim);
        std::vector<float> init(nE);
        for (auto &x : init) x = u(gen);
        cudaMemcpy(E, init.data(), nE * sizeof(float), cudaMemcpyHostToDevice);
    }

    for (int epoch = 0; epoch < 4; epoch++) {
        std::shuffle(docs.begin(), docs.end(), gen);
        double epochLoss = 0;
        int steps = 0;
        for (int first = 0; first + kBatchSize <= kDocs; first += kBatchSize, steps++) {
            int nWords = 0;
            for (int i = 0; i < kBatchSize; i++) {
                const Document &d = docs[first + i];
                hb.offsets[i] = nWords;
                hb.labels[i] = d.label;
                memcpy(hb.words + nWords, d.words.data(), d.words.size() * sizeof(int));
                nWords += (int)d.words.size();
            }
            hb.offsets[kBatchSize] = nWords;
            cudaMemcpyAsync(db.words, hb.words, nWords * sizeof(int), cudaMemcpyHostToDevice, stream);
            cudaMemcpyAsync(db.offsets, hb.offsets, (kBatchSize + 1) * sizeof(int), cudaMemcpyHostToDevice, stream);
            cudaMemcpyAsync(db.labels, hb.labels, kBatchSize * sizeof(int), cudaMemcpyHostToDevice, stream);
            cudaMemsetAsync(loss, 0, sizeof(float), stream);
            cudaMemsetAsync(gE, 0, nE * sizeof(float), stream);
            cudaMemsetAsync(gW, 0, nW * sizeof(float), stream);
            bagForward<<<kBatchSize, kDim, 0, stream>>>(db.words, db.offsets, E, bag);
            classify<<<1, kBatchSize, 0, stream>>>(bag, W, db.labels, dlogits, loss);
            bagBackward<<<kBatchSize, kDim + 1, 0, stream>>>(db.words, db.offsets, W, bag, dlogits, gE, gW);
            adagradStep<<<(nE + 255) / 256, 256, 0, stream>>>(E, gE, hE, 0.1f, nE);
            adagradStep<<<(nW + 255) / 256, 256, 0, stream>>>(W, gW, hW, 0.1f, nW);
            cudaMemcpyAsync(hostLoss, loss, sizeof(float), cudaMemcpyDeviceToHost, stream);
            cudaStreamSynchronize(stream);
            epochLoss += *hostLoss;
        }
        printf("epoch %d: loss %.4f\n", epoch + 1, epochLoss / steps);
    }
    cudaStreamDestroy(stream);
    return 0;
}
