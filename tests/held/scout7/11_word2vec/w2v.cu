// Skip-gram with negative sampling on a small synthetic corpus.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#define V 256        // vocabulary
#define D 16         // dimensions
#define NEG 5
#define PAIRS 256    // pairs in a mini-batch
#define ITERS 120

struct Batch {
    int center[PAIRS];
    int context[PAIRS][NEG + 1]; // the true word first, then negatives
};

__global__ void clear(float *g, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) g[i] = 0.0f;
}

__global__ void skipgram(const Batch *batch, const float *in, const float *out, float *gin, float *gout, float *loss)
{
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= PAIRS) return;
    const float *v = in + batch->center[p] * D;
    float gv[D] = { 0 };
    float l = 0;
    for (int k = 0; k <= NEG; k++) {
        int w = batch->context[p][k];
        const float *u = out + w * D;
        float dot = 0;
        for (int d = 0; d < D; d++) dot += u[d] * v[d];
        float s = 1.f / (1.f + expf(-dot));
        float g = s - (k == 0);
        l -= logf((k == 0 ? s : 1 - s) + 1e-7f);
        for (int d = 0; d < D; d++) {
            gv[d] += g * u[d];
            atomicAdd(&gout[w * D + d], g * v[d]);
        }
    }
    for (int d = 0; d < D; d++) atomicAdd(&gin[batch->center[p] * D + d], gv[d]);
    atomicAdd(loss, l);
}

__global__ void sgd(float *w, const float *g, float alpha, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) w[i] -= alpha * g[i];
}

int main()
{
    std::mt19937 rng(8);
    // topics of 16 words; a sentence stays in its topic
    std::vector<int> corpus(20000);
    for (size_t i = 0; i < corpus.size(); i++) {
        static int topic = 0;
        if (i % 20 == 0) topic = rng() % 16;
        corpus[i] = topic * 16 + rng() % 16;
    }

    std::vector<float> init(V * D);
    std::uniform_real_distribution<float> u(-0.5f, 0.5f);
    for (auto &x : init) x = u(rng) / 2;
    float *syn0, *syn1, *gsyn0, *gsyn1, *loss;
    Batch *batch;
    cudaMalloc(&syn0, V * D * sizeof(float));
    cudaMalloc(&syn1, V * D * sizeof(float));
    cudaMalloc(&gsyn0, V * D * sizeof(float));
    cudaMalloc(&gsyn1, V * D * sizeof(float));
    cudaMalloc(&loss, sizeof(float));
    cudaMalloc(&batch, sizeof(Batch));
    cudaMemcpy(syn0, init.data(), V * D * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(syn1, 0, V * D * sizeof(float));
    cudaMemset(loss, 0, sizeof(float));

    const float alpha0 = 0.3f;
    Batch *h = new Batch;
    for (int it = 0; it < ITERS; it++) {
        for (int p = 0; p < PAIRS; p++) {
            int i = 2 + rng() % (corpus.size() - 4);
            int off = 1 + rng() % 2;
            h->center[p] = corpus[i];
            h->context[p][0] = corpus[rng() % 2 ? i + off : i - off];
            for (int k = 1; k <= NEG; k++) h->context[p][k] = rng() % V;
        }
        cudaMemcpy(batch, h, sizeof(Batch), cudaMemcpyHostToDevice);
        clear<<<8, 128>>>(gsyn0, V * D);
        clear<<<8, 128>>>(gsyn1, V * D);
        skipgram<<<PAIRS / 64, 64>>>(batch, syn0, syn1, gsyn0, gsyn1, loss);
        float alpha = alpha0 * (1 - (float)it / ITERS);
        if (alpha < alpha0 * 0.05f) alpha = alpha0 * 0.05f;
        sgd<<<8, 128>>>(syn0, gsyn0, alpha, V * D);
        sgd<<<8, 128>>>(syn1, gsyn1, alpha, V * D);
        if ((it + 1) % 10 == 0) {
            float l;
            cudaMemcpy(&l, loss, sizeof(float), cudaMemcpyDeviceToHost);
            printf("iter %d alpha %.4f loss %.4f\n", it + 1, alpha, l / (10 * PAIRS));
            cudaMemset(loss, 0, sizeof(float));
        }
    }
    delete h;
    return 0;
}
