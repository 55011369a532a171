// Bag-of-words topic classifier: mean of word embeddings, a linear layer, softmax. Adam; embeddings with a lazy Adam.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include <cuda_runtime.h>
#include "ddprun.h"

#define CU(x) do { cudaError_t e = (x); if (e != cudaSuccess) { printf("CUDA: %s at line %d\n", cudaGetErrorString(e), __LINE__); exit(1); } } while (0)

constexpr int kWords = 400, kDim = 12, kTopics = 5, kLength = 10, kBatch = 24, kDocs = 480;

struct Random {
    unsigned s;
    explicit Random(unsigned seed) : s(seed) {}
    unsigned next() { s = s * 1664525u + 1013904223u; return s >> 8; }
    float uniform() { return next() / 16777216.0f; }
};

__global__ void pool(const float *emb, const int *docs, float *h, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * kDim) return;
    int doc = t / kDim, d = t % kDim;
    float s = 0;
    for (int i = 0; i < kLength; ++i) s += emb[docs[doc * kLength + i] * kDim + d];
    h[t] = s / kLength;
}

__global__ void classify(const float *h, const float *w, const int *label, float *delta, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float z[kTopics], top = -1e30f, sum = 0;
    for (int c = 0; c < kTopics; ++c) {
        z[c] = w[c * (kDim + 1) + kDim];
        for (int d = 0; d < kDim; ++d) z[c] += w[c * (kDim + 1) + d] * h[i * kDim + d];
        top = fmaxf(top, z[c]);
    }
    for (int c = 0; c < kTopics; ++c) sum += expf(z[c] - top);
    for (int c = 0; c < kTopics; ++c)
        delta[i * kTopics + c] = (expf(z[c] - top) / sum - (c == label[i] ? 1.f : 0.f)) / n;
    loss[i] = logf(sum) + top - z[label[i]];
}

__global__ void gradWeights(const float *h, const float *delta, float *dw, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= kTopics * (kDim + 1)) return;
    int c = t / (kDim + 1), d = t % (kDim + 1);
    float g = 0;
    for (int i = 0; i < n; ++i) g += delta[i * kTopics + c] * (d < kDim ? h[i * kDim + d] : 1.f);
    dw[t] = g;
}

__global__ void gradEmbedding(const float *w, const float *delta, const int *docs, float *demb, int *touched, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= kWords * kDim) return;
    int word = t / kDim, d = t % kDim, hit = 0;
    float g = 0;
    for (int i = 0; i < n; ++i)
        for (int j = 0; j < kLength; ++j)
            if (docs[i * kLength + j] == word) {
                hit = 1;
                for (int c = 0; c < kTopics; ++c) g += delta[i * kTopics + c] * w[c * (kDim + 1) + d] / kLength;
            }
    demb[t] = g;
    if (d == 0) touched[word] = hit;
}

__global__ void adam(float *p, const float *g, float *m, float *v, float rate, float c1, float c2, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
    p[i] -= rate * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-6f);
}

// Rows without a word of this batch keep their value and their moments.
__global__ void lazyAdam(float *p, const float *g, float *m, float *v, const int *touched, float rate, float c1,
                         float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= kWords * kDim || !touched[i / kDim]) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
    p[i] -= rate * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-6f);
}

template <typename T> T *device(size_t n)
{
    T *p = nullptr;
    CU(cudaMalloc(&p, n * sizeof(T)));
    CU(cudaMemset(p, 0, n * sizeof(T)));
    return p;
}

class Classifier {
  public:
    Classifier()
    {
        emb = device<float>(nEmb); demb = device<float>(nEmb); memb = device<float>(nEmb); vemb = device<float>(nEmb);
        w = device<float>(nW); dw = device<float>(nW); mw = device<float>(nW); vw = device<float>(nW);
        touched = device<int>(kWords);
        docs = device<int>(kBatch * kLength); label = device<int>(kBatch);
        h = device<float>(kBatch * kDim); delta = device<float>(kBatch * kTopics); loss = device<float>(kBatch);
        Random r(77);
        std::vector<float> a(nEmb), b(nW);
        for (float &x : a) x = r.uniform() - 0.5f;
        for (float &x : b) x = 0.4f * (r.uniform() - 0.5f);
        CU(cudaMemcpy(emb, a.data(), nEmb * 4, cudaMemcpyHostToDevice));
        CU(cudaMemcpy(w, b.data(), nW * 4, cudaMemcpyHostToDevice));
        DDP_PARAMETER(emb, nEmb, DDP_FLOAT32);
        DDP_PARAMETER(w, nW, DDP_FLOAT32);
        DDP_STATE(memb, nEmb, DDP_FLOAT32);
        DDP_STATE(vemb, nEmb, DDP_FLOAT32);
        DDP_STATE(mw, nW, DDP_FLOAT32);
        DDP_STATE(vw, nW, DDP_FLOAT32);
        DDP_GRADIENT(demb, nEmb, DDP_FLOAT32);
        DDP_GRADIENT(dw, nW, DDP_FLOAT32);
    }

    float train(const int *hostDocs, const int *hostLabels, int n, int step)
    {
        CU(cudaMemcpy(docs, hostDocs, n * kLength * 4, cudaMemcpyHostToDevice));
        CU(cudaMemcpy(label, hostLabels, n * 4, cudaMemcpyHostToDevice));
        pool<<<(n * kDim + 63) / 64, 64>>>(emb, docs, h, n);
        classify<<<(n + 63) / 64, 64>>>(h, w, label, delta, loss, n);
        gradWeights<<<(nW + 63) / 64, 64>>>(h, delta, dw, n);
        gradEmbedding<<<(nEmb + 63) / 64, 64>>>(w, delta, docs, demb, touched, n);
        DDP_STEP(0);
        float c1 = 1 - powf(0.9f, step + 1), c2 = 1 - powf(0.99f, step + 1);
        adam<<<(nW + 63) / 64, 64>>>(w, dw, mw, vw, 0.03f, c1, c2, nW);
        lazyAdam<<<(nEmb + 63) / 64, 64>>>(emb, demb, memb, vemb, touched, 0.05f, c1, c2);
        std::vector<float> l(n);
        CU(cudaMemcpy(l.data(), loss, n * 4, cudaMemcpyDeviceToHost));
        float mean = 0;
        for (float x : l) mean += x / n;
        return mean;
    }

    void save(const char *name) const
    {
        std::vector<float> all(nEmb + nW);
        CU(cudaMemcpy(all.data(), emb, nEmb * 4, cudaMemcpyDeviceToHost));
        CU(cudaMemcpy(all.data() + nEmb, w, nW * 4, cudaMemcpyDeviceToHost));
        FILE *f = fopen(name, "wb");
        fwrite(all.data(), 4, all.size(), f);
        fclose(f);
    }

  private:
    static const int nEmb = kWords * kDim, nW = kTopics * (kDim + 1);
    float *emb, *demb, *memb, *vemb, *w, *dw, *mw, *vw, *h, *delta, *loss;
    int *touched, *docs, *label;
};

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    Random r(5);
    std::vector<int> docs(kDocs * kLength), labels(kDocs);
    for (int i = 0; i < kDocs; ++i) {
        labels[i] = r.next() % kTopics;
        for (int j = 0; j < kLength; ++j)
            docs[i * kLength + j] = r.uniform() < 0.6f ? (r.next() % (kWords / kTopics)) * kTopics + labels[i] : r.next() % kWords;
    }
    Classifier model;
    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        size_t at = (step * kBatch) % kDocs + first;
        float loss = model.train(&docs[at * kLength], &labels[at], (int)count, step);
        DDP_MEAN_AS("loss", &loss);
        if (step % 10 == 9 || step == 0)
            if (DDP_RANK() == 0) printf("%3d  %.4f\n", step + 1, loss);
    }
    if (argc > 1 && DDP_RANK() == 0) model.save(argv[1]);
    return 0;
}
