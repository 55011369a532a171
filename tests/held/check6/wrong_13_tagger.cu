// An Elman network that labels every token of sentences of different lengths (padded to the longest). Adagrad.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <string>
#include <vector>
#include "ddprun.h"

enum { VOCAB = 14, TAGS = 4, HID = 20, MAXLEN = 12, BATCH = 20, SENTENCES = 400 };

static void ok(cudaError_t e) { if (e != cudaSuccess) { fprintf(stderr, "%s\n", cudaGetErrorString(e)); exit(1); } }

struct Rand {
    unsigned x, y, z, w;
    Rand() : x(123456789), y(362436069), z(521288629), w(88675123) {}
    unsigned next() { unsigned t = x ^ (x << 11); x = y; y = z; z = w; return w = w ^ (w >> 19) ^ t ^ (t >> 8); }
    float real() { return (next() >> 8) / 16777216.f; }
    int below(int n) { return (int)(next() % (unsigned)n); }
};

// Offsets in one block of parameters
struct Model {
    float *embed, *recur, *bias, *head;
    __host__ __device__ static int size() { return VOCAB * HID + HID * HID + HID + TAGS * HID; }
    __host__ __device__ explicit Model(float *base)
        : embed(base), recur(base + VOCAB * HID), bias(recur + HID * HID), head(bias + HID) {}
};

// One block per sentence, one thread per hidden unit. hs[MAXLEN + 1][HID] and dz[MAXLEN][TAGS] for each sentence.
__global__ void forward(const float *params, const int *tokens, const int *tags, const int *length, float *hs, float *dz, float *loss)
{
    Model m((float *)params);
    int s = blockIdx.x, j = threadIdx.x;
    float *h = hs + s * (MAXLEN + 1) * HID;
    __shared__ float z[TAGS];
    h[j] = 0.f;
    if (j == 0) loss[s] = 0.f;
    __syncthreads();
    for (int t = 0; t < length[s]; ++t) {
        float a = m.bias[j] + m.embed[tokens[s * MAXLEN + t] * HID + j];
        for (int k = 0; k < HID; ++k) a += m.recur[k * HID + j] * h[t * HID + k];
        h[(t + 1) * HID + j] = tanhf(a);
        __syncthreads();
        if (j < TAGS) {
            float q = 0.f;
            for (int k = 0; k < HID; ++k) q += m.head[j * HID + k] * h[(t + 1) * HID + k];
            z[j] = q;
        }
        __syncthreads();
        if (j == 0) {
            float sum = 0.f;
            int y = tags[s * MAXLEN + t];
            for (int c = 0; c < TAGS; ++c) sum += expf(z[c]);
            for (int c = 0; c < TAGS; ++c) dz[(s * MAXLEN + t) * TAGS + c] = expf(z[c]) / sum - (c == y ? 1.f : 0.f);
            loss[s] += logf(sum) - z[y];
        }
        __syncthreads();
    }
}

// da[MAXLEN][HID]: gradient before the tanh
__global__ void through_time(const float *params, const int *length, const float *hs, const float *dz, float *da)
{
    Model m((float *)params);
    int s = blockIdx.x, j = threadIdx.x;
    const float *h = hs + s * (MAXLEN + 1) * HID;
    float *a = da + s * MAXLEN * HID, carry = 0.f;
    for (int t = length[s] - 1; t >= 0; --t) {
        float g = carry, y = h[(t + 1) * HID + j];
        for (int c = 0; c < TAGS; ++c) g += dz[(s * MAXLEN + t) * TAGS + c] * m.head[c * HID + j];
        a[t * HID + j] = g * (1.f - y * y);
        __syncthreads();
        carry = 0.f;
        for (int k = 0; k < HID; ++k) carry += m.recur[j * HID + k] * a[t * HID + k];
        __syncthreads();
    }
}

__global__ void weights(const int *tokens, const int *length, const float *hs, const float *dz, const float *da, float *grads, float scale, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= Model::size()) return;
    int part = i < VOCAB * HID ? 0 : i < VOCAB * HID + HID * HID ? 1 : i < VOCAB * HID + HID * HID + HID ? 2 : 3;
    int o = part == 0 ? i : part == 1 ? i - VOCAB * HID : part == 2 ? i - VOCAB * HID - HID * HID : i - VOCAB * HID - HID * HID - HID;
    float g = 0.f;
    for (int s = 0; s < n; ++s)
        for (int t = 0; t < length[s]; ++t) {
            const float *h = hs + (s * (MAXLEN + 1) + t) * HID, *a = da + (s * MAXLEN + t) * HID;
            if (part == 0) g += tokens[s * MAXLEN + t] == o / HID ? a[o % HID] : 0.f;
            else if (part == 1) g += h[o / HID] * a[o % HID];
            else if (part == 2) g += a[o];
            else g += dz[(s * MAXLEN + t) * TAGS + o / HID] * h[HID + o % HID];
        }
    grads[i] = g * scale;
}

__global__ void adagrad(float *p, float *sum, const float *g, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    sum[i] += g[i] * g[i];
    p[i] -= rate * g[i] / (sqrtf(sum[i]) + 1e-4f);
}

template <class T> static T *allocate(int n)
{
    void *p;
    ok(cudaMalloc(&p, n * sizeof(T)));
    ok(cudaMemset(p, 0, n * sizeof(T)));
    return static_cast<T *>(p);
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? std::stoi(argv[2]) : 60;
    Rand r;
    std::vector<int> words(SENTENCES * MAXLEN), labels(SENTENCES * MAXLEN), lengths(SENTENCES);
    for (int s = 0; s < SENTENCES; ++s) {
        lengths[s] = 2 + r.below(MAXLEN - 1);
        int state = 0;
        for (int t = 0; t < lengths[s]; ++t) {
            int w = r.below(VOCAB);
            state = w % 5 == 0 ? (state + 1) % 2 : state;
            words[s * MAXLEN + t] = w;
            labels[s * MAXLEN + t] = 2 * state + (w > 8);
        }
    }
    const int size = Model::size();
    std::vector<float> host(size);
    for (float &x : host) x = 0.5f * (r.real() - 0.5f);
    float *params = allocate<float>(size), *grads = allocate<float>(size), *sums = allocate<float>(size);
    float *hs = allocate<float>(BATCH * (MAXLEN + 1) * HID), *da = allocate<float>(BATCH * MAXLEN * HID);
    float *dz = allocate<float>(BATCH * MAXLEN * TAGS), *loss = allocate<float>(BATCH);
    int *tokens = allocate<int>(BATCH * MAXLEN), *tags = allocate<int>(BATCH * MAXLEN), *length = allocate<int>(BATCH);
    ok(cudaMemcpy(params, host.data(), size * sizeof(float), cudaMemcpyHostToDevice));
    DDP_PARAMETER(params, size, DDP_FLOAT32);
    DDP_GRADIENT(grads, size, DDP_FLOAT32);
    DDP_STATE(sums, size, DDP_FLOAT32);
    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count, at = step * BATCH % SENTENCES + (int)first, real_tokens = 0;
        for (int i = 0; i < n; ++i) real_tokens += lengths[at + i];
        ok(cudaMemcpy(tokens, &words[at * MAXLEN], n * MAXLEN * sizeof(int), cudaMemcpyHostToDevice));
        ok(cudaMemcpy(tags, &labels[at * MAXLEN], n * MAXLEN * sizeof(int), cudaMemcpyHostToDevice));
        ok(cudaMemcpy(length, &lengths[at], n * sizeof(int), cudaMemcpyHostToDevice));
        forward<<<n, HID>>>(params, tokens, tags, length, hs, dz, loss);
        through_time<<<n, HID>>>(params, length, hs, dz, da);
        weights<<<(size + 63) / 64, 64>>>(tokens, length, hs, dz, da, grads, 1.f / real_tokens, n);
        DDP_STEP(0);
        adagrad<<<(size + 63) / 64, 64>>>(params, sums, grads, 0.05f, size);
        std::vector<float> l(n);
        ok(cudaMemcpy(l.data(), loss, n * sizeof(float), cudaMemcpyDeviceToHost));
        float mean = 0.f;
        for (float x : l) mean += x / real_tokens;
        DDP_MEAN(&mean);
        if (DDP_RANK() == 0 && step % 10 == 0) printf("step %d loss per token %.4f\n", step, mean);
    }
    ok(cudaMemcpy(host.data(), params, size * sizeof(float), cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(host.data(), sizeof(float), size, f);
        fclose(f);
    }
    return 0;
}
