// fastText-like classifier: the mean of a text's word vectors, then a linear softmax. Texts differ in length, so a batch
// is all its tokens in one list and the place where each text starts (as in PyTorch's EmbeddingBag).
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>

#define VOCAB 400
#define EMB 16
#define LABELS 6
#define MAX_TOKENS 40

static void ck(cudaError_t e, int line)
{
    if (e != cudaSuccess) {
        fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e));
        exit(1);
    }
}
#define CK(x) ck((x), __LINE__)

struct Text {
    std::vector<int> tokens;
    int label;
};

// a block for each text, a thread for each dimension of the embedding
__global__ void bag_forward(const int *tokens, const int *offsets, const float *emb, float *hidden)
{
    int t = blockIdx.x, d = threadIdx.x;
    int from = offsets[t], to = offsets[t + 1];
    float s = 0;
    for (int i = from; i < to; i++)
        s += emb[tokens[i] * EMB + d];
    hidden[t * EMB + d] = s / (to - from);
}

__global__ void classify(const float *hidden, const float *w, const int *labels, float *dlogits, float *loss, int texts)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= texts)
        return;
    float z[LABELS], m = -1e30f, sum = 0;
    for (int c = 0; c < LABELS; c++) {
        z[c] = 0;
        for (int d = 0; d < EMB; d++)
            z[c] += w[c * EMB + d] * hidden[t * EMB + d];
        m = fmaxf(m, z[c]);
    }
    for (int c = 0; c < LABELS; c++)
        sum += expf(z[c] - m);
    for (int c = 0; c < LABELS; c++)
        dlogits[t * LABELS + c] = expf(z[c] - m) / sum - (c == labels[t] ? 1.0f : 0.0f);
    loss[t] = logf(sum) + m - z[labels[t]];
}

__global__ void output_grad(const float *hidden, const float *dlogits, float *gw, int texts)
{
    int c = blockIdx.x, d = threadIdx.x;
    float s = 0;
    for (int t = 0; t < texts; t++)
        s += dlogits[t * LABELS + c] * hidden[t * EMB + d];
    gw[c * EMB + d] = s;
}

__global__ void bag_backward(const int *tokens, const int *offsets, const float *w, const float *dlogits, float *gemb)
{
    int t = blockIdx.x, d = threadIdx.x;
    int from = offsets[t], to = offsets[t + 1];
    float s = 0;
    for (int c = 0; c < LABELS; c++)
        s += dlogits[t * LABELS + c] * w[c * EMB + d];
    s /= to - from;
    for (int i = from; i < to; i++)
        atomicAdd(&gemb[tokens[i] * EMB + d], s);
}

__global__ void sgd(float *p, const float *g, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] -= rate * g[i];
}

int main(int argc, char **argv)
{
    int batch = 128;
    if (argc > 1)
        batch = atoi(argv[1]);

    std::mt19937 gen(60);
    std::vector<Text> texts(1500);
    for (Text &t : texts) {
        t.label = gen() % LABELS;
        int len = 5 + gen() % (MAX_TOKENS - 5);
        for (int i = 0; i < len; i++)     // a third of the words belongs to the topic
            t.tokens.push_back(gen() % 3 == 0 ? t.label * 30 + gen() % 30 : gen() % VOCAB);
    }

    float *emb, *w, *gemb, *gw, *hidden, *dlogits, *d_loss;
    int *d_tokens, *d_offsets, *d_labels;
    CK(cudaMalloc(&emb, VOCAB * EMB * sizeof(float)));
    CK(cudaMalloc(&w, LABELS * EMB * sizeof(float)));
    CK(cudaMalloc(&gemb, VOCAB * EMB * sizeof(float)));
    CK(cudaMalloc(&gw, LABELS * EMB * sizeof(float)));
    CK(cudaMalloc(&hidden, batch * EMB * sizeof(float)));
    CK(cudaMalloc(&dlogits, batch * LABELS * sizeof(float)));
    CK(cudaMalloc(&d_loss, batch * sizeof(float)));
    CK(cudaMalloc(&d_tokens, batch * MAX_TOKENS * sizeof(int)));
    CK(cudaMalloc(&d_offsets, (batch + 1) * sizeof(int)));
    CK(cudaMalloc(&d_labels, batch * sizeof(int)));
    std::vector<float> init(VOCAB * EMB);
    std::uniform_real_distribution<float> u(-0.5f, 0.5f);
    for (float &x : init)
        x = u(gen);
    CK(cudaMemcpy(emb, init.data(), init.size() * sizeof(float), cudaMemcpyHostToDevice));
    CK(cudaMemset(w, 0, LABELS * EMB * sizeof(float)));

    std::vector<int> order(texts.size()), tokens, offsets, labels;
    for (size_t i = 0; i < order.size(); i++)
        order[i] = i;
    std::vector<float> loss(batch);
    const int epochs = 10;
    for (int epoch = 0; epoch < epochs; epoch++) {
        std::shuffle(order.begin(), order.end(), gen);
        float rate = 8.0f * (1 - (float)epoch / epochs), total = 0;
        for (size_t start = 0; start < order.size(); start += batch) {
            size_t end = std::min(order.size(), start + batch);
            tokens.clear();
            offsets.assign(1, 0);
            labels.clear();
            for (size_t i = start; i < end; i++) {
                const Text &t = texts[order[i]];
                tokens.insert(tokens.end(), t.tokens.begin(), t.tokens.end());
                offsets.push_back(tokens.size());
                labels.push_back(t.label);
            }
            int n = labels.size();
            CK(cudaMemcpy(d_tokens, tokens.data(), tokens.size() * sizeof(int), cudaMemcpyHostToDevice));
            CK(cudaMemcpy(d_offsets, offsets.data(), offsets.size() * sizeof(int), cudaMemcpyHostToDevice));
            CK(cudaMemcpy(d_labels, labels.data(), n * sizeof(int), cudaMemcpyHostToDevice));

            bag_forward<<<n, EMB>>>(d_tokens, d_offsets, emb, hidden);
            classify<<<(n + 63) / 64, 64>>>(hidden, w, d_labels, dlogits, d_loss, n);
            output_grad<<<LABELS, EMB>>>(hidden, dlogits, gw, n);
            CK(cudaMemset(gemb, 0, VOCAB * EMB * sizeof(float)));
            bag_backward<<<n, EMB>>>(d_tokens, d_offsets, w, dlogits, gemb);
            sgd<<<(LABELS * EMB + 127) / 128, 128>>>(w, gw, rate / n, LABELS * EMB);
            sgd<<<(VOCAB * EMB + 127) / 128, 128>>>(emb, gemb, rate / n, VOCAB * EMB);

            CK(cudaMemcpy(loss.data(), d_loss, n * sizeof(float), cudaMemcpyDeviceToHost));
            for (int i = 0; i < n; i++)
                total += loss[i];
        }
        printf("epoch %d  lr %.2f  avg.loss %.4f\n", epoch + 1, rate, total / texts.size());
    }
    return 0;
}
