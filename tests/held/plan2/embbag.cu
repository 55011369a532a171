// Text classifier: embedding bag (mean of a document's token vectors), linear layer, Adagrad.
// The learning rate is halved when the loss has not improved for a while.
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

constexpr int VOCAB = 40, DIM = 6, CLASSES = 4, TOKENS = 7, DOCS = 320, BATCH = 16, STEPS = 100;

#define RUN(call) if (cudaError_t e = (call)) { std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e)); std::exit(1); }

__global__ void bag(const int *tokens, const float *table, float *mean)
{
    int d = blockIdx.x, k = threadIdx.x;
    float s = 0;
    for (int t = 0; t < TOKENS; ++t)
        s += table[tokens[d * TOKENS + t] * DIM + k];
    mean[d * DIM + k] = s / TOKENS;
}

__global__ void head(const float *mean, const float *w, const int *label, float *dlogit, float *dmean, float *loss)
{
    int d = threadIdx.x;
    float e[CLASSES], sum = 0;
    for (int c = 0; c < CLASSES; ++c) {
        e[c] = 0;
        for (int k = 0; k < DIM; ++k)
            e[c] += w[c * DIM + k] * mean[d * DIM + k];
        sum += e[c] = expf(e[c]);
    }
    atomicAdd(loss, -logf(e[label[d]] / sum) / BATCH);
    for (int c = 0; c < CLASSES; ++c)
        dlogit[d * CLASSES + c] = (e[c] / sum - (c == label[d])) / BATCH;
    for (int k = 0; k < DIM; ++k) {
        float g = 0;
        for (int c = 0; c < CLASSES; ++c)
            g += dlogit[d * CLASSES + c] * w[c * DIM + k];
        dmean[d * DIM + k] = g;
    }
}

__global__ void head_gradient(const float *mean, const float *dlogit, float *gw)
{
    int c = blockIdx.x, k = threadIdx.x;
    float s = 0;
    for (int d = 0; d < BATCH; ++d)
        s += dlogit[d * CLASSES + c] * mean[d * DIM + k];
    gw[c * DIM + k] = s;
}

__global__ void bag_gradient(const int *tokens, const float *dmean, float *gtable)
{
    int d = blockIdx.x, k = threadIdx.x;
    for (int t = 0; t < TOKENS; ++t)
        atomicAdd(&gtable[tokens[d * TOKENS + t] * DIM + k], dmean[d * DIM + k] / TOKENS);
}

__global__ void adagrad(float *w, const float *g, float *h, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && g[i] != 0) {
        h[i] += g[i] * g[i];
        w[i] -= lr * g[i] / (sqrtf(h[i]) + 1e-3f);
    }
}

__global__ void add(float *sum, const float *g, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        sum[i] += g[i];
}

__global__ void divide(float *g, const float *sum, int r, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        g[i] = sum[i] / r;
}

static unsigned long long seed = 1;
static unsigned next() { return unsigned((seed = seed * 6364136223846793005ull + 1442695040888963407ull) >> 33); }

template <class T> T *on_device(const std::vector<T> &h)
{
    T *p;
    RUN(cudaMalloc(&p, h.size() * sizeof(T)));
    RUN(cudaMemcpy(p, h.data(), h.size() * sizeof(T), cudaMemcpyHostToDevice));
    return p;
}

int main(int argc, char **argv)
{
    const char *save = nullptr;
    int oracle = 0;
    for (int i = 1; i + 1 < argc; ++i) {
        if (!std::strcmp(argv[i], "--save"))
            save = argv[++i];
        else if (!std::strcmp(argv[i], "--oracle"))
            oracle = std::atoi(argv[++i]);
    }
    std::vector<int> docs(DOCS * TOKENS), labels(DOCS);
    for (int d = 0; d < DOCS; ++d) {
        labels[d] = next() % CLASSES;
        for (int t = 0; t < TOKENS; ++t)       // half of the words are typical of the class
            docs[d * TOKENS + t] = next() % 2 ? labels[d] * (VOCAB / CLASSES) + next() % (VOCAB / CLASSES) : next() % VOCAB;
    }
    std::vector<float> itable(VOCAB * DIM), iw(CLASSES * DIM);
    for (float &x : itable) x = (int(next() % 2001) - 1000) / 2000.0f;
    for (float &x : iw) x = (int(next() % 2001) - 1000) / 2000.0f;

    const int NT = VOCAB * DIM, NW = CLASSES * DIM;
    float *table = on_device(itable), *w = on_device(iw);
    float *ht = on_device(std::vector<float>(NT)), *hw = on_device(std::vector<float>(NW));
    float *gt = on_device(std::vector<float>(NT)), *gw = on_device(std::vector<float>(NW));
    float *mean = on_device(std::vector<float>(BATCH * DIM)), *dmean = on_device(std::vector<float>(BATCH * DIM));
    float *dlogit = on_device(std::vector<float>(BATCH * CLASSES)), *dloss = on_device(std::vector<float>(1));
    int *all_docs = on_device(docs), *all_labels = on_device(labels);
    float *st = nullptr, *sw = nullptr;
    if (oracle) {
        st = on_device(std::vector<float>(NT));
        sw = on_device(std::vector<float>(NW));
    }

    float lr = 0.1f, smooth = -1, best = 1e9f, group_loss = 0;
    int bad = 0, waiting = 0;
    for (int step = 0; step < STEPS; ++step) {
        const int first = step * BATCH % DOCS;
        const int *tokens = all_docs + first * TOKENS, *label = all_labels + first;
        RUN(cudaMemset(dloss, 0, sizeof(float)));
        RUN(cudaMemset(gt, 0, NT * sizeof(float)));
        bag<<<BATCH, DIM>>>(tokens, table, mean);
        head<<<1, BATCH>>>(mean, w, label, dlogit, dmean, dloss);
        head_gradient<<<CLASSES, DIM>>>(mean, dlogit, gw);
        bag_gradient<<<BATCH, DIM>>>(tokens, dmean, gt);
        float loss;
        RUN(cudaMemcpy(&loss, dloss, sizeof loss, cudaMemcpyDeviceToHost));
        if (oracle) {
            group_loss += loss;
            add<<<4, 64>>>(st, gt, NT);
            add<<<1, 64>>>(sw, gw, NW);
            if (++waiting < oracle)
                continue;
            divide<<<4, 64>>>(gt, st, oracle, NT);
            divide<<<1, 64>>>(gw, sw, oracle, NW);
            RUN(cudaMemset(st, 0, NT * sizeof(float)));
            RUN(cudaMemset(sw, 0, NW * sizeof(float)));
            loss = group_loss / oracle;
            group_loss = 0;
            waiting = 0;
        }
        smooth = smooth < 0 ? loss : 0.8f * smooth + 0.2f * loss;
        if (smooth < best) {
            best = smooth;
            bad = 0;
        } else if (++bad == 6) {                       // a plateau
            lr *= 0.5f;
            bad = 0;
            std::printf("step %d: learning rate %g\n", step, lr);
        }
        adagrad<<<4, 64>>>(table, gt, ht, lr, NT);
        adagrad<<<1, 64>>>(w, gw, hw, lr, NW);
        if (step % 10 == 9)
            std::printf("step %d: loss %.4f\n", step, smooth);
    }

    RUN(cudaDeviceSynchronize());
    if (save) {
        std::FILE *f = std::fopen(save, "w");
        RUN(cudaMemcpy(itable.data(), table, NT * sizeof(float), cudaMemcpyDeviceToHost));
        RUN(cudaMemcpy(iw.data(), w, NW * sizeof(float), cudaMemcpyDeviceToHost));
        for (float x : itable) std::fprintf(f, "%.9g\n", x);
        for (float x : iw) std::fprintf(f, "%.9g\n", x);
        std::fclose(f);
    }
    return 0;
}
