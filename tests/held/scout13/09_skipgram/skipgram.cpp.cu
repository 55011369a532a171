// Skip-gram with negative sampling. Pairs and negatives are drawn on the CPU into pinned memory; the gradient of each
// table is dense, which is fine for a small vocabulary.
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include <cuda_runtime.h>

namespace w2v {

constexpr int kNegatives = 4;

struct Sample {
    int center;
    int context;
    int negative[kNegatives];
};

struct CudaFree { void operator()(void *p) const { cudaFree(p); } };
struct CudaFreeHost { void operator()(void *p) const { cudaFreeHost(p); } };
template <class T> using DevicePtr = std::unique_ptr<T[], CudaFree>;
template <class T> using PinnedPtr = std::unique_ptr<T[], CudaFreeHost>;

template <class T> DevicePtr<T> device(size_t n)
{
    void *p = nullptr;
    if (cudaMalloc(&p, n * sizeof(T)) != cudaSuccess) throw std::bad_alloc();
    return DevicePtr<T>(static_cast<T *>(p));
}

template <class T> PinnedPtr<T> pinned(size_t n)
{
    void *p = nullptr;
    if (cudaMallocHost(&p, n * sizeof(T)) != cudaSuccess) throw std::bad_alloc();
    return PinnedPtr<T>(static_cast<T *>(p));
}

__global__ void gradients(const Sample *samples, int n, const float *in, const float *out, float *gin, float *gout,
                          float *loss, int dim)
{
    extern __shared__ float hidden[];
    const Sample &s = samples[blockIdx.x];
    const int j = threadIdx.x;
    const float v = in[s.center * dim + j];
    float dv = 0.f, l = 0.f;
    for (int k = 0; k <= kNegatives; ++k) {
        const int word = k == 0 ? s.context : s.negative[k - 1];
        const float u = out[word * dim + j];
        hidden[j] = u * v;
        __syncthreads();
        float dot = 0.f;
        for (int d = 0; d < dim; ++d) dot += hidden[d];
        __syncthreads();
        const float p = 1.f / (1.f + expf(-dot));
        const float g = (p - (k == 0 ? 1.f : 0.f)) / n;
        l -= logf((k == 0 ? p : 1.f - p) + 1e-7f);
        dv += g * u;
        atomicAdd(&gout[word * dim + j], g * v);
    }
    atomicAdd(&gin[s.center * dim + j], dv);
    if (j == 0) loss[blockIdx.x] = l;
}

__global__ void sgd(float *w, const float *g, int n, float rate)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= rate * g[i];
}

class Corpus {
public:
    Corpus(int vocabulary, int length, unsigned seed) : vocabulary_(vocabulary), rng_(seed)
    {
        int word = 0;
        for (int i = 0; i < length; ++i) {  // words of one group follow each other
            const int group = word / 10;
            word = rng_() % 8 == 0 ? rng_() % vocabulary : group * 10 + rng_() % 10;
            text_.push_back(word);
        }
    }
    Sample draw()
    {
        const int window = 2;
        Sample s;
        const int at = window + rng_() % (text_.size() - 2 * window);
        int shift = 1 + rng_() % window;
        if (rng_() & 1) shift = -shift;
        s.center = text_[at];
        s.context = text_[at + shift];
        for (int &n : s.negative) n = rng_() % vocabulary_;
        return s;
    }

private:
    int vocabulary_;
    std::mt19937 rng_;
    std::vector<int> text_;
};

} // namespace w2v

int main()
{
    using namespace w2v;
    const int vocabulary = 100, dim = 16, batch = 96, steps = 60;
    Corpus corpus(vocabulary, 4000, 11);

    const size_t n = size_t(vocabulary) * dim;
    auto in = device<float>(n), out = device<float>(n), gin = device<float>(n), gout = device<float>(n);
    auto samples = device<Sample>(batch);
    auto loss = device<float>(batch);
    auto hostSamples = pinned<Sample>(batch);
    auto hostLoss = pinned<float>(batch);

    std::mt19937 rng(1);
    std::uniform_real_distribution<float> u(-0.5f, 0.5f);
    std::vector<float> init(n);
    for (auto &x : init) x = u(rng);
    cudaMemcpy(in.get(), init.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    for (auto &x : init) x = 0.2f * u(rng);
    cudaMemcpy(out.get(), init.data(), n * sizeof(float), cudaMemcpyHostToDevice);

    cudaStream_t stream;
    cudaStreamCreate(&stream);
    double running = 0;
    for (int step = 0; step < steps; ++step) {
        for (int i = 0; i < batch; ++i) hostSamples[i] = corpus.draw();
        cudaMemcpyAsync(samples.get(), hostSamples.get(), batch * sizeof(Sample), cudaMemcpyHostToDevice, stream);
        cudaMemsetAsync(gin.get(), 0, n * sizeof(float), stream);
        cudaMemsetAsync(gout.get(), 0, n * sizeof(float), stream);
        gradients<<<batch, dim, dim * sizeof(float), stream>>>(samples.get(), batch, in.get(), out.get(), gin.get(),
                                                               gout.get(), loss.get(), dim);
        const float rate = 12.f * (1.f - 0.9f * step / steps);
        sgd<<<(n + 127) / 128, 128, 0, stream>>>(in.get(), gin.get(), n, rate);
        sgd<<<(n + 127) / 128, 128, 0, stream>>>(out.get(), gout.get(), n, rate);
        cudaMemcpyAsync(hostLoss.get(), loss.get(), batch * sizeof(float), cudaMemcpyDeviceToHost, stream);
        cudaStreamSynchronize(stream);
        double mean = 0;
        for (int i = 0; i < batch; ++i) mean += hostLoss[i];
        running += mean / batch;
        if (step % 10 == 9) {
            printf("step %d loss %.4f\n", step + 1, running / 10);
            running = 0;
        }
    }
    cudaStreamDestroy(stream);
    return 0;
}
