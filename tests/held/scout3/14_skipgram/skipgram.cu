// word2vec, skip-gram with negative sampling on a synthetic corpus; Adagrad.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>
#include <cuda_runtime.h>

namespace {

constexpr int kVocab = 120;
constexpr int kDim = 16;
constexpr int kWindow = 2;
constexpr int kNegatives = 4;
constexpr int kTopics = 6;

struct Pair { int centre, context; };

struct Options {
    int pairs_per_batch = 160;
    int num_steps = 150;
    float learning_rate = 0.3f;
};

// one warp-sized block per (centre, context) pair
__global__ void SkipGramKernel(const Pair *pairs, const int *negatives, const float *in, const float *out,
                               float *grad_in, float *grad_out, float *loss, int num_pairs)
{
    __shared__ float dots[kDim];
    const int p = blockIdx.x, d = threadIdx.x;
    const Pair pair = pairs[p];
    const float u = in[pair.centre * kDim + d];
    float gu = 0.f, l = 0.f;
    for (int k = 0; k <= kNegatives; ++k) {
        const int word = k == 0 ? pair.context : negatives[p * kNegatives + k - 1];
        const float label = k == 0 ? 1.f : 0.f;
        const float v = out[word * kDim + d];
        dots[d] = u * v;
        __syncthreads();
        float z = 0.f;
        for (int i = 0; i < kDim; ++i) z += dots[i];
        __syncthreads();
        const float s = 1.f / (1.f + expf(-z));
        const float e = (s - label) / num_pairs;
        gu += e * v;
        atomicAdd(&grad_out[word * kDim + d], e * u);
        l -= logf(label > 0.f ? s + 1e-8f : 1.f - s + 1e-8f);
    }
    atomicAdd(&grad_in[pair.centre * kDim + d], gu);
    if (d == 0) atomicAdd(loss, l / num_pairs);
}

__global__ void AdagradKernel(float *w, float *grad, float *acc, int n, float lr)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float g = grad[i];
    if (g == 0.f) return;
    acc[i] += g * g;
    w[i] -= lr * g * rsqrtf(acc[i] + 1e-10f);
}

class EmbeddingTable {
public:
    EmbeddingTable(int rows, float scale, std::mt19937 *rng) : n_(rows * kDim)
    {
        cudaMalloc(&weights_, n_ * sizeof(float));
        cudaMalloc(&grads_, n_ * sizeof(float));
        cudaMalloc(&history_, n_ * sizeof(float));
        cudaMemset(history_, 0, n_ * sizeof(float));
        std::uniform_real_distribution<float> dist(-scale, scale);
        std::vector<float> host(n_);
        for (float &h : host) h = dist(*rng);
        cudaMemcpy(weights_, host.data(), n_ * sizeof(float), cudaMemcpyHostToDevice);
    }
    ~EmbeddingTable()
    {
        cudaFree(weights_);
        cudaFree(grads_);
        cudaFree(history_);
    }
    void ZeroGrad() { cudaMemsetAsync(grads_, 0, n_ * sizeof(float)); }
    void Apply(float lr) { AdagradKernel<<<(n_ + 255) / 256, 256>>>(weights_, grads_, history_, n_, lr); }
    const float *weights() const { return weights_; }
    float *grads() { return grads_; }

private:
    int n_;
    float *weights_, *grads_, *history_;
};

std::vector<int> MakeCorpus(int length, std::mt19937 *rng)
{
    std::vector<int> corpus(length);
    int topic = 0;
    for (int i = 0; i < length; ++i) {
        if ((*rng)() % 12 == 0) topic = (*rng)() % kTopics;
        corpus[i] = topic * (kVocab / kTopics) + (*rng)() % (kVocab / kTopics);
    }
    return corpus;
}

}  // namespace

int main()
{
    Options opt;
    std::mt19937 rng(2013);
    const std::vector<int> corpus = MakeCorpus(3000, &rng);
    std::vector<Pair> pairs;
    for (int i = 0; i < (int)corpus.size(); ++i)
        for (int w = -kWindow; w <= kWindow; ++w)
            if (w != 0 && i + w >= 0 && i + w < (int)corpus.size()) pairs.push_back({corpus[i], corpus[i + w]});
    for (size_t i = pairs.size() - 1; i > 0; --i) std::swap(pairs[i], pairs[rng() % (i + 1)]);
    std::printf("%zu pairs\n", pairs.size());

    EmbeddingTable in(kVocab, 0.5f, &rng), out(kVocab, 0.1f, &rng);
    Pair *d_pairs;
    int *d_neg;
    float *d_loss;
    cudaMalloc(&d_pairs, opt.pairs_per_batch * sizeof(Pair));
    cudaMalloc(&d_neg, opt.pairs_per_batch * kNegatives * sizeof(int));
    cudaMalloc(&d_loss, sizeof(float));
    std::vector<int> neg(opt.pairs_per_batch * kNegatives);

    size_t cursor = 0;
    float running = 0.f;
    for (int step = 0; step < opt.num_steps; ++step) {
        if (cursor + opt.pairs_per_batch > pairs.size()) cursor = 0;
        for (int &n : neg) n = rng() % kVocab;
        cudaMemcpy(d_pairs, pairs.data() + cursor, opt.pairs_per_batch * sizeof(Pair), cudaMemcpyHostToDevice);
        cudaMemcpy(d_neg, neg.data(), neg.size() * sizeof(int), cudaMemcpyHostToDevice);
        cursor += opt.pairs_per_batch;

        in.ZeroGrad();
        out.ZeroGrad();
        cudaMemsetAsync(d_loss, 0, sizeof(float));
        SkipGramKernel<<<opt.pairs_per_batch, kDim>>>(d_pairs, d_neg, in.weights(), out.weights(), in.grads(),
                                                      out.grads(), d_loss, opt.pairs_per_batch);
        const float lr = opt.learning_rate * (1.f - 0.5f * step / opt.num_steps);
        in.Apply(lr);
        out.Apply(lr);

        float loss;
        cudaMemcpy(&loss, d_loss, sizeof(float), cudaMemcpyDeviceToHost);
        running = step == 0 ? loss : 0.9f * running + 0.1f * loss;
        if (step % 15 == 0 || step == opt.num_steps - 1) std::printf("step %3d  loss %.5f\n", step, running);
    }
    cudaFree(d_pairs);
    cudaFree(d_neg);
    cudaFree(d_loss);
    return 0;
}
