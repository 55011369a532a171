// Tagging of padded sequences: embeddings of a token and of its left neighbour, tanh, linear layer, softmax. C++ class.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ddprun.h"

static const int kVocab = 40, kDim = 10, kTags = 6, kLen = 12, kBatch = 24, kData = 240;

static void ok(cudaError_t e)
{
    if (e != cudaSuccess) {
        fprintf(stderr, "cuda: %s\n", cudaGetErrorString(e));
        exit(1);
    }
}

struct Lcg {
    unsigned s;
    unsigned next() { s = s * 1664525u + 1013904223u; return s >> 8; }
    float uniform() { return next() / 16777216.0f; }
};

__global__ void hidden(const float *e, const int *tok, float *h, int rows)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= rows * kDim)
        return;
    int r = id / kDim, d = id % kDim;
    int left = r % kLen ? tok[r - 1] : 0;
    h[id] = tanhf(e[tok[r] * kDim + d] + e[(kVocab + left) * kDim + d]);
}

__global__ void softmax_loss(const float *h, const float *w, const int *tag, float *dz, float *loss, int rows, float scale)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    float z[kTags], top = -1e30f, sum = 0;
    for (int c = 0; c < kTags; ++c) {
        z[c] = 0;
        for (int d = 0; d < kDim; ++d)
            z[c] += h[r * kDim + d] * w[d * kTags + c];
        top = fmaxf(top, z[c]);
    }
    for (int c = 0; c < kTags; ++c)
        sum += z[c] = expf(z[c] - top);
    bool valid = tag[r] >= 0;
    for (int c = 0; c < kTags; ++c)
        dz[r * kTags + c] = valid ? (z[c] / sum - (c == tag[r])) * scale : 0.0f;
    loss[r] = valid ? -logf(z[tag[r]] / sum) * scale : 0.0f;
}

__global__ void grad_w(const float *h, const float *dz, float *gw, int rows)
{
    int id = threadIdx.x;
    if (id >= kDim * kTags)
        return;
    float s = 0;
    for (int r = 0; r < rows; ++r)
        s += h[r * kDim + id / kTags] * dz[r * kTags + id % kTags];
    gw[id] = s;
}

__global__ void grad_h(const float *h, const float *dz, const float *w, float *dh, int rows)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= rows * kDim)
        return;
    int r = id / kDim, d = id % kDim;
    float s = 0;
    for (int c = 0; c < kTags; ++c)
        s += dz[r * kTags + c] * w[d * kTags + c];
    dh[id] = s * (1 - h[id] * h[id]);
}

__global__ void grad_e(const int *tok, const float *dh, float *ge, int rows)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= 2 * kVocab * kDim)
        return;
    int v = id / kDim, d = id % kDim;
    float s = 0;
    for (int r = 0; r < rows; ++r) {
        int key = v < kVocab ? tok[r] : kVocab + (r % kLen ? tok[r - 1] : 0);
        if (key == v)
            s += dh[r * kDim + d];
    }
    ge[id] = s;
}

__global__ void momentum(float *p, float *v, const float *g, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        v[i] = 0.9f * v[i] + g[i];
        p[i] -= lr * v[i];
    }
}

class Tagger {
public:
    explicit Tagger(Lcg &rng)
    {
        std::vector<float> init(kE + kW);
        for (float &x : init)
            x = 0.6f * (rng.uniform() - 0.5f);
        for (int i = 0; i < 3; ++i) {
            ok(cudaMalloc(&e_[i], kE * 4));
            ok(cudaMalloc(&w_[i], kW * 4));
            ok(cudaMemset(e_[i], 0, kE * 4));
            ok(cudaMemset(w_[i], 0, kW * 4));
        }
        ok(cudaMemcpy(e_[0], init.data(), kE * 4, cudaMemcpyHostToDevice));
        ok(cudaMemcpy(w_[0], init.data() + kE, kW * 4, cudaMemcpyHostToDevice));
        ok(cudaMalloc(&tok_, kBatch * kLen * 4));
        ok(cudaMalloc(&tag_, kBatch * kLen * 4));
        ok(cudaMalloc(&h_, kBatch * kLen * kDim * 4));
        ok(cudaMalloc(&dh_, kBatch * kLen * kDim * 4));
        ok(cudaMalloc(&dz_, kBatch * kLen * kTags * 4));
        ok(cudaMalloc(&loss_, kBatch * kLen * 4));
        DDP_PARAMETER(e_[0], kE, DDP_FLOAT32);
        DDP_PARAMETER(w_[0], kW, DDP_FLOAT32);
        DDP_GRADIENT(e_[1], kE, DDP_FLOAT32);
        DDP_GRADIENT(w_[1], kW, DDP_FLOAT32);
    }

    float train(const int *tok, const int *tag, int sequences)
    {
        int rows = sequences * kLen, tokens = 0;
        for (int r = 0; r < rows; ++r)
            tokens += tag[r] >= 0;
        ok(cudaMemcpy(tok_, tok, rows * 4, cudaMemcpyHostToDevice));
        ok(cudaMemcpy(tag_, tag, rows * 4, cudaMemcpyHostToDevice));
        int blocks = (rows * kDim + 127) / 128;
        hidden<<<blocks, 128>>>(e_[0], tok_, h_, rows);
        softmax_loss<<<(rows + 63) / 64, 64>>>(h_, w_[0], tag_, dz_, loss_, rows, 1.0f / tokens);
        grad_w<<<1, 64>>>(h_, dz_, w_[1], rows);
        grad_h<<<blocks, 128>>>(h_, dz_, w_[0], dh_, rows);
        grad_e<<<(kE + 127) / 128, 128>>>(tok_, dh_, e_[1], rows);
        DDP_STEP(0);
        momentum<<<(kE + 127) / 128, 128>>>(e_[0], e_[2], e_[1], kE, 0.5f);
        momentum<<<1, 64>>>(w_[0], w_[2], w_[1], kW, 0.5f);
        std::vector<float> l(rows);
        ok(cudaMemcpy(l.data(), loss_, rows * 4, cudaMemcpyDeviceToHost));
        float sum = 0;
        for (float x : l)
            sum += x;
        return sum;
    }

    void save(const char *name)
    {
        std::vector<float> all(kE + kW);
        ok(cudaMemcpy(all.data(), e_[0], kE * 4, cudaMemcpyDeviceToHost));
        ok(cudaMemcpy(all.data() + kE, w_[0], kW * 4, cudaMemcpyDeviceToHost));
        FILE *f = fopen(name, "wb");
        fwrite(all.data(), 4, all.size(), f);
        fclose(f);
    }

private:
    enum { kE = 2 * kVocab * kDim, kW = kDim * kTags };
    float *e_[3], *w_[3]; // value, gradient, velocity
    float *h_, *dh_, *dz_, *loss_;
    int *tok_, *tag_;
};

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    Lcg rng = {4242u};
    std::vector<int> tok(kData * kLen), tag(kData * kLen);
    for (int s = 0; s < kData; ++s) {
        int length = 2 + (s % kBatch) * (kLen - 2) / kBatch + (int)(rng.next() % 2); // batches are made of rising lengths
        for (int t = 0; t < kLen; ++t) {
            int r = s * kLen + t;
            tok[r] = t < length ? 1 + (int)(rng.next() % (kVocab - 1)) : 0;
            tag[r] = t < length ? (tok[r] * 5 + (t ? tok[r - 1] % 3 : 0)) % kTags : -1;
        }
    }
    Tagger net(rng);
    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        size_t at = ((size_t)(step * kBatch) % kData + first) * kLen;
        float loss = net.train(&tok[at], &tag[at], (int)count);
        DDP_MEAN_AS("loss", &loss);
        if (step % 10 == 9 && DDP_RANK() == 0)
            printf("%3d  loss %.4f\n", step + 1, loss);
    }
    if (argc > 1 && DDP_RANK() == 0)
        net.save(argv[1]);
    return 0;
}
