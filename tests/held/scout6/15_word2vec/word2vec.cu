// Skip-gram with negative sampling. The corpus is a random walk over topics, so that words of a topic occur together.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>
#include <cuda_runtime.h>

namespace cuda {

inline void check(cudaError_t e)
{
    if (e != cudaSuccess) {
        std::fprintf(stderr, "cuda: %s\n", cudaGetErrorString(e));
        std::exit(1);
    }
}

struct Deleter {
    template <typename T>
    void operator()(T* p) const { cudaFree(const_cast<std::remove_const_t<T>*>(p)); }
};

template <typename T>
using unique_ptr = std::unique_ptr<T[], Deleter>;

template <typename T>
unique_ptr<T> make(std::size_t n)
{
    void* p = nullptr;
    check(cudaMalloc(&p, n * sizeof(T)));
    check(cudaMemset(p, 0, n * sizeof(T)));
    return unique_ptr<T>(static_cast<T*>(p));
}

template <typename T>
void upload(const unique_ptr<T>& dst, const std::vector<T>& src)
{
    check(cudaMemcpy(dst.get(), src.data(), src.size() * sizeof(T), cudaMemcpyHostToDevice));
}

}  // namespace cuda

constexpr int kVocab = 240;
constexpr int kDim = 24;
constexpr int kTopics = 12;
constexpr int kWindow = 2;
constexpr int kNegatives = 5;
constexpr int kPairs = 200;      // pairs in a batch

// One block for each pair, one thread for each dimension
__global__ void skipgram(const int* center, const int* context, const int* negatives, const float* in, const float* out,
                         float* grad_in, float* grad_out, float* loss)
{
    __shared__ float prod[kDim];
    const int p = blockIdx.x, d = threadIdx.x;
    const int c = center[p];
    const float vc = in[c * kDim + d];
    float gc = 0.0f, l = 0.0f;
    for (int k = 0; k <= kNegatives; ++k) {
        const int w = k == 0 ? context[p] : negatives[p * kNegatives + k - 1];
        const float label = k == 0 ? 1.0f : 0.0f;
        const float vw = out[w * kDim + d];
        prod[d] = vc * vw;
        __syncthreads();
        float dot = 0.0f;
        for (int j = 0; j < kDim; ++j)
            dot += prod[j];
        __syncthreads();
        const float s = 1.0f / (1.0f + expf(-dot));
        const float g = s - label;
        gc += g * vw;
        atomicAdd(&grad_out[w * kDim + d], g * vc);
        l -= logf(fmaxf(k == 0 ? s : 1.0f - s, 1e-7f));
    }
    atomicAdd(&grad_in[c * kDim + d], gc);
    if (d == 0)
        atomicAdd(loss, l);
}

__global__ void update_and_clear(float* w, float* g, float alpha, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        w[i] -= alpha * g[i];
        g[i] = 0.0f;
    }
}

// A batch on its way to the device: kPairs centers, kPairs contexts, kPairs * kNegatives negatives
struct Slot {
    static constexpr int size = kPairs * (2 + kNegatives);
    int *host, *device;
    cudaEvent_t copied, used;
};

int main()
{
    std::mt19937 rng(2013);
    std::vector<int> corpus;
    int topic = 0;
    for (int i = 0; i < 6000; ++i) {
        if (rng() % 12 == 0)
            topic = rng() % kTopics;
        corpus.push_back(topic * (kVocab / kTopics) + rng() % (kVocab / kTopics));
    }
    std::vector<std::pair<int, int>> pairs;
    for (int i = 0; i < (int)corpus.size(); ++i)
        for (int j = std::max(0, i - kWindow); j <= std::min((int)corpus.size() - 1, i + kWindow); ++j)
            if (i != j)
                pairs.emplace_back(corpus[i], corpus[j]);
    std::shuffle(pairs.begin(), pairs.end(), rng);

    auto syn0 = cuda::make<float>(kVocab * kDim);
    auto syn1neg = cuda::make<float>(kVocab * kDim);
    auto g0 = cuda::make<float>(kVocab * kDim);
    auto g1 = cuda::make<float>(kVocab * kDim);
    auto d_loss = cuda::make<float>(1);

    cudaStream_t copy, compute;
    cuda::check(cudaStreamCreate(&copy));
    cuda::check(cudaStreamCreate(&compute));
    Slot slots[2];
    for (Slot& s : slots) {
        cuda::check(cudaHostAlloc(&s.host, Slot::size * sizeof(int), cudaHostAllocDefault));
        cuda::check(cudaMalloc(&s.device, Slot::size * sizeof(int)));
        cuda::check(cudaEventCreateWithFlags(&s.copied, cudaEventDisableTiming));
        cuda::check(cudaEventCreateWithFlags(&s.used, cudaEventDisableTiming));
    }

    std::uniform_real_distribution<float> u(-0.25f, 0.25f);
    std::vector<float> init(kVocab * kDim);
    for (auto& x : init)
        x = u(rng);
    cuda::upload(syn0, init);
    for (auto& x : init)
        x = u(rng);
    cuda::upload(syn1neg, init);

    const int batches = (int)pairs.size() / kPairs;
    const float alpha0 = 0.12f;
    for (int b = 0; b < batches; ++b) {
        Slot& s = slots[b & 1];
        cuda::check(cudaEventSynchronize(s.copied));
        for (int p = 0; p < kPairs; ++p) {
            s.host[p] = pairs[b * kPairs + p].first;
            s.host[kPairs + p] = pairs[b * kPairs + p].second;
        }
        for (int i = 2 * kPairs; i < Slot::size; ++i)
            s.host[i] = rng() % kVocab;

        cuda::check(cudaStreamWaitEvent(copy, s.used, 0));
        cuda::check(cudaMemcpyAsync(s.device, s.host, Slot::size * sizeof(int), cudaMemcpyHostToDevice, copy));
        cuda::check(cudaEventRecord(s.copied, copy));
        cuda::check(cudaStreamWaitEvent(compute, s.copied, 0));

        skipgram<<<kPairs, kDim, 0, compute>>>(s.device, s.device + kPairs, s.device + 2 * kPairs, syn0.get(), syn1neg.get(),
                                               g0.get(), g1.get(), d_loss.get());
        cuda::check(cudaEventRecord(s.used, compute));
        const float alpha = alpha0 * std::max(0.05f, 1.0f - float(b) / batches);
        const int n = kVocab * kDim;
        update_and_clear<<<(n + 255) / 256, 256, 0, compute>>>(syn0.get(), g0.get(), alpha, n);
        update_and_clear<<<(n + 255) / 256, 256, 0, compute>>>(syn1neg.get(), g1.get(), alpha, n);

        if ((b + 1) % 20 == 0) {
            float sum = 0;
            cuda::check(cudaMemcpyAsync(&sum, d_loss.get(), sizeof(float), cudaMemcpyDeviceToHost, compute));
            cuda::check(cudaMemsetAsync(d_loss.get(), 0, sizeof(float), compute));
            cuda::check(cudaStreamSynchronize(compute));
            std::printf("batch %d/%d alpha %.4f loss %.4f\n", b + 1, batches, alpha, sum / (20 * kPairs));
        }
    }
    cuda::check(cudaDeviceSynchronize());
    return 0;
}
