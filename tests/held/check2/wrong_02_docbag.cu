// Bag-of-words document scorer: embedding table + linear head, binary labels.
// The table has its own optimizer: Adagrad that visits only the rows which the batch has used ("lazy" rows),
// with decoupled decay on those rows, as sparse embedding optimizers do.
#include <cuda_runtime.h>
#include <ddprun.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kVocab = 96, kDim = 8, kWords = 5, kBatch = 16, kDocs = 160, kSteps = 16;

void ok(cudaError_t e, const char *what)
{
    if (e != cudaSuccess) {
        std::fprintf(stderr, "docbag: %s: %s\n", what, cudaGetErrorString(e));
        std::exit(1);
    }
}

template <class T> T *device(size_t n)
{
    void *p = nullptr;
    ok(cudaMalloc(&p, n * sizeof(T)), "cudaMalloc");
    ok(cudaMemset(p, 0, n * sizeof(T)), "cudaMemset");
    return static_cast<T *>(p);
}

template <class T> void upload(T *to, const T *from, size_t n)
{ ok(cudaMemcpy(to, from, n * sizeof(T), cudaMemcpyHostToDevice), "upload"); }

struct Rng {
    uint64_t s;
    uint32_t next() { return uint32_t((s = s * 6364136223846793005ull + 1442695040888963407ull) >> 33); }
    float unit() { return float(next() & 0xffffff) / float(0x1000000); }
};

struct Table { float *value, *grad, *accum; int *used; };

__global__ void mark_rows(int *used, const int *words, int n)
{
    if (threadIdx.x < n)
        used[words[threadIdx.x]] = 1;
}

__global__ void score(const int *words, const float *label, const float *table, const float *head, float *delta,
                      float *loss, int docs)
{
    int d = threadIdx.x;
    if (d >= docs)
        return;
    float z = head[kDim];
    for (int k = 0; k < kWords; ++k)
        for (int j = 0; j < kDim; ++j)
            z += table[words[d * kWords + k] * kDim + j] * head[j];
    float p = 1.0f / (1.0f + expf(-z));
    delta[d] = (p - label[d]) / docs;
    loss[d] = label[d] > 0.5f ? log1pf(expf(-z)) : log1pf(expf(z));
}

// One thread a row of the table: it looks for its word in all documents.
__global__ void table_backward(float *grad, const int *words, const float *delta, const float *head, int docs)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= kVocab)
        return;
    float s = 0.0f;
    for (int i = 0; i < docs * kWords; ++i)
        if (words[i] == row)
            s += delta[i / kWords];
    for (int j = 0; j < kDim; ++j)
        grad[row * kDim + j] = s * head[j];
}

__global__ void head_backward(float *grad, const int *words, const float *delta, const float *table, int docs)
{
    int j = threadIdx.x;
    float s = 0.0f;
    for (int i = 0; i < docs * kWords; ++i)
        s += j < kDim ? delta[i / kWords] * table[words[i] * kDim + j] : delta[i / kWords] / kWords;
    grad[j] = s;
}

__global__ void adagrad_rows(float *value, float *accum, const float *grad, const int *used, float rate, float decay)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= kVocab * kDim || !used[i / kDim])
        return;
    accum[i] += grad[i] * grad[i];
    value[i] -= rate * (grad[i] / (sqrtf(accum[i]) + 1e-4f) + decay * value[i]);
}

__global__ void sgd(float *w, const float *g, float rate) { w[threadIdx.x] -= rate * g[threadIdx.x]; }

int main()
{
    Rng rng{77};
    std::vector<int> words(kDocs * kWords);
    std::vector<float> label(kDocs), init(kVocab * kDim), head0(kDim + 1);
    for (int d = 0; d < kDocs; ++d) {
        int low = 0;
        for (int k = 0; k < kWords; ++k) {
            words[d * kWords + k] = int(rng.next() % kVocab);
            low += words[d * kWords + k] < kVocab / 2;
        }
        label[d] = low > kWords / 2 ? 1.0f : 0.0f;
    }
    for (float &v : init) v = 0.2f * (rng.unit() - 0.5f);
    for (float &v : head0) v = rng.unit() - 0.5f;

    Table t{device<float>(kVocab * kDim), device<float>(kVocab * kDim), device<float>(kVocab * kDim), device<int>(kVocab)};
    float *head = device<float>(kDim + 1), *dhead = device<float>(kDim + 1);
    float *y = device<float>(kBatch), *delta = device<float>(kBatch), *loss = device<float>(kBatch);
    int *ids = device<int>(kBatch * kWords);
    upload(t.value, init.data(), init.size());
    upload(head, head0.data(), head0.size());
    DDP_PARAMETER(t.value, kVocab * kDim, DDP_TYPE_OF(t.value));
    DDP_PARAMETER(head, kDim + 1, DDP_TYPE_OF(head));
    DDP_GRADIENT(t.grad, kVocab * kDim, DDP_TYPE_OF(t.grad));
    DDP_GRADIENT(dhead, kDim + 1, DDP_TYPE_OF(dhead));

    for (int step = 0; step < kSteps; ++step) {
        size_t first, docs;
        DDP_SHARD(kBatch, &first, &docs);
        size_t from = size_t(step * kBatch) % kDocs + first;
        upload(ids, &words[from * kWords], docs * kWords);
        upload(y, &label[from], docs);
        ok(cudaMemset(t.used, 0, kVocab * sizeof(int)), "cudaMemset");
        mark_rows<<<1, kBatch * kWords>>>(t.used, ids, int(docs) * kWords);
        score<<<1, kBatch>>>(ids, y, t.value, head, delta, loss, int(docs));
        table_backward<<<(kVocab + 31) / 32, 32>>>(t.grad, ids, delta, head, int(docs));
        head_backward<<<1, kDim + 1>>>(dhead, ids, delta, t.value, int(docs));
        DDP_STEP(0);
        adagrad_rows<<<(kVocab * kDim + 63) / 64, 64>>>(t.value, t.accum, t.grad, t.used, 0.15f, 0.01f);
        sgd<<<1, kDim + 1>>>(head, dhead, 0.3f);

        std::vector<float> l(docs);
        ok(cudaMemcpy(l.data(), loss, docs * sizeof(float), cudaMemcpyDeviceToHost), "loss");
        double mean = 0;
        for (float v : l) mean += v / double(docs);
        DDP_MEAN_AS("loss", &mean);
        if (DDP_RANK() == 0)
            std::printf("%2d %.4f\n", step, mean);
    }
    return 0;
}
