// Momentum contrast on two noisy views of a record: a query encoder learns, a key encoder follows it slowly, and a bank
// of earlier keys holds the negatives.
#include <cstdio>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

namespace moco {

constexpr int kIn = 10, kDim = 6, kBatch = 16, kBank = 64, kData = 256, kSteps = 150, kWeights = kIn * kDim;
constexpr float kTau = 0.5f, kFollow = 0.95f;

__global__ void Encode(const float *x, const float *w, float *out)
{
    int n = blockIdx.x, j = threadIdx.x;
    float s = 0;
    for (int i = 0; i < kIn; ++i)
        s += x[n * kIn + i] * w[i * kDim + j];
    out[n * kDim + j] = tanhf(s);
}

// InfoNCE; leaves dL/dq before the tanh in dq
__global__ void Contrast(const float *q, const float *k, const float *bank, float *dq, float *loss, float inv)
{
    int n = blockIdx.x;
    const float *qn = q + n * kDim, *kn = k + n * kDim;
    float positive = 0, z, sum[kDim];
    for (int j = 0; j < kDim; ++j)
        positive += qn[j] * kn[j] / kTau;
    z = expf(positive);
    for (int j = 0; j < kDim; ++j)
        sum[j] = z * kn[j];
    for (int b = 0; b < kBank; ++b) {
        float s = 0;
        for (int j = 0; j < kDim; ++j)
            s += qn[j] * bank[b * kDim + j] / kTau;
        s = expf(s);
        z += s;
        for (int j = 0; j < kDim; ++j)
            sum[j] += s * bank[b * kDim + j];
    }
    loss[n] = logf(z) - positive;
    for (int j = 0; j < kDim; ++j)
        dq[n * kDim + j] = (sum[j] / z - kn[j]) / kTau * inv * (1 - qn[j] * qn[j]);
}

__global__ void WeightGradient(const float *x, const float *dq, float *g, int count)
{
    float s = 0;
    for (int n = 0; n < count; ++n)
        s += x[n * kIn + blockIdx.x] * dq[n * kDim + threadIdx.x];
    g[blockIdx.x * kDim + threadIdx.x] = s;
}

__global__ void Descend(float *w, const float *g, float rate)
{
    int i = blockIdx.x * kDim + threadIdx.x;
    w[i] -= rate * g[i];
}

__global__ void Follow(float *slow, const float *w)
{
    int i = blockIdx.x * kDim + threadIdx.x;
    slow[i] = kFollow * slow[i] + (1 - kFollow) * w[i];
}

class Device {
public:
    explicit Device(const std::vector<float> &host)
    {
        cudaMalloc(&p_, host.size() * sizeof(float));
        cudaMemcpy(p_, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice);
    }
    float *get() const { return p_; }

private:
    float *p_;
};

} // namespace moco

int main()
{
    using namespace moco;
    std::mt19937 rng(17);
    std::normal_distribution<float> normal;
    std::vector<float> a(kData * kIn), b(kData * kIn), init(kWeights), noise(kBank * kDim);
    for (int n = 0; n < kData; ++n)
        for (int i = 0; i < kIn; ++i) {
            float v = normal(rng);
            a[n * kIn + i] = v + .4f * normal(rng);
            b[n * kIn + i] = v + .4f * normal(rng);
        }
    for (auto &v : init)
        v = .3f * normal(rng);
    for (auto &v : noise)
        v = std::tanh(normal(rng));
    Device view1(a), view2(b), w(init), slow(init), bank(noise), g(init);
    const std::vector<float> empty(kBatch * kDim);
    Device q(empty), keys(empty), dq(empty);
    Device loss(std::vector<float>(kBatch, 0.f));
    DDP_PARAMETER(w.get(), kWeights, DDP_FLOAT32);
    DDP_STATE(slow.get(), kWeights, DDP_FLOAT32);
    DDP_GRADIENT(g.get(), kWeights, DDP_FLOAT32);
    size_t head = 0;
    for (int step = 0; step < kSteps; ++step) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        size_t at = (step % (kData / kBatch) * kBatch + first) * kIn;
        Encode<<<count, kDim>>>(view1.get() + at, w.get(), q.get());
        Encode<<<count, kDim>>>(view2.get() + at, slow.get(), keys.get());
        Contrast<<<count, 1>>>(q.get(), keys.get(), bank.get(), dq.get(), loss.get(), 1.f / count);
        WeightGradient<<<kIn, kDim>>>(view1.get() + at, dq.get(), g.get(), count);
        DDP_STEP(0);
        Descend<<<kIn, kDim>>>(w.get(), g.get(), .3f);
        Follow<<<kIn, kDim>>>(slow.get(), w.get());
        cudaMemcpyAsync(bank.get() + head * kDim, keys.get(), count * kDim * sizeof(float), cudaMemcpyDeviceToDevice);
        head = (head + count) % kBank;
        if (step % 25 == 0 || step == kSteps - 1) {
            std::vector<float> l(count);
            cudaMemcpy(l.data(), loss.get(), count * sizeof(float), cudaMemcpyDeviceToHost);
            float mean = 0;
            for (float v : l)
                mean += v / count;
            DDP_MEAN_AS("infonce", &mean);
            if (DDP_RANK() == 0)
                std::printf("step %d infonce %.7g\n", step, mean);
        }
    }
}
