// word2vec-like skip-gram with negative samples; linear decay of the rate over the words of the corpus.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include "ddprun.h"

static const int V = 50, D = 12, NEG = 3, BATCH = 64, EPOCH_PAIRS = 960, EPOCHS = 4;

struct Pair { int centre, context; };

struct Random {
    unsigned s;
    unsigned bits() { s ^= s << 13; s ^= s >> 17; s ^= s << 5; return s; }
    int below(int n) { return (int)((bits() >> 4) % (unsigned)n); }
    float real() { return (bits() >> 8) * (1.0f / 16777216.0f); }
};

__device__ int negative(unsigned pair, int k)
{
    unsigned a = pair * 2654435761u + k * 40503u + 17u;
    a ^= a >> 15; a *= 0x2c1b3c6du; a ^= a >> 12; a *= 0x297a2d39u; a ^= a >> 15;
    return (int)(a % V);
}

// scores and their derivatives: 1 positive and NEG negatives for each pair
__global__ void score(const Pair *pairs, unsigned first_id, const float *in, const float *out, int *target, float *ds,
                      float *loss, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * (NEG + 1)) return;
    int i = t / (NEG + 1), k = t % (NEG + 1);
    int o = k == 0 ? pairs[i].context : negative(first_id + i, k);
    float s = 0;
    for (int d = 0; d < D; ++d)
        s += in[pairs[i].centre * D + d] * out[o * D + d];
    float q = 1.0f / (1.0f + expf(-s));
    target[t] = o;
    ds[t] = (k == 0 ? q - 1.0f : q) / n;
    loss[t] = -logf((k == 0 ? q : 1.0f - q) + 1e-6f);
}

__global__ void accumulate(const Pair *pairs, const int *target, const float *ds, const float *in, const float *out,
                           float *gin, float *gout, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= V * D) return;
    int w = t / D, d = t % D;
    float a = 0, b = 0;
    for (int i = 0; i < n; ++i)
        for (int k = 0; k <= NEG; ++k) {
            int o = target[i * (NEG + 1) + k];
            float g = ds[i * (NEG + 1) + k];
            if (pairs[i].centre == w) a += g * out[o * D + d];
            if (o == w) b += g * in[pairs[i].centre * D + d];
        }
    gin[t] = a;
    gout[t] = b;
}

__global__ void descend(float *w, const float *g, float rate)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < V * D) w[t] -= rate * g[t];
}

class Model {
public:
    float *in, *out, *gin, *gout;
    explicit Model(Random &r)
    {
        size_t bytes = V * D * sizeof(float);
        cudaMalloc(&in, bytes); cudaMalloc(&out, bytes); cudaMalloc(&gin, bytes); cudaMalloc(&gout, bytes);
        std::vector<float> h(V * D);
        for (float &f : h) f = r.real() - 0.5f;
        cudaMemcpy(in, h.data(), bytes, cudaMemcpyHostToDevice);
        for (float &f : h) f = 0.2f * (r.real() - 0.5f);
        cudaMemcpy(out, h.data(), bytes, cudaMemcpyHostToDevice);
        DDP_PARAMETER(in, V * D, DDP_FLOAT32);
        DDP_PARAMETER(out, V * D, DDP_FLOAT32);
        DDP_GRADIENT(gin, V * D, DDP_FLOAT32);
        DDP_GRADIENT(gout, V * D, DDP_FLOAT32);
    }
    void step(float rate)
    {
        descend<<<(V * D + 63) / 64, 64>>>(in, gin, rate);
        descend<<<(V * D + 63) / 64, 64>>>(out, gout, rate);
    }
    void save(const char *path)
    {
        std::vector<float> h(2 * V * D);
        cudaMemcpy(h.data(), in, V * D * sizeof(float), cudaMemcpyDeviceToHost);
        cudaMemcpy(h.data() + V * D, out, V * D * sizeof(float), cudaMemcpyDeviceToHost);
        FILE *f = std::fopen(path, "wb");
        std::fwrite(h.data(), sizeof(float), h.size(), f);
        std::fclose(f);
    }
};

int main(int argc, char **argv)
{
    Random r{2463534242u};
    std::vector<Pair> corpus(EPOCH_PAIRS);
    for (Pair &p : corpus) {
        p.centre = r.below(V);
        p.context = (p.centre / 10) * 10 + r.below(10);
    }
    Pair *pairs;
    int *target;
    float *ds, *loss;
    cudaMalloc(&pairs, EPOCH_PAIRS * sizeof(Pair));
    cudaMalloc(&target, BATCH * (NEG + 1) * sizeof(int));
    cudaMalloc(&ds, BATCH * (NEG + 1) * sizeof(float));
    cudaMalloc(&loss, BATCH * (NEG + 1) * sizeof(float));
    cudaMemcpy(pairs, corpus.data(), EPOCH_PAIRS * sizeof(Pair), cudaMemcpyHostToDevice);
    Model model(r);

    size_t words_seen = 0;
    const size_t words_all = (size_t)EPOCH_PAIRS * EPOCHS;
    for (int epoch = 0; epoch < EPOCHS; ++epoch)
        for (int b = 0; b < EPOCH_PAIRS; b += BATCH) {
            size_t first, count;
            DDP_SHARD(BATCH, &first, &count);
            int n = (int)count;
            const Pair *mine = pairs + b + first;
            unsigned id = (unsigned)(epoch * EPOCH_PAIRS + b + first);
            float rate = 6.0f * (1.0f - (float)words_seen / words_all);
            if (rate < 0.01f) rate = 0.01f;
            score<<<(n * (NEG + 1) + 63) / 64, 64>>>(mine, id, model.in, model.out, target, ds, loss, n);
            accumulate<<<(V * D + 63) / 64, 64>>>(mine, target, ds, model.in, model.out, model.gin, model.gout, n);
            DDP_STEP(0);
            model.step(rate);
            words_seen += count;
            if (b == 0 || (epoch == EPOCHS - 1 && b + BATCH >= EPOCH_PAIRS)) {
                std::vector<float> l(n * (NEG + 1));
                cudaMemcpy(l.data(), loss, l.size() * sizeof(float), cudaMemcpyDeviceToHost);
                float s = 0;
                for (float a : l) s += a / n;
                DDP_MEAN(&s);
                if (DDP_RANK() == 0) std::printf("epoch %d loss %.4f\n", epoch, s);
            }
        }
    if (argc > 1 && DDP_RANK() == 0) model.save(argv[1]);
    return 0;
}
