// Sequence tagger: embeddings of a token and its neighbours, a tanh layer, a softmax over tags. Sentences have different
// lengths and are padded.
#include <cuda_runtime.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>
#include "ddprun.h"

namespace tagger {

constexpr int Vocab = 30, Emb = 6, Hid = 18, Tags = 5, MaxLen = 14, Sentences = 240, Batch = 24, In = 3 * Emb;
constexpr int OffW = Vocab * Emb, OffB = OffW + In * Hid, OffU = OffB + Hid, OffC = OffU + Hid * Tags, Total = OffC + Tags;

struct Corpus {
    std::vector<int> token, tag, length;
    Corpus()
    {
        unsigned s = 321;
        auto below = [&s](int n) { s = s * 22695477u + 1u; return (int)((s >> 16) % n); };
        token.assign(Sentences * MaxLen, 0);
        tag.assign(Sentences * MaxLen, -1);
        for (int i = 0; i < Sentences; ++i) {
            length.push_back(2 + below(MaxLen - 1));
            for (int t = 0; t < length[i]; ++t) token[i * MaxLen + t] = 1 + below(Vocab - 1);
            for (int t = 0; t < length[i]; ++t) {
                int prev = t ? token[i * MaxLen + t - 1] : 0;
                tag[i * MaxLen + t] = (token[i * MaxLen + t] + (prev > 12 ? 2 : 0)) % Tags;
            }
        }
    }
};

__device__ inline float input_of(const float *th, const int *token, int pos, int j)
{
    int t = pos % MaxLen + j / Emb - 1;
    if (t < 0 || t >= MaxLen) return 0;
    int w = token[pos + j / Emb - 1];
    return w ? th[w * Emb + j % Emb] : 0;
}

__global__ void forward(const float *th, const int *token, const int *tag, float *h, float *dz, float *loss, float scale, int n)
{
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= n * MaxLen) return;
    loss[p] = 0;
    for (int c = 0; c < Tags; ++c) dz[p * Tags + c] = 0;
    for (int k = 0; k < Hid; ++k) h[p * Hid + k] = 0;
    if (tag[p] < 0) return;
    float z[Tags], top = -1e30f, sum = 0;
    for (int k = 0; k < Hid; ++k) {
        float s = th[OffB + k];
        for (int j = 0; j < In; ++j) s += input_of(th, token, p, j) * th[OffW + j * Hid + k];
        h[p * Hid + k] = tanhf(s);
    }
    for (int c = 0; c < Tags; ++c) {
        z[c] = th[OffC + c];
        for (int k = 0; k < Hid; ++k) z[c] += h[p * Hid + k] * th[OffU + k * Tags + c];
        top = fmaxf(top, z[c]);
    }
    for (int c = 0; c < Tags; ++c) sum += expf(z[c] - top);
    loss[p] = logf(sum) + top - z[tag[p]];
    for (int c = 0; c < Tags; ++c) dz[p * Tags + c] = scale * (expf(z[c] - top) / sum - (c == tag[p] ? 1.0f : 0.0f));
}
__global__ void hidden_delta(const float *th, const float *h, const float *dz, float *dh)
{
    int p = blockIdx.x, k = threadIdx.x;
    float s = 0;
    for (int c = 0; c < Tags; ++c) s += dz[p * Tags + c] * th[OffU + k * Tags + c];
    dh[p * Hid + k] = s * (1 - h[p * Hid + k] * h[p * Hid + k]);
}
__global__ void weight_gradients(const float *th, const int *token, const float *h, const float *dz, const float *dh, float *g, int n)
{
    int i = OffW + blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= Total) return;
    float s = 0;
    for (int p = 0; p < n * MaxLen; ++p) {
        if (i < OffB) {
            float d = dh[p * Hid + (i - OffW) % Hid];
            if (d != 0) s += d * input_of(th, token, p, (i - OffW) / Hid);
        } else if (i < OffU) s += dh[p * Hid + i - OffB];
        else if (i < OffC) s += h[p * Hid + (i - OffU) / Tags] * dz[p * Tags + (i - OffU) % Tags];
        else s += dz[p * Tags + i - OffC];
    }
    g[i] = s;
}
__global__ void embedding_gradient(const float *th, const int *token, const float *dh, float *g, int n)
{
    int w = blockIdx.x, e = threadIdx.x;
    float s = 0;
    for (int p = 0; p < n * MaxLen; ++p)
        for (int side = 0; side < 3; ++side) {
            int t = p % MaxLen + side - 1;
            if (t < 0 || t >= MaxLen || token[p + side - 1] != w || w == 0) continue;
            for (int k = 0; k < Hid; ++k) s += dh[p * Hid + k] * th[OffW + (side * Emb + e) * Hid + k];
        }
    g[w * Emb + e] = s;
}
__global__ void step(float *th, const float *g, float *v, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= Total) return;
    v[i] = 0.9f * v[i] + g[i];
    th[i] -= lr * v[i];
}

}  // namespace tagger

using namespace tagger;

int main(int argc, char **argv)
{
    const int steps = argc > 2 ? atoi(argv[2]) : 60;
    Corpus corpus;
    std::vector<float> th(Total);
    unsigned s = 7;
    for (float &x : th) { s = s * 22695477u + 1u; x = ((s >> 8) / 16777216.0f - 0.5f) * 0.8f; }
    int *token, *tag;
    float *theta, *grad, *vel, *h, *dz, *dh, *loss;
    cudaMalloc(&token, corpus.token.size() * 4); cudaMalloc(&tag, corpus.tag.size() * 4);
    cudaMalloc(&theta, Total * 4); cudaMalloc(&grad, Total * 4); cudaMalloc(&vel, Total * 4);
    cudaMalloc(&h, Batch * MaxLen * Hid * 4); cudaMalloc(&dh, Batch * MaxLen * Hid * 4);
    cudaMalloc(&dz, Batch * MaxLen * Tags * 4); cudaMalloc(&loss, Batch * MaxLen * 4);
    cudaMemcpy(token, corpus.token.data(), corpus.token.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(tag, corpus.tag.data(), corpus.tag.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(theta, th.data(), Total * 4, cudaMemcpyHostToDevice);
    cudaMemset(vel, 0, Total * 4);
    DDP_PARAMETER(theta, Total, DDP_FLOAT32);
    DDP_STATE(vel, Total, DDP_FLOAT32);
    DDP_GRADIENT(grad, Total, DDP_FLOAT32);

    std::vector<float> l(Batch * MaxLen);
    for (int it = 0; it < steps; ++it) {
        size_t first, count;
        DDP_SHARD(Batch, &first, &count);
        const int n = (int)count, row = it % (Sentences / Batch) * Batch + (int)first;
        const int words = std::accumulate(&corpus.length[row], &corpus.length[row] + n, 0);
        const int *tok = token + row * MaxLen, *tg = tag + row * MaxLen;
        forward<<<(n * MaxLen + 31) / 32, 32>>>(theta, tok, tg, h, dz, loss, 1.0f / words, n);
        hidden_delta<<<n * MaxLen, Hid>>>(theta, h, dz, dh);
        weight_gradients<<<(Total - OffW + 63) / 64, 64>>>(theta, tok, h, dz, dh, grad, n);
        embedding_gradient<<<Vocab, Emb>>>(theta, tok, dh, grad, n);
        DDP_STEP(0);
        step<<<(Total + 63) / 64, 64>>>(theta, grad, vel, 0.15f);
        if (it == 0 || it % 20 == 19) {
            cudaMemcpy(l.data(), loss, n * MaxLen * 4, cudaMemcpyDeviceToHost);
            double sum[2] = {std::accumulate(l.begin(), l.begin() + n * MaxLen, 0.0), (double)words};
            DDP_REDUCE(sum, 2, DDP_FLOAT64, DDP_OP_SUM, 0);
            printf("iteration %d loss per word %.4f\n", it, sum[0] / sum[1]);
        }
    }
    cudaMemcpy(th.data(), theta, Total * 4, cudaMemcpyDeviceToHost);
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(th.data(), 4, Total, f);
        fclose(f);
    }
    return 0;
}
