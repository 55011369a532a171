// Metric learning with triplets (anchor, positive, negative): max(0, |a-p|^2 - |a-n|^2 + margin)
#include "encoder.h"
#include <cstdio>
#include <random>
#include <vector>

constexpr int kFeatures = 20, kHidden = 24, kEmbedding = 4, kClasses = 8, kPoints = 512;
constexpr int kTriplets = 48, kSteps = 45;
constexpr float kMargin = 1.0f;

__global__ void triplet_loss(Encoder::Branch a, Encoder::Branch p, Encoder::Branch n, float *loss, int *active, int count)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    float dp = 0.f, dn = 0.f;
    for (int k = 0; k < kEmbedding; ++k) {
        const int j = i * kEmbedding + k;
        dp += (a.embedding[j] - p.embedding[j]) * (a.embedding[j] - p.embedding[j]);
        dn += (a.embedding[j] - n.embedding[j]) * (a.embedding[j] - n.embedding[j]);
    }
    const float l = dp - dn + kMargin, on = l > 0.f ? 2.f / count : 0.f;
    loss[i] = fmaxf(l, 0.f);
    if (l > 0.f) atomicAdd(active, 1);
    for (int k = 0; k < kEmbedding; ++k) {
        const int j = i * kEmbedding + k;
        a.dembedding[j] = on * (n.embedding[j] - p.embedding[j]);
        p.dembedding[j] = on * (p.embedding[j] - a.embedding[j]);
        n.dembedding[j] = on * (a.embedding[j] - n.embedding[j]);
    }
}

class TripletSampler {
public:
    TripletSampler() : rng_(123)
    {
        std::normal_distribution<float> normal;
        std::vector<float> mean(kClasses * kFeatures);
        for (auto &m : mean) m = 0.3f * normal(rng_);
        points_.resize(kPoints * kFeatures);
        members_.resize(kClasses);
        for (int i = 0; i < kPoints; ++i) {
            const int c = i % kClasses;
            members_[c].push_back(i);
            for (int f = 0; f < kFeatures; ++f) points_[i * kFeatures + f] = mean[c * kFeatures + f] + 0.6f * normal(rng_);
        }
    }

    void sample(std::vector<float> &anchor, std::vector<float> &positive, std::vector<float> &negative)
    {
        anchor.clear();
        positive.clear();
        negative.clear();
        for (int i = 0; i < kTriplets; ++i) {
            const int c = rng_() % kClasses, other = (c + 1 + rng_() % (kClasses - 1)) % kClasses;
            append(anchor, pick(c));
            append(positive, pick(c));
            append(negative, pick(other));
        }
    }

private:
    int pick(int c) { return members_[c][rng_() % members_[c].size()]; }
    void append(std::vector<float> &to, int i)
    {
        to.insert(to.end(), points_.begin() + i * kFeatures, points_.begin() + (i + 1) * kFeatures);
    }
    std::mt19937 rng_;
    std::vector<float> points_;
    std::vector<std::vector<int>> members_;
};

static void upload(float *dst, const std::vector<float> &src)
{
    cudaMemcpy(dst, src.data(), src.size() * sizeof(float), cudaMemcpyHostToDevice);
}

int main()
{
    TripletSampler sampler;
    Encoder encoder(kFeatures, kHidden, kEmbedding, kTriplets);
    Encoder::Branch a = encoder.make_branch(), p = encoder.make_branch(), n = encoder.make_branch();

    float *loss;
    int *active;
    cudaMalloc(&loss, kTriplets * sizeof(float));
    cudaMalloc(&active, sizeof(int));

    std::vector<float> ha, hp, hn, hl(kTriplets);
    for (int step = 0; step < kSteps; ++step) {
        sampler.sample(ha, hp, hn);
        upload(a.input, ha);
        upload(p.input, hp);
        upload(n.input, hn);
        for (const auto *b : {&a, &p, &n}) encoder.forward(*b);

        cudaMemset(active, 0, sizeof(int));
        triplet_loss<<<(kTriplets + 15) / 16, 16>>>(a, p, n, loss, active, kTriplets);
        encoder.backward(a, true);
        encoder.backward(p, false);
        encoder.backward(n, false);
        encoder.update(step < 30 ? 0.01f : 0.004f);

        if (step == 0 || step % 5 == 4) {
            int on;
            cudaMemcpy(hl.data(), loss, kTriplets * sizeof(float), cudaMemcpyDeviceToHost);
            cudaMemcpy(&on, active, sizeof on, cudaMemcpyDeviceToHost);
            float sum = 0.f;
            for (float l : hl) sum += l;
            std::printf("step %2d: loss %.4f, %d of %d triplets active\n", step + 1, sum / kTriplets, on, kTriplets);
        }
    }
    cudaFree(loss);
    cudaFree(active);
    return 0;
}
