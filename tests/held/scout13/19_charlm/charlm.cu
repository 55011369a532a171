// Character language model after Bengio et al. (2003): embeddings of the last characters -> tanh -> softmax.
// The text is on the device; a batch is a list of positions. The rate is halved when the validation loss stalls.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>
#include <cuda_runtime.h>

constexpr int CONTEXT = 4;
constexpr int SYMBOLS = 28;  // a-z, space, full stop
constexpr int EMBED = 6;
constexpr int HIDDEN = 32;
constexpr int BATCH = 64;
constexpr int STEPS = 60;

#define FOR_EACH_1D(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)

struct Weights {
    float *embed;  // [SYMBOLS][EMBED]
    float *hidden; // [HIDDEN][CONTEXT * EMBED]
    float *hbias;  // [HIDDEN]
    float *out;    // [SYMBOLS][HIDDEN]
    float *obias;  // [SYMBOLS]
};
static const int kTensors = 5;
static const int kSize[kTensors] = {SYMBOLS * EMBED, HIDDEN * CONTEXT * EMBED, HIDDEN, SYMBOLS * HIDDEN, SYMBOLS};
static_assert(sizeof(Weights) == kTensors * sizeof(float *), "only pointers in Weights");

struct Workspace {
    float *x;      // [n][CONTEXT * EMBED]
    float *h, *dh; // [n][HIDDEN]
    float *p;      // [n][SYMBOLS], probabilities, then the gradient of the logits
    float *dx;
    float *loss;   // one number
};

__global__ void lookup(const unsigned char *text, const int *at, Weights w, Workspace s, int n)
{
    FOR_EACH_1D(i, n * CONTEXT * EMBED)
    {
        int e = i % EMBED, c = i / EMBED % CONTEXT, b = i / (EMBED * CONTEXT);
        s.x[i] = w.embed[text[at[b] + c] * EMBED + e];
    }
}

__global__ void hidden_layer(Weights w, Workspace s, int n)
{
    FOR_EACH_1D(i, n * HIDDEN)
    {
        int j = i % HIDDEN, b = i / HIDDEN;
        float a = w.hbias[j];
        for (int k = 0; k < CONTEXT * EMBED; ++k) a += w.hidden[j * CONTEXT * EMBED + k] * s.x[b * CONTEXT * EMBED + k];
        s.h[i] = tanhf(a);
    }
}

// one warp for each sample; lane = symbol
__global__ void softmax_layer(const unsigned char *text, const int *at, Weights w, Workspace s, int n)
{
    const int b = blockIdx.x, lane = threadIdx.x;
    float z = -1e30f;
    if (lane < SYMBOLS) {
        z = w.obias[lane];
        for (int j = 0; j < HIDDEN; ++j) z += w.out[lane * HIDDEN + j] * s.h[b * HIDDEN + j];
    }
    float top = z;
    for (int d = 16; d > 0; d /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, d));
    float e = lane < SYMBOLS ? expf(z - top) : 0.f, sum = e;
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if (lane < SYMBOLS) {
        bool is = text[at[b] + CONTEXT] == lane;
        if (is) atomicAdd(s.loss, -(z - top - logf(sum)) / n);
        s.p[b * SYMBOLS + lane] = (e / sum - (is ? 1.f : 0.f)) / n;
    }
}

__global__ void output_backward(Weights w, Weights g, Workspace s, int n)
{
    FOR_EACH_1D(i, SYMBOLS * HIDDEN)
    {
        int j = i % HIDDEN, c = i / HIDDEN;
        float a = 0.f, bias = 0.f;
        for (int b = 0; b < n; ++b) {
            a += s.p[b * SYMBOLS + c] * s.h[b * HIDDEN + j];
            bias += s.p[b * SYMBOLS + c];
        }
        g.out[i] = a;
        if (j == 0) g.obias[c] = bias;
    }
    FOR_EACH_1D(i, n * HIDDEN)
    {
        int j = i % HIDDEN, b = i / HIDDEN;
        float a = 0.f;
        for (int c = 0; c < SYMBOLS; ++c) a += s.p[b * SYMBOLS + c] * w.out[c * HIDDEN + j];
        s.dh[i] = a * (1.f - s.h[i] * s.h[i]);
    }
}

__global__ void hidden_backward(Weights w, Weights g, Workspace s, int n)
{
    const int width = CONTEXT * EMBED;
    FOR_EACH_1D(i, HIDDEN * width)
    {
        int k = i % width, j = i / width;
        float a = 0.f, bias = 0.f;
        for (int b = 0; b < n; ++b) {
            a += s.dh[b * HIDDEN + j] * s.x[b * width + k];
            bias += s.dh[b * HIDDEN + j];
        }
        g.hidden[i] = a;
        if (k == 0) g.hbias[j] = bias;
    }
    FOR_EACH_1D(i, n * width)
    {
        int k = i % width, b = i / width;
        float a = 0.f;
        for (int j = 0; j < HIDDEN; ++j) a += s.dh[b * HIDDEN + j] * w.hidden[j * width + k];
        s.dx[i] = a;
    }
}

__global__ void embedding_backward(const unsigned char *text, const int *at, Weights g, Workspace s, int n)
{
    FOR_EACH_1D(i, n * CONTEXT * EMBED)
    {
        int e = i % EMBED, c = i / EMBED % CONTEXT, b = i / (EMBED * CONTEXT);
        atomicAdd(&g.embed[text[at[b] + c] * EMBED + e], s.dx[i]);
    }
}

// clips each element of the gradient
__global__ void update(float *w, const float *g, float *v, int n, float rate)
{
    FOR_EACH_1D(i, n)
    {
        float c = fminf(fmaxf(g[i], -0.5f), 0.5f);
        v[i] = 0.8f * v[i] + c;
        w[i] -= rate * v[i];
    }
}

static Weights make_weights()
{
    float *p[kTensors];
    for (int t = 0; t < kTensors; ++t) {
        cudaMalloc((void **)&p[t], kSize[t] * sizeof(float));
        cudaMemset(p[t], 0, kSize[t] * sizeof(float));
    }
    Weights w;
    memcpy(&w, p, sizeof w);
    return w;
}

static float forward(const unsigned char *text, const int *at, Weights w, Workspace s, int n)
{
    float loss;
    cudaMemset(s.loss, 0, sizeof(float));
    lookup<<<8, 64>>>(text, at, w, s, n);
    hidden_layer<<<8, 64>>>(w, s, n);
    softmax_layer<<<n, 32>>>(text, at, w, s, n);
    cudaMemcpy(&loss, s.loss, sizeof(float), cudaMemcpyDeviceToHost);
    return loss;
}

int main()
{
    std::mt19937 rng(1001);
    const char *words[] = {"the", "cat", "sat", "on", "a", "mat", "and", "dog", "ran", "to", "red", "house", "then", "it", "slept"};
    std::string story;
    while (story.size() < 3000) {
        story += words[rng() % 15];
        story += rng() % 6 ? " " : ". ";
    }
    std::vector<unsigned char> text;
    for (char c : story) text.push_back(c == ' ' ? 26 : c == '.' ? 27 : c - 'a');
    const int positions = (int)text.size() - CONTEXT, held = 128, usable = positions - held - CONTEXT;

    unsigned char *d_text;
    int *d_at, *d_valid;
    cudaMalloc((void **)&d_text, text.size());
    cudaMalloc((void **)&d_at, BATCH * sizeof(int));
    cudaMalloc((void **)&d_valid, held * sizeof(int));
    cudaMemcpy(d_text, text.data(), text.size(), cudaMemcpyHostToDevice);
    std::vector<int> at(held);
    for (int i = 0; i < held; ++i) at[i] = positions - held + i;
    cudaMemcpy(d_valid, at.data(), held * sizeof(int), cudaMemcpyHostToDevice);

    Weights w = make_weights(), g = make_weights(), v = make_weights();
    float **wp = (float **)&w, **gp = (float **)&g, **vp = (float **)&v;
    std::normal_distribution<float> normal;
    for (int t : {0, 1, 3}) {
        std::vector<float> h(kSize[t]);
        for (auto &x : h) x = normal(rng) * (t == 0 ? 0.5f : 0.2f);
        cudaMemcpy(wp[t], h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice);
    }
    Workspace s;
    cudaMalloc((void **)&s.x, held * CONTEXT * EMBED * sizeof(float));
    cudaMalloc((void **)&s.dx, held * CONTEXT * EMBED * sizeof(float));
    cudaMalloc((void **)&s.h, held * HIDDEN * sizeof(float));
    cudaMalloc((void **)&s.dh, held * HIDDEN * sizeof(float));
    cudaMalloc((void **)&s.p, held * SYMBOLS * sizeof(float));
    cudaMalloc((void **)&s.loss, sizeof(float));

    float rate = 0.6f, best = 1e30f, sum = 0.f;
    for (int step = 1; step <= STEPS; ++step) {
        for (int i = 0; i < BATCH; ++i) at[i] = rng() % usable;
        cudaMemcpy(d_at, at.data(), BATCH * sizeof(int), cudaMemcpyHostToDevice);
        sum += forward(d_text, d_at, w, s, BATCH);
        output_backward<<<8, 64>>>(w, g, s, BATCH);
        hidden_backward<<<8, 64>>>(w, g, s, BATCH);
        cudaMemset(g.embed, 0, kSize[0] * sizeof(float));
        embedding_backward<<<8, 64>>>(d_text, d_at, g, s, BATCH);
        for (int t = 0; t < kTensors; ++t) update<<<4, 64>>>(wp[t], gp[t], vp[t], kSize[t], rate);

        if (step % 10 == 0) {
            float valid = forward(d_text, d_valid, w, s, held);
            printf("step %d  train %.4f  valid %.4f  rate %.3f\n", step, sum / 10, valid, rate);
            if (valid > best - 0.02f) rate *= 0.5f;
            best = std::min(best, valid);
            sum = 0.f;
        }
    }
    return 0;
}
