// Bag-of-embeddings text classifier (fastText style). Documents have different lengths, so batches are in CSR form.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#define CK(e) if ((e) != cudaSuccess) { fprintf(stderr, "error at line %d\n", __LINE__); exit(2); }

constexpr int kVocab = 600, kDim = 16, kClasses = 4, kBatch = 64, kMaxLen = 24, kDocs = 1024;

struct Model { float *emb, *W; };   // used for weights, gradients
struct Doc { std::vector<int> words; int label; };

__global__ void bag_forward(Model m, const int *words, const int *offsets, const int *labels, float *hid, float *dlogit,
                            float *stats, int batch)
{
    int d = blockIdx.x * blockDim.x + threadIdx.x;
    if (d >= batch) return;
    int from = offsets[d], to = offsets[d + 1];
    float *h = hid + d * kDim;
    for (int c = 0; c < kDim; c++) {
        float s = 0;
        for (int k = from; k < to; k++) s += m.emb[words[k] * kDim + c];
        h[c] = s / (to - from);
    }
    float z[kClasses], mx = -1e30f, sum = 0;
    for (int j = 0; j < kClasses; j++) {
        z[j] = 0;
        for (int c = 0; c < kDim; c++) z[j] += m.W[j * kDim + c] * h[c];
        mx = fmaxf(mx, z[j]);
    }
    for (int j = 0; j < kClasses; j++) sum += z[j] = expf(z[j] - mx);
    int best = 0;
    for (int j = 0; j < kClasses; j++) {
        if (z[j] > z[best]) best = j;
        dlogit[d * kClasses + j] = z[j] / sum - (j == labels[d]);
    }
    atomicAdd(&stats[0], -logf(z[labels[d]] / sum + 1e-9f));
    if (best == labels[d]) atomicAdd(&stats[1], 1.0f);
}

__global__ void bag_backward(Model m, Model g, const int *words, const int *offsets, const float *hid, const float *dlogit,
                             int batch, float scale)
{
    int d = blockIdx.x, c = threadIdx.x;
    if (d >= batch) return;
    float dh = 0;
    for (int j = 0; j < kClasses; j++) {
        float dz = dlogit[d * kClasses + j] * scale;
        dh += dz * m.W[j * kDim + c];
        atomicAdd(&g.W[j * kDim + c], dz * hid[d * kDim + c]);
    }
    int from = offsets[d], to = offsets[d + 1];
    for (int k = from; k < to; k++) atomicAdd(&g.emb[words[k] * kDim + c], dh / (to - from));
}

__global__ void sgd(float *w, float *g, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= lr * g[i];
}

int main()
{
    std::mt19937 rng(77);
    std::vector<Doc> docs(kDocs);
    for (auto &d : docs) {
        d.label = rng() % kClasses;
        d.words.resize(6 + rng() % (kMaxLen - 6));
        for (auto &w : d.words)  // a third of the words belong to the class
            w = rng() % 3 == 0 ? d.label * 40 + rng() % 40 : rng() % kVocab;
    }

    Model w, g;
    CK(cudaMalloc(&w.emb, kVocab * kDim * sizeof(float)));
    CK(cudaMalloc(&w.W, kClasses * kDim * sizeof(float)));
    CK(cudaMalloc(&g.emb, kVocab * kDim * sizeof(float)));
    CK(cudaMalloc(&g.W, kClasses * kDim * sizeof(float)));
    std::vector<float> init(kVocab * kDim);
    std::uniform_real_distribution<float> u(-0.5f, 0.5f);
    for (auto &x : init) x = u(rng);
    CK(cudaMemcpy(w.emb, init.data(), init.size() * sizeof(float), cudaMemcpyHostToDevice));
    CK(cudaMemcpy(w.W, init.data(), kClasses * kDim * sizeof(float), cudaMemcpyHostToDevice));

    cudaStream_t s;
    CK(cudaStreamCreate(&s));
    int *h_words, *h_off, *h_lab, *d_words, *d_off, *d_lab;
    CK(cudaHostAlloc((void **)&h_words, kBatch * kMaxLen * sizeof(int), cudaHostAllocDefault));
    CK(cudaHostAlloc((void **)&h_off, (kBatch + 1) * sizeof(int), cudaHostAllocDefault));
    CK(cudaHostAlloc((void **)&h_lab, kBatch * sizeof(int), cudaHostAllocDefault));
    CK(cudaMalloc(&d_words, kBatch * kMaxLen * sizeof(int)));
    CK(cudaMalloc(&d_off, (kBatch + 1) * sizeof(int)));
    CK(cudaMalloc(&d_lab, kBatch * sizeof(int)));
    float *hid, *dlogit, *stats;
    CK(cudaMalloc(&hid, kBatch * kDim * sizeof(float)));
    CK(cudaMalloc(&dlogit, kBatch * kClasses * sizeof(float)));
    CK(cudaMalloc(&stats, 2 * sizeof(float)));

    const int epochs = 8;
    const int steps = epochs * (kDocs / kBatch);
    int step = 0;
    for (int e = 0; e < epochs; e++) {
        std::shuffle(docs.begin(), docs.end(), rng);
        CK(cudaMemsetAsync(stats, 0, 2 * sizeof(float), s));
        for (size_t first = 0; first < docs.size(); first += kBatch, step++) {
            int n = (int)std::min<size_t>(kBatch, docs.size() - first), nnz = 0;
            CK(cudaStreamSynchronize(s));  // the pinned arrays are free again
            for (int i = 0; i < n; i++) {
                const Doc &d = docs[first + i];
                h_off[i] = nnz;
                h_lab[i] = d.label;
                for (int x : d.words) h_words[nnz++] = x;
            }
            h_off[n] = nnz;
            CK(cudaMemcpyAsync(d_words, h_words, nnz * sizeof(int), cudaMemcpyHostToDevice, s));
            CK(cudaMemcpyAsync(d_off, h_off, (n + 1) * sizeof(int), cudaMemcpyHostToDevice, s));
            CK(cudaMemcpyAsync(d_lab, h_lab, n * sizeof(int), cudaMemcpyHostToDevice, s));
            CK(cudaMemsetAsync(g.emb, 0, kVocab * kDim * sizeof(float), s));
            CK(cudaMemsetAsync(g.W, 0, kClasses * kDim * sizeof(float), s));
            bag_forward<<<(n + 31) / 32, 32, 0, s>>>(w, d_words, d_off, d_lab, hid, dlogit, stats, n);
            bag_backward<<<n, kDim, 0, s>>>(w, g, d_words, d_off, hid, dlogit, n, 1.0f / n);
            float lr = 4.0f * (1.0f - 0.9f * step / steps);
            sgd<<<(kVocab * kDim + 255) / 256, 256, 0, s>>>(w.emb, g.emb, lr * 4, kVocab * kDim);
            sgd<<<1, kClasses * kDim, 0, s>>>(w.W, g.W, lr * 0.25f, kClasses * kDim);
        }
        float st[2];
        CK(cudaMemcpyAsync(st, stats, sizeof st, cudaMemcpyDeviceToHost, s));
        CK(cudaStreamSynchronize(s));
        printf("epoch %d loss %.4f accuracy %.3f\n", e + 1, st[0] / kDocs, st[1] / kDocs);
    }
    CK(cudaFreeHost(h_words));
    CK(cudaFreeHost(h_off));
    CK(cudaFreeHost(h_lab));
    return 0;
}
