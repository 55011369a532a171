// Bag-of-words sentiment classifier: mean of word vectors, logistic output. Adagrad on the word table.
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

namespace {

const int kVocab = 300, kDim = 10, kLen = 6, kBatch = 32, kDocs = 640;

void check(cudaError_t e, const char *what)
{
    if (e != cudaSuccess) { std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e)); std::exit(1); }
}

class Random {
  public:
    explicit Random(uint32_t s) : state_(s) {}
    uint32_t bits() { state_ = state_ * 1664525u + 1013904223u; return state_ >> 7; }
    float unit() { return (bits() & 0xffffff) / 16777216.0f; }
  private:
    uint32_t state_;
};

template <class T> struct Buffer {
    T *p;
    size_t n;
    explicit Buffer(size_t count) : p(nullptr), n(count)
    {
        check(cudaMalloc(&p, n * sizeof(T)), "malloc");
        check(cudaMemset(p, 0, n * sizeof(T)), "memset");
    }
    ~Buffer() { cudaFree(p); }
    void put(const std::vector<T> &v) { check(cudaMemcpy(p, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice), "put"); }
    std::vector<T> get(size_t count) const
    {
        std::vector<T> v(count);
        check(cudaMemcpy(v.data(), p, count * sizeof(T), cudaMemcpyDeviceToHost), "get");
        return v;
    }
};

__global__ void pool(const int *tokens, const float *table, float *bag, int docs)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= docs * kDim) return;
    int d = i / kDim, c = i % kDim;
    float a = 0;
    for (int t = 0; t < kLen; ++t) a += table[tokens[d * kLen + t] * kDim + c];
    bag[i] = a / kLen;
}

__global__ void score(const float *bag, const float *head, const float *label, float *err, float *loss, int docs)
{
    int d = blockIdx.x * blockDim.x + threadIdx.x;
    if (d >= docs) return;
    float z = head[kDim];
    for (int c = 0; c < kDim; ++c) z += head[c] * bag[d * kDim + c];
    float q = 1.0f / (1.0f + expf(-z));
    err[d] = (q - label[d]) / docs;
    loss[d] = -logf(1e-7f + (label[d] > 0.5f ? q : 1.0f - q));
}

__global__ void head_grad(const float *bag, const float *err, float *dhead, int docs)
{
    int c = threadIdx.x;
    if (c > kDim) return;
    float a = 0;
    for (int d = 0; d < docs; ++d) a += err[d] * (c == kDim ? 1.0f : bag[d * kDim + c]);
    dhead[c] = a;
}

__global__ void table_grad(const int *tokens, const float *err, const float *head, float *dtable, int *touched, int docs)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= kVocab) return;
    float a = 0;
    int hits = 0;
    for (int k = 0; k < docs * kLen; ++k)
        if (tokens[k] == row) { a += err[k / kLen] / kLen; ++hits; }
    for (int c = 0; c < kDim; ++c) dtable[row * kDim + c] = a * head[c];
    touched[row] = hits > 0;
}

__global__ void adagrad_rows(float *table, const float *dtable, float *acc, const int *touched, float rate)
{
    int row = blockIdx.x;
    if (!touched[row]) return;
    int k = row * kDim + threadIdx.x;
    float g = dtable[k] + 1e-4f * table[k];
    acc[k] += g * g;
    table[k] -= rate * g / (sqrtf(acc[k]) + 1e-3f);
}

__global__ void plain(float *w, const float *g, float rate) { w[threadIdx.x] -= rate * g[threadIdx.x]; }

} // namespace

int main(int argc, char **argv)
{
    Random rng(99);
    std::vector<int> tokens(kDocs * kLen);
    std::vector<float> label(kDocs), table(kVocab * kDim), head(kDim + 1), mood(kVocab);
    for (auto &m : mood) m = rng.unit() - 0.5f;
    for (int d = 0; d < kDocs; ++d) {
        float s = 0;
        for (int t = 0; t < kLen; ++t) {
            float u = rng.unit();
            int w = (int)(u * u * kVocab);
            tokens[d * kLen + t] = w;
            s += mood[w];
        }
        label[d] = s > 0;
    }
    for (auto &v : table) v = (rng.unit() - 0.5f) * 0.4f;
    for (auto &v : head) v = (rng.unit() - 0.5f) * 1.0f;

    Buffer<int> dtok(tokens.size()), dtouched(kVocab);
    Buffer<float> dlab(kDocs), w(table.size()), dw(table.size()), acc(table.size()), h(kDim + 1), dh(kDim + 1);
    Buffer<float> bag(kBatch * kDim), err(kBatch), loss(kBatch);
    dtok.put(tokens); dlab.put(label); w.put(table); h.put(head);

    DDP_PARAMETER(w.p, w.n, DDP_FLOAT32);
    DDP_PARAMETER(h.p, h.n, DDP_FLOAT32);
    DDP_STATE(acc.p, acc.n, DDP_FLOAT32);
    DDP_GRADIENT(dw.p, dw.n, DDP_FLOAT32);
    DDP_GRADIENT(dh.p, dh.n, DDP_FLOAT32);

    for (int step = 0; step < 60; ++step) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        size_t at = (size_t)step * kBatch % kDocs + first;
        const int *tk = dtok.p + at * kLen;
        const int docs = static_cast<int>(count);
        pool<<<(docs * kDim + 63) / 64, 64>>>(tk, w.p, bag.p, docs);
        score<<<1, kBatch>>>(bag.p, h.p, dlab.p + at, err.p, loss.p, docs);
        head_grad<<<1, 32>>>(bag.p, err.p, dh.p, docs);
        table_grad<<<(kVocab + 63) / 64, 64>>>(tk, err.p, h.p, dw.p, dtouched.p, docs);
        DDP_STEP(0);
        adagrad_rows<<<kVocab, kDim>>>(w.p, dw.p, acc.p, dtouched.p, 0.15f);
        plain<<<1, kDim + 1>>>(h.p, dh.p, 0.5f);
        if (step % 20 == 0 || step == 59) {
            float mean = 0;
            for (float l : loss.get(count)) mean += l / count;
            DDP_MEAN_AS("loss", &mean);
            if (DDP_RANK() == 0) std::printf("step %2d  loss %.4f\n", step, mean);
        }
    }
    std::vector<float> a = w.get(w.n), b = h.get(h.n);
    if (argc > 1 && DDP_RANK() == 0) {
        std::FILE *f = std::fopen(argv[1], "wb");
        std::fwrite(a.data(), 4, a.size(), f);
        std::fwrite(b.data(), 4, b.size(), f);
        std::fclose(f);
    }
    return 0;
}
