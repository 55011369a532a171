// A recurrent network follows 16 endless streams of symbols. Each step reads the next eight symbols of every stream,
// and goes on from the hidden state that the step before left; gradients stop at the boundary.
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#include "ddprun.h"

#define STREAMS 16
#define SPAN    8
#define SYMBOLS 10
#define H       20

#define ENSURE(x)                                                                \
    do {                                                                         \
        cudaError_t e_ = (x);                                                    \
        if (e_ != cudaSuccess) {                                                 \
            fprintf(stderr, "%d: %s\n", __LINE__, cudaGetErrorString(e_));       \
            exit(1);                                                             \
        }                                                                        \
    } while (0)

struct Weights {
    float *in;  // SYMBOLS x H
    float *rec; // H x H
    float *out; // H x SYMBOLS
};

static const int kSizes[3] = {SYMBOLS * H, H * H, H * SYMBOLS};

// h: [SPAN + 1][n][H]; h[0] is the state that is carried over
__global__ void readOne(Weights w, const int *sym, float *h, int t, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n * H)
        return;
    int i = k / H, j = k % H;
    const float *before = h + (t * n + i) * H;
    float s = w.in[sym[i * (SPAN + 1) + t] * H + j];
    for (int m = 0; m < H; ++m)
        s += before[m] * w.rec[m * H + j];
    h[((t + 1) * n + i) * H + j] = tanhf(s);
}

__global__ void predictOne(Weights w, const int *sym, const float *h, float *dz, float *loss, int t, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float z[SYMBOLS], top = -1e30f, sum = 0;
    int want = sym[i * (SPAN + 1) + t + 1];
    for (int c = 0; c < SYMBOLS; ++c) {
        z[c] = 0;
        for (int m = 0; m < H; ++m)
            z[c] += h[((t + 1) * n + i) * H + m] * w.out[m * SYMBOLS + c];
        top = fmaxf(top, z[c]);
    }
    for (int c = 0; c < SYMBOLS; ++c)
        sum += expf(z[c] - top);
    loss[t * n + i] = top + logf(sum) - z[want];
    for (int c = 0; c < SYMBOLS; ++c)
        dz[(t * n + i) * SYMBOLS + c] = (expf(z[c] - top) / sum - (c == want)) / (n * SPAN);
}

// da[t] = gradient before the tanh of position t
__global__ void backOne(Weights w, const float *h, const float *dz, float *da, int t, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= n * H)
        return;
    int i = k / H, j = k % H;
    float s = 0, a = h[((t + 1) * n + i) * H + j];
    for (int c = 0; c < SYMBOLS; ++c)
        s += dz[(t * n + i) * SYMBOLS + c] * w.out[j * SYMBOLS + c];
    if (t + 1 < SPAN)
        for (int m = 0; m < H; ++m)
            s += da[((t + 1) * n + i) * H + m] * w.rec[j * H + m];
    da[(t * n + i) * H + j] = s * (1 - a * a);
}

__global__ void weightGradients(Weights g, const int *sym, const float *h, const float *dz, const float *da, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < H * H) {
        float s = 0;
        for (int t = 0; t < SPAN; ++t)
            for (int i = 0; i < n; ++i)
                s += h[(t * n + i) * H + k / H] * da[(t * n + i) * H + k % H];
        g.rec[k] = s;
    }
    if (k < SYMBOLS * H) {
        float in = 0, out = 0;
        for (int t = 0; t < SPAN; ++t)
            for (int i = 0; i < n; ++i) {
                if (sym[i * (SPAN + 1) + t] == k / H)
                    in += da[(t * n + i) * H + k % H];
                out += h[((t + 1) * n + i) * H + k / SYMBOLS] * dz[(t * n + i) * SYMBOLS + k % SYMBOLS];
            }
        g.in[k] = in;
        g.out[k] = out;
    }
}

__global__ void rmsprop(float *w, float *cache, const float *g, int n, float lr)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < n) {
        cache[k] = 0.9f * cache[k] + 0.1f * g[k] * g[k];
        w[k] -= lr * g[k] / (sqrtf(cache[k]) + 1e-4f);
    }
}

// Stream k walks over the symbols by a rule with memory of two.
class Stream {
public:
    explicit Stream(unsigned seed) : s_(seed * 2654435761u + 1), a_(seed % SYMBOLS), b_((seed * 3 + 1) % SYMBOLS) {}
    int next()
    {
        s_ = s_ * 1664525u + 1013904223u;
        int c = (s_ >> 24) < 25 ? (int)((s_ >> 8) % SYMBOLS) : (a_ + 2 * b_ + 1) % SYMBOLS;
        a_ = b_;
        b_ = c;
        return c;
    }

private:
    unsigned s_;
    int a_, b_;
};

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    Weights w, g, cache;
    float **pw[3] = {&w.in, &w.rec, &w.out}, **pg[3] = {&g.in, &g.rec, &g.out};
    float **pc[3] = {&cache.in, &cache.rec, &cache.out};
    unsigned seed = 8;
    for (int k = 0; k < 3; ++k) {
        std::vector<float> v(kSizes[k]);
        for (float &e : v) {
            seed = seed * 1664525u + 1013904223u;
            e = 0.35f * ((seed >> 8) / 8388608.0f - 1);
        }
        ENSURE(cudaMalloc(pw[k], kSizes[k] * sizeof(float)));
        ENSURE(cudaMalloc(pg[k], kSizes[k] * sizeof(float)));
        ENSURE(cudaMalloc(pc[k], kSizes[k] * sizeof(float)));
        ENSURE(cudaMemset(*pc[k], 0, kSizes[k] * sizeof(float)));
        ENSURE(cudaMemcpy(*pw[k], v.data(), kSizes[k] * sizeof(float), cudaMemcpyHostToDevice));
        DDP_PARAMETER(*pw[k], kSizes[k], DDP_FLOAT32);
        DDP_STATE(*pc[k], kSizes[k], DDP_FLOAT32);
        DDP_GRADIENT(*pg[k], kSizes[k], DDP_FLOAT32);
    }

    size_t first, count;
    DDP_SHARD(STREAMS, &first, &count);
    int n = (int)count, wide = (n * H + 63) / 64;
    std::vector<Stream> streams;
    std::vector<int> hsym(n * (SPAN + 1));
    for (int i = 0; i < n; ++i) {
        streams.emplace_back((unsigned)(first + i));
        hsym[i * (SPAN + 1) + SPAN] = streams[i].next();
    }
    int *sym;
    float *h, *dz, *da, *loss;
    ENSURE(cudaMalloc(&sym, n * (SPAN + 1) * sizeof(int)));
    ENSURE(cudaMalloc(&h, (SPAN + 1) * n * H * sizeof(float)));
    ENSURE(cudaMalloc(&da, SPAN * n * H * sizeof(float)));
    ENSURE(cudaMalloc(&dz, SPAN * n * SYMBOLS * sizeof(float)));
    ENSURE(cudaMalloc(&loss, SPAN * n * sizeof(float)));
    ENSURE(cudaMemset(h, 0, (SPAN + 1) * n * H * sizeof(float)));

    for (int step = 0; step < steps; ++step) {
        for (int i = 0; i < n; ++i) {
            hsym[i * (SPAN + 1)] = hsym[i * (SPAN + 1) + SPAN];
            for (int t = 1; t <= SPAN; ++t)
                hsym[i * (SPAN + 1) + t] = streams[i].next();
        }
        ENSURE(cudaMemcpy(sym, hsym.data(), hsym.size() * sizeof(int), cudaMemcpyHostToDevice));

        for (int t = 0; t < SPAN; ++t) {
            readOne<<<wide, 64>>>(w, sym, h, t, n);
            predictOne<<<1, STREAMS>>>(w, sym, h, dz, loss, t, n);
        }
        for (int t = SPAN - 1; t >= 0; --t)
            backOne<<<wide, 64>>>(w, h, dz, da, t, n);
        weightGradients<<<(H * H + 63) / 64, 64>>>(g, sym, h, dz, da, n);
        ENSURE(cudaMemcpyAsync(h, h + SPAN * n * H, n * H * sizeof(float), cudaMemcpyDeviceToDevice, 0));

        DDP_STEP(0);
        for (int k = 0; k < 3; ++k)
            rmsprop<<<(kSizes[k] + 63) / 64, 64>>>(*pw[k], *pc[k], *pg[k], kSizes[k], 0.015f);

        if (step % 10 == 0 || step == steps - 1) {
            std::vector<float> l(SPAN * n);
            ENSURE(cudaMemcpy(l.data(), loss, l.size() * sizeof(float), cudaMemcpyDeviceToHost));
            float mean = 0;
            for (float v : l)
                mean += v / l.size();
            DDP_MEAN_AS("loss", &mean);
            if (DDP_RANK() == 0)
                printf("step %d: loss per symbol %.4f\n", step, mean);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        for (int k = 0; k < 3; ++k) {
            std::vector<float> v(kSizes[k]);
            ENSURE(cudaMemcpy(v.data(), *pw[k], kSizes[k] * sizeof(float), cudaMemcpyDeviceToHost));
            fwrite(v.data(), sizeof(float), v.size(), f);
        }
        fclose(f);
    }
    return 0;
}
