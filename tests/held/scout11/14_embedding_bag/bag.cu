// Bag-of-embeddings text classifier (fastText style). Documents differ in length: token list + offsets.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>

#define CUDA_OK(x)                                                            \
    if ((x) != cudaSuccess) {                                                 \
        fprintf(stderr, "cuda failure in line %d\n", __LINE__);               \
        exit(2);                                                              \
    }

static const int VOCAB = 400, DIM = 16, CLASSES = 5;

struct Corpus {
    std::vector<std::vector<int>> docs;
    std::vector<int> labels;
};

static unsigned lcg_state = 12345;
static unsigned lcg() { return (lcg_state = lcg_state * 1103515245u + 12345u) >> 16 & 0x7fff; }

static Corpus synthesize(int n)
{
    Corpus c;
    for (int i = 0; i < n; i++) {
        int y = lcg() % CLASSES, len = 3 + lcg() % 18;
        std::vector<int> d;
        for (int t = 0; t < len; t++)
            d.push_back(lcg() % 3 == 0 ? y * 40 + lcg() % 40 : lcg() % VOCAB);
        c.docs.push_back(d);
        c.labels.push_back(y);
    }
    return c;
}

__global__ void bag_forward(const int *tokens, const int *offsets, const float *emb, float *bag, int docs)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= docs * DIM) return;
    int d = t / DIM, k = t % DIM;
    float s = 0;
    for (int j = offsets[d]; j < offsets[d + 1]; j++) s += emb[tokens[j] * DIM + k];
    bag[t] = s / (offsets[d + 1] - offsets[d]);
}

__global__ void classify(const float *bag, const float *W, const float *b, const int *labels, float *dlogit, float *loss, int *hits, int docs)
{
    int d = blockIdx.x * blockDim.x + threadIdx.x;
    if (d >= docs) return;
    float z[CLASSES], m = -1e30f, sum = 0;
    int arg = 0;
    for (int c = 0; c < CLASSES; c++) {
        z[c] = b[c];
        for (int k = 0; k < DIM; k++) z[c] += bag[d * DIM + k] * W[c * DIM + k];
        if (z[c] > m) { m = z[c]; arg = c; }
    }
    for (int c = 0; c < CLASSES; c++) sum += expf(z[c] - m);
    for (int c = 0; c < CLASSES; c++) dlogit[d * CLASSES + c] = expf(z[c] - m) / sum - (c == labels[d]);
    atomicAdd(loss, m + logf(sum) - z[labels[d]]);
    if (arg == labels[d]) atomicAdd(hits, 1);
}

// sums over the documents
__global__ void bag_backward(const int *tokens, const int *offsets, const float *bag, const float *W, const float *dlogit, float *demb, float *dW,
                             float *db)
{
    int d = blockIdx.x, k = threadIdx.x;
    float g = 0;
    for (int c = 0; c < CLASSES; c++) {
        float dl = dlogit[d * CLASSES + c];
        g += dl * W[c * DIM + k];
        atomicAdd(&dW[c * DIM + k], dl * bag[d * DIM + k]);
        if (k == 0) atomicAdd(&db[c], dl);
    }
    g /= offsets[d + 1] - offsets[d];
    for (int j = offsets[d]; j < offsets[d + 1]; j++) atomicAdd(&demb[tokens[j] * DIM + k], g);
}

__global__ void adagrad(float *w, float *g, float *h, int n, float lr, float inv_batch)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = g[i] * inv_batch;
    h[i] += v * v;
    w[i] -= lr * v * rsqrtf(h[i] + 1e-7f);
    g[i] = 0;
}

struct Weights {
    float *emb, *W, *b;
};

static Weights alloc_weights(bool random)
{
    Weights w;
    int n[3] = {VOCAB * DIM, CLASSES * DIM, CLASSES};
    float **p[3] = {&w.emb, &w.W, &w.b};
    for (int i = 0; i < 3; i++) {
        std::vector<float> h(n[i], 0.f);
        if (random && i < 2)
            for (auto &x : h) x = (lcg() / 32768.f - 0.5f) * 0.4f;
        CUDA_OK(cudaMalloc(p[i], n[i] * sizeof(float)));
        CUDA_OK(cudaMemcpy(*p[i], h.data(), n[i] * sizeof(float), cudaMemcpyHostToDevice));
    }
    return w;
}

int main(int argc, char **argv)
{
    int batch = argc > 1 ? atoi(argv[1]) : 50;
    int epochs = argc > 2 ? atoi(argv[2]) : 5;
    Corpus train = synthesize(1520); // the last batch of an epoch is smaller
    Weights w = alloc_weights(true), g = alloc_weights(false), h = alloc_weights(false);

    int *d_tokens, *d_offsets, *d_labels, *d_hits;
    float *d_bag, *d_dlogit, *d_loss;
    CUDA_OK(cudaMalloc(&d_tokens, batch * 32 * sizeof(int)));
    CUDA_OK(cudaMalloc(&d_offsets, (batch + 1) * sizeof(int)));
    CUDA_OK(cudaMalloc(&d_labels, batch * sizeof(int)));
    CUDA_OK(cudaMalloc(&d_bag, batch * DIM * sizeof(float)));
    CUDA_OK(cudaMalloc(&d_dlogit, batch * CLASSES * sizeof(float)));
    CUDA_OK(cudaMalloc(&d_loss, sizeof(float)));
    CUDA_OK(cudaMalloc(&d_hits, sizeof(int)));

    std::vector<int> tokens, offsets;
    for (int e = 0; e < epochs; e++) {
        CUDA_OK(cudaMemset(d_loss, 0, sizeof(float)));
        CUDA_OK(cudaMemset(d_hits, 0, sizeof(int)));
        for (int i = 0; i < (int)train.docs.size(); i += batch) {
            int n = (int)train.docs.size() - i < batch ? (int)train.docs.size() - i : batch;
            tokens.clear();
            offsets.assign(1, 0);
            for (int d = i; d < i + n; d++) {
                tokens.insert(tokens.end(), train.docs[d].begin(), train.docs[d].end());
                offsets.push_back((int)tokens.size());
            }
            CUDA_OK(cudaMemcpy(d_tokens, tokens.data(), tokens.size() * sizeof(int), cudaMemcpyHostToDevice));
            CUDA_OK(cudaMemcpy(d_offsets, offsets.data(), offsets.size() * sizeof(int), cudaMemcpyHostToDevice));
            CUDA_OK(cudaMemcpy(d_labels, &train.labels[i], n * sizeof(int), cudaMemcpyHostToDevice));

            bag_forward<<<(n * DIM + 127) / 128, 128>>>(d_tokens, d_offsets, w.emb, d_bag, n);
            classify<<<(n + 31) / 32, 32>>>(d_bag, w.W, w.b, d_labels, d_dlogit, d_loss, d_hits, n);
            bag_backward<<<n, DIM>>>(d_tokens, d_offsets, d_bag, w.W, d_dlogit, g.emb, g.W, g.b);

            float inv = 1.0f / n;
            adagrad<<<(VOCAB * DIM + 127) / 128, 128>>>(w.emb, g.emb, h.emb, VOCAB * DIM, 0.1f, inv);
            adagrad<<<1, 128>>>(w.W, g.W, h.W, CLASSES * DIM, 0.1f, inv);
            adagrad<<<1, 128>>>(w.b, g.b, h.b, CLASSES, 0.1f, inv);
        }
        float loss;
        int hits;
        CUDA_OK(cudaMemcpy(&loss, d_loss, sizeof(float), cudaMemcpyDeviceToHost));
        CUDA_OK(cudaMemcpy(&hits, d_hits, sizeof(int), cudaMemcpyDeviceToHost));
        printf("epoch %d loss %.4f accuracy %.3f\n", e, loss / train.docs.size(), (double)hits / train.docs.size());
    }
    return 0;
}
