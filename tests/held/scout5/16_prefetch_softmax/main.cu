// Bag-of-words topic classifier (embedding sum + softmax). The next batch is copied on one stream while the other
// stream computes the current one: two slots of staging memory, an event for each.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

namespace cfg {
constexpr int vocab = 400;
constexpr int doc_len = 24;
constexpr int dim = 16;
constexpr int topics = 8;
constexpr int batch = 96;
constexpr int batches = 110;
} // namespace cfg

struct Document {
    int words[cfg::doc_len];
    int topic;
};

struct Slot {
    Document *host;    // pinned
    Document *device;
    cudaEvent_t ready; // the copy is done
    cudaEvent_t used;  // the computation that read it is done
};

enum { EMBED, WEIGHT, BIAS, COUNT };
struct Variable {
    float *value, *grad, *momentum;
    int n;
};

static void check(cudaError_t e, int line)
{
    if (e == cudaSuccess) return;
    fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e));
    exit(1);
}
#define CUDA(x) check(x, __LINE__)

class DocumentSource {
public:
    DocumentSource() : rng_(404) {}
    void fill(Document *docs, int n)
    {
        for (int i = 0; i < n; ++i) {
            docs[i].topic = rng_() % cfg::topics;
            for (int &w : docs[i].words)
                w = rng_() % 100 < 30 ? docs[i].topic * (cfg::vocab / cfg::topics) + rng_() % (cfg::vocab / cfg::topics) : rng_() % cfg::vocab;
        }
    }

private:
    std::mt19937 rng_;
};

__global__ void embed_docs(const Document *docs, const float *embed, float *h)
{
    int d = threadIdx.x, s = blockIdx.x;
    float a = 0;
    for (int i = 0; i < cfg::doc_len; ++i)
        a += embed[docs[s].words[i] * cfg::dim + d];
    h[s * cfg::dim + d] = a / cfg::doc_len;
}

__global__ void classify(const Document *docs, const float *h, const float *w, const float *b, float *delta, double *stat)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= cfg::batch) return;
    float z[cfg::topics], m = -1e30f, sum = 0;
    int best = 0;
    for (int t = 0; t < cfg::topics; ++t) {
        z[t] = b[t];
        for (int d = 0; d < cfg::dim; ++d) z[t] += h[s * cfg::dim + d] * w[d * cfg::topics + t];
        if (z[t] > m) { m = z[t]; best = t; }
    }
    for (int t = 0; t < cfg::topics; ++t) sum += expf(z[t] - m);
    for (int t = 0; t < cfg::topics; ++t)
        delta[s * cfg::topics + t] = (expf(z[t] - m) / sum - (t == docs[s].topic)) / cfg::batch;
    atomicAdd(&stat[0], (double)(m + logf(sum) - z[docs[s].topic]));
    if (best == docs[s].topic) atomicAdd(&stat[1], 1.0);
}

__global__ void back_output(const float *h, const float *delta, float *gw, float *gb)
{
    int d = threadIdx.y, t = threadIdx.x;
    float a = 0, ab = 0;
    for (int s = 0; s < cfg::batch; ++s) {
        a += h[s * cfg::dim + d] * delta[s * cfg::topics + t];
        ab += delta[s * cfg::topics + t];
    }
    gw[d * cfg::topics + t] = a;
    if (d == 0) gb[t] = ab;
}

__global__ void back_embed(const Document *docs, const float *w, const float *delta, float *ge)
{
    int d = threadIdx.x, s = blockIdx.x;
    float a = 0;
    for (int t = 0; t < cfg::topics; ++t) a += delta[s * cfg::topics + t] * w[d * cfg::topics + t];
    for (int i = 0; i < cfg::doc_len; ++i) atomicAdd(&ge[docs[s].words[i] * cfg::dim + d], a / cfg::doc_len);
}

__global__ void nesterov(float *p, float *g, float *m, int n, float lr, float mu)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float old = m[i];
    m[i] = mu * old - lr * g[i];
    p[i] += -mu * old + (1 + mu) * m[i];
}

int main()
{
    cudaStream_t copy, compute;
    CUDA(cudaStreamCreate(&copy));
    CUDA(cudaStreamCreate(&compute));

    const int sizes[COUNT] = {cfg::vocab * cfg::dim, cfg::dim * cfg::topics, cfg::topics};
    Variable vars[COUNT];
    std::mt19937 init(5);
    for (int k = 0; k < COUNT; ++k) {
        Variable &v = vars[k];
        v.n = sizes[k];
        CUDA(cudaMalloc(&v.value, v.n * sizeof(float)));
        CUDA(cudaMalloc(&v.grad, v.n * sizeof(float)));
        CUDA(cudaMalloc(&v.momentum, v.n * sizeof(float)));
        CUDA(cudaMemset(v.momentum, 0, v.n * sizeof(float)));
        std::vector<float> h(v.n, 0.0f);
        std::normal_distribution<float> d(0, 0.5f);
        if (k != BIAS)
            for (float &x : h) x = d(init);
        CUDA(cudaMemcpy(v.value, h.data(), v.n * sizeof(float), cudaMemcpyHostToDevice));
    }

    Slot slots[2];
    for (Slot &s : slots) {
        CUDA(cudaHostAlloc(&s.host, cfg::batch * sizeof(Document), cudaHostAllocDefault));
        CUDA(cudaMalloc(&s.device, cfg::batch * sizeof(Document)));
        CUDA(cudaEventCreateWithFlags(&s.ready, cudaEventDisableTiming));
        CUDA(cudaEventCreateWithFlags(&s.used, cudaEventDisableTiming));
        CUDA(cudaEventRecord(s.used, compute));
    }
    float *h, *delta;
    double *stat;
    CUDA(cudaMalloc(&h, cfg::batch * cfg::dim * sizeof(float)));
    CUDA(cudaMalloc(&delta, cfg::batch * cfg::topics * sizeof(float)));
    CUDA(cudaMalloc(&stat, 2 * sizeof(double)));
    CUDA(cudaMemset(stat, 0, 2 * sizeof(double)));
    CUDA(cudaDeviceSynchronize());

    DocumentSource source;
    auto prefetch = [&](Slot &s) {
        CUDA(cudaEventSynchronize(s.ready));
        source.fill(s.host, cfg::batch);
        CUDA(cudaStreamWaitEvent(copy, s.used, 0));
        CUDA(cudaMemcpyAsync(s.device, s.host, cfg::batch * sizeof(Document), cudaMemcpyHostToDevice, copy));
        CUDA(cudaEventRecord(s.ready, copy));
    };

    prefetch(slots[0]);
    for (int b = 0; b < cfg::batches; ++b) {
        Slot &s = slots[b & 1];
        if (b + 1 < cfg::batches) prefetch(slots[(b + 1) & 1]);
        CUDA(cudaStreamWaitEvent(compute, s.ready, 0));
        embed_docs<<<cfg::batch, cfg::dim, 0, compute>>>(s.device, vars[EMBED].value, h);
        classify<<<(cfg::batch + 31) / 32, 32, 0, compute>>>(s.device, h, vars[WEIGHT].value, vars[BIAS].value, delta, stat);
        back_output<<<1, dim3(cfg::topics, cfg::dim), 0, compute>>>(h, delta, vars[WEIGHT].grad, vars[BIAS].grad);
        CUDA(cudaMemsetAsync(vars[EMBED].grad, 0, vars[EMBED].n * sizeof(float), compute));
        back_embed<<<cfg::batch, cfg::dim, 0, compute>>>(s.device, vars[WEIGHT].value, delta, vars[EMBED].grad);
        CUDA(cudaEventRecord(s.used, compute));
        float lr = b < 80 ? 1.0f : 0.3f;
        for (Variable &v : vars)
            nesterov<<<(v.n + 127) / 128, 128, 0, compute>>>(v.value, v.grad, v.momentum, v.n, lr, 0.9f);
        if ((b + 1) % 22 == 0) {
            double st[2];
            CUDA(cudaMemcpyAsync(st, stat, sizeof(st), cudaMemcpyDeviceToHost, compute));
            CUDA(cudaMemsetAsync(stat, 0, sizeof(st), compute));
            CUDA(cudaStreamSynchronize(compute));
            printf("batch %4d: loss %.4f, accuracy %.2f%%\n", b + 1, st[0] / (22 * cfg::batch), 100 * st[1] / (22 * cfg::batch));
        }
    }
    CUDA(cudaDeviceSynchronize());
    for (Variable &v : vars) { cudaFree(v.value); cudaFree(v.grad); cudaFree(v.momentum); }
    for (Slot &s : slots) { cudaFreeHost(s.host); cudaFree(s.device); cudaEventDestroy(s.ready); cudaEventDestroy(s.used); }
    cudaFree(h); cudaFree(delta); cudaFree(stat);
    cudaStreamDestroy(copy);
    cudaStreamDestroy(compute);
    return 0;
}
