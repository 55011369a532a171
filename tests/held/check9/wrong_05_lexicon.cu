// word2vec, skip-gram with negative sampling, on a synthetic corpus with topics.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include "ddprun.h"

namespace {

constexpr int kVocab = 60, kDim = 16, kNeg = 4, kPairs = 96, kCorpus = 8000;

class Xorshift {
public:
    explicit Xorshift(unsigned seed) : s_(seed) {}
    unsigned next() { s_ ^= s_ << 13; s_ ^= s_ >> 17; s_ ^= s_ << 5; return s_; }
    int below(int n) { return (int)(next() % (unsigned)n); }
    float symmetric() { return next() / 2147483648.0f - 1.0f; }
private:
    unsigned s_;
};

// One thread for each (pair, candidate): the coefficient sigmoid(u.v) - label, divided by the number of pairs
__global__ void coefficients(const float *in, const float *out, const int *centre, const int *cand, float *coef,
                             float *loss, int pairs)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= pairs * (1 + kNeg)) return;
    int p = i / (1 + kNeg), c = i % (1 + kNeg);
    const float *u = in + centre[p] * kDim, *v = out + cand[i] * kDim;
    float dot = 0;
    for (int d = 0; d < kDim; ++d) dot += u[d] * v[d];
    float s = 1 / (1 + expf(-dot));
    coef[i] = (s - (c == 0)) / pairs;
    loss[i] = -logf((c == 0 ? s : 1 - s) + 1e-9f);
}

__global__ void input_gradient(const float *out, const int *centre, const int *cand, const float *coef, float *g, int pairs)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= kVocab * kDim) return;
    int word = i / kDim, d = i % kDim;
    float a = 0;
    for (int p = 0; p < pairs; ++p)
        if (centre[p] == word)
            for (int c = 0; c <= kNeg; ++c) a += coef[p * (1 + kNeg) + c] * out[cand[p * (1 + kNeg) + c] * kDim + d];
    g[i] = a;
}

__global__ void output_gradient(const float *in, const int *centre, const int *cand, const float *coef, float *g, int pairs)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= kVocab * kDim) return;
    int word = i / kDim, d = i % kDim;
    float a = 0;
    for (int e = 0; e < pairs * (1 + kNeg); ++e)
        if (cand[e] == word) a += coef[e] * in[centre[e / (1 + kNeg)] * kDim + d];
    g[i] = a;
}

__global__ void sgd(float *w, const float *g, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < kVocab * kDim) w[i] -= rate * g[i];
}

struct Table {
    float *w = nullptr, *g = nullptr;
    void init(Xorshift &r, float scale)
    {
        std::vector<float> v(kVocab * kDim);
        for (float &e : v) e = scale * r.symmetric();
        cudaMalloc(&w, v.size() * sizeof(float));
        cudaMalloc(&g, v.size() * sizeof(float));
        cudaMemcpy(w, v.data(), v.size() * sizeof(float), cudaMemcpyHostToDevice);
    }
    void dump(FILE *f) const
    {
        std::vector<float> v(kVocab * kDim);
        cudaMemcpy(v.data(), w, v.size() * sizeof(float), cudaMemcpyDeviceToHost);
        for (float e : v) fprintf(f, "%.9g\n", e);
    }
};

std::vector<int> synthesise(Xorshift &r)
{
    std::vector<int> text(kCorpus);
    int topic = 0;
    for (int i = 0; i < kCorpus; ++i) {
        if (r.below(25) == 0) topic = r.below(6);
        text[i] = r.below(5) == 0 ? r.below(kVocab) : topic * 10 + r.below(10);
    }
    return text;
}

} // namespace

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    Xorshift data(4242u), init(99u), sampler(31337u);
    const std::vector<int> text = synthesise(data);
    Table in, out;
    in.init(init, 0.5f);
    out.init(init, 0.3f);
    DDP_PARAMETER(in.w, kVocab * kDim, DDP_FLOAT32);
    DDP_PARAMETER(out.w, kVocab * kDim, DDP_FLOAT32);
    DDP_GRADIENT(in.g, kVocab * kDim, DDP_FLOAT32);
    DDP_GRADIENT(out.g, kVocab * kDim, DDP_FLOAT32);

    int *centre, *cand;
    float *coef, *loss;
    cudaMalloc(&centre, kPairs * sizeof(int));
    cudaMalloc(&cand, kPairs * (1 + kNeg) * sizeof(int));
    cudaMalloc(&coef, kPairs * (1 + kNeg) * sizeof(float));
    cudaMalloc(&loss, kPairs * (1 + kNeg) * sizeof(float));
    const int grid = (kVocab * kDim + 127) / 128;
    double smooth = 0;
    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(kPairs, &first, &count);
        std::vector<int> hc(count), hk(count * (1 + kNeg));
        for (size_t p = 0; p < count; ++p) {
            int at = 2 + (int)((step * kPairs + first + p) % (kCorpus - 4));
            hc[p] = text[at];
            hk[p * (1 + kNeg)] = text[at + (at % 2 ? 1 : -2)];
            for (int c = 1; c <= kNeg; ++c) hk[p * (1 + kNeg) + c] = sampler.below(kVocab);
        }
        cudaMemcpy(centre, hc.data(), hc.size() * sizeof(int), cudaMemcpyHostToDevice);
        cudaMemcpy(cand, hk.data(), hk.size() * sizeof(int), cudaMemcpyHostToDevice);
        int pairs = (int)count, n = pairs * (1 + kNeg);
        coefficients<<<(n + 63) / 64, 64>>>(in.w, out.w, centre, cand, coef, loss, pairs);
        input_gradient<<<grid, 128>>>(out.w, centre, cand, coef, in.g, pairs);
        output_gradient<<<grid, 128>>>(in.w, centre, cand, coef, out.g, pairs);
        DDP_STEP(0);
        sgd<<<grid, 128>>>(in.w, in.g, 2.5f);
        sgd<<<grid, 128>>>(out.w, out.g, 2.5f);
        std::vector<float> l(n);
        cudaMemcpy(l.data(), loss, n * sizeof(float), cudaMemcpyDeviceToHost);
        double mean = 0;
        for (float e : l) mean += e / pairs;
        smooth = step ? 0.9 * smooth + 0.1 * mean : mean;
        if (step % 10 == 0 || step == steps - 1) printf("step %d loss %.4f\n", step, smooth);
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "w");
        in.dump(f);
        out.dump(f);
        fclose(f);
    }
    return 0;
}
