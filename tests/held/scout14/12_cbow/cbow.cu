// Continuous bag of words with negative sampling: the mean of four neighbours should point to the word in the middle.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>

const int VOCAB = 150;
const int TOPICS = 6;
const int DIM = 12;
const int WINDOW = 2;
const int NEG = 5;
const int BATCH = 80;
const int TOKENS = 2004;
const int EPOCHS = 5;
const float ALPHA = 4.0f;

struct Example {
    int context[2 * WINDOW];
    int word[1 + NEG]; // the right one first
};

#define CUDA_CHECK(call)                                                              \
    {                                                                                 \
        cudaError_t err = call;                                                       \
        if (err != cudaSuccess) {                                                     \
            printf("error in %s line %d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err)); \
            exit(1);                                                                  \
        }                                                                             \
    }

__global__ void cbow_gradients(const Example *examples, int n, const float *in, const float *out, float *gin, float *gout, float *loss)
{
    int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= n) return;
    const Example ex = examples[e];
    float mean[DIM], back[DIM];
    for (int d = 0; d < DIM; d++) {
        mean[d] = back[d] = 0.0f;
        for (int c = 0; c < 2 * WINDOW; c++) mean[d] += in[ex.context[c] * DIM + d] / (2 * WINDOW);
    }
    float l = 0.0f;
    for (int k = 0; k <= NEG; k++) {
        float s = 0.0f, want = k == 0 ? 1.0f : 0.0f;
        for (int d = 0; d < DIM; d++) s += mean[d] * out[ex.word[k] * DIM + d];
        l += log1pf(expf(k == 0 ? -s : s));
        float g = 1.0f / (1.0f + expf(-s)) - want;
        for (int d = 0; d < DIM; d++) {
            back[d] += g * out[ex.word[k] * DIM + d];
            atomicAdd(&gout[ex.word[k] * DIM + d], g * mean[d]);
        }
    }
    for (int c = 0; c < 2 * WINDOW; c++)
        for (int d = 0; d < DIM; d++) atomicAdd(&gin[ex.context[c] * DIM + d], back[d] / (2 * WINDOW));
    loss[e] = l;
}

__global__ void update(float *w, const float *g, int n, float alpha)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= alpha * g[i];
}

int main(int argc, char **argv)
{
    std::mt19937 gen(argc > 1 ? atoi(argv[1]) : 19);

    // a text whose topic changes now and then
    std::vector<int> text(TOKENS);
    int topic = 0;
    for (int i = 0; i < TOKENS; i++) {
        if (gen() % 25 == 0) topic = gen() % TOPICS;
        text[i] = topic * (VOCAB / TOPICS) + std::min(gen() % (VOCAB / TOPICS), gen() % (VOCAB / TOPICS));
    }
    const int total = (TOKENS - 2 * WINDOW) / BATCH * BATCH;
    Example *examples;
    CUDA_CHECK(cudaHostAlloc(&examples, total * sizeof(Example), cudaHostAllocDefault));

    std::vector<float> init(VOCAB * DIM);
    for (size_t i = 0; i < init.size(); i++) init[i] = ((gen() % 1000) / 1000.0f - 0.5f) * 0.8f;
    const size_t table = VOCAB * DIM * sizeof(float);
    float *in, *out, *gin, *gout, *loss;
    Example *batch;
    CUDA_CHECK(cudaMalloc(&in, table));
    CUDA_CHECK(cudaMalloc(&out, table));
    CUDA_CHECK(cudaMalloc(&gin, table));
    CUDA_CHECK(cudaMalloc(&gout, table));
    CUDA_CHECK(cudaMalloc(&loss, BATCH * sizeof(float)));
    CUDA_CHECK(cudaMalloc(&batch, BATCH * sizeof(Example)));
    CUDA_CHECK(cudaMemcpy(in, init.data(), table, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemset(out, 0, table));
    cudaStream_t stream;
    CUDA_CHECK(cudaStreamCreate(&stream));

    std::vector<float> host(BATCH);
    const int steps = total / BATCH * EPOCHS;
    int step = 0;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        for (int i = 0; i < total; i++) {
            int c = 0;
            for (int o = -WINDOW; o <= WINDOW; o++)
                if (o != 0) examples[i].context[c++] = text[i + WINDOW + o];
            examples[i].word[0] = text[i + WINDOW];
            for (int k = 1; k <= NEG; k++) examples[i].word[k] = text[gen() % TOKENS];
        }
        std::shuffle(examples, examples + total, gen);

        double sum = 0.0;
        for (int first = 0; first < total; first += BATCH, step++) {
            float alpha = ALPHA * (1.0f - (float)step / steps);
            CUDA_CHECK(cudaMemcpyAsync(batch, examples + first, BATCH * sizeof(Example), cudaMemcpyHostToDevice, stream));
            CUDA_CHECK(cudaMemsetAsync(gin, 0, table, stream));
            CUDA_CHECK(cudaMemsetAsync(gout, 0, table, stream));
            cbow_gradients<<<(BATCH + 63) / 64, 64, 0, stream>>>(batch, BATCH, in, out, gin, gout, loss);
            update<<<(VOCAB * DIM + 127) / 128, 128, 0, stream>>>(in, gin, VOCAB * DIM, alpha / BATCH);
            update<<<(VOCAB * DIM + 127) / 128, 128, 0, stream>>>(out, gout, VOCAB * DIM, alpha / BATCH);
            CUDA_CHECK(cudaMemcpyAsync(host.data(), loss, BATCH * sizeof(float), cudaMemcpyDeviceToHost, stream));
            CUDA_CHECK(cudaStreamSynchronize(stream));
            for (int i = 0; i < BATCH; i++) sum += host[i];
        }
        printf("epoch %d, loss per example %.4f\n", epoch + 1, sum / total);
    }

    cudaStreamDestroy(stream);
    cudaFreeHost(examples);
    return 0;
}
