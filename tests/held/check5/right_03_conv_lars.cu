// A small one-dimensional convolutional classifier with layer-wise normalised steps (LARS without momentum).
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

namespace cfg {
constexpr int length = 24, taps = 5, channels = 6, classes = 3, batch = 48, records = 384, steps = 90;
constexpr int out = length - taps + 1, kernel_size = channels * taps, dense_size = channels * classes;
} // namespace cfg

template <int N> struct Layer {
    float *w, *g, *rate;
    Layer(std::mt19937 &rng, float scale)
    {
        std::normal_distribution<float> normal(0, scale);
        std::vector<float> h(N);
        for (auto &v : h)
            v = normal(rng);
        cudaMalloc(&w, N * 4);
        cudaMalloc(&g, N * 4);
        cudaMalloc(&rate, 4);
        cudaMemcpy(w, h.data(), N * 4, cudaMemcpyHostToDevice);
    }
    void annotate()
    {
        DDP_PARAMETER(w, N, DDP_TYPE_OF(w));
        DDP_GRADIENT(g, N, DDP_TYPE_OF(g));
    }
    void update(float trust);
};

// conv, relu, mean over positions
__global__ void features(const float *x, const float *k, float *f)
{
    using namespace cfg;
    int item = blockIdx.x, c = threadIdx.x;
    float sum = 0;
    for (int p = 0; p < out; ++p) {
        float a = 0;
        for (int t = 0; t < taps; ++t)
            a += x[item * length + p + t] * k[c * taps + t];
        sum += fmaxf(a, 0.f);
    }
    f[item * channels + c] = sum / out;
}

__global__ void classify(const float *f, const float *w, const int *label, float *delta, float *loss)
{
    using namespace cfg;
    int item = blockIdx.x;
    float z = 0, p[classes];
    for (int c = 0; c < classes; ++c) {
        float s = 0;
        for (int i = 0; i < channels; ++i)
            s += f[item * channels + i] * w[i * classes + c];
        z += p[c] = expf(s);
    }
    for (int c = 0; c < classes; ++c)
        delta[item * classes + c] = p[c] / z - (label[item] == c);
    loss[item] = -logf(p[label[item]] / z);
}

// gradients of the sum of the losses
__global__ void dense_gradient(const float *f, const float *delta, float *g, int count)
{
    using namespace cfg;
    int i = threadIdx.x / classes, c = threadIdx.x % classes;
    float sum = 0;
    for (int n = 0; n < count; ++n)
        sum += f[n * channels + i] * delta[n * classes + c];
    g[threadIdx.x] = sum;
}

__global__ void kernel_gradient(const float *x, const float *k, const float *w, const float *delta, float *g, int count)
{
    using namespace cfg;
    int ch = threadIdx.x / taps, tap = threadIdx.x % taps;
    float sum = 0;
    for (int n = 0; n < count; ++n) {
        float df = 0;
        for (int c = 0; c < classes; ++c)
            df += delta[n * classes + c] * w[ch * classes + c] / out;
        for (int p = 0; p < out; ++p) {
            float a = 0;
            for (int t = 0; t < taps; ++t)
                a += x[n * length + p + t] * k[ch * taps + t];
            sum += a > 0 ? df * x[n * length + p + tap] : 0.f;
        }
    }
    g[threadIdx.x] = sum;
}

__global__ void trust_ratio(const float *w, const float *g, float *rate, float trust, int n)
{
    double ww = 0, gg = 0;
    for (int i = 0; i < n; ++i) {
        ww += (double)w[i] * w[i];
        gg += (double)g[i] * g[i];
    }
    *rate = trust * (float)std::sqrt(ww / (gg + 1e-30));
}

__global__ void lars(float *w, const float *g, const float *rate)
{
    w[threadIdx.x] -= *rate * g[threadIdx.x];
}

template <int N> void Layer<N>::update(float trust)
{
    trust_ratio<<<1, 1>>>(w, g, rate, trust, N);
    lars<<<1, N>>>(w, g, rate);
}

int main()
{
    using namespace cfg;
    std::mt19937 rng(11);
    std::normal_distribution<float> noise(0, 1.3f);
    std::vector<float> x(records * length);
    std::vector<int> y(records);
    for (int r = 0; r < records; ++r) {
        y[r] = rng() % classes;
        for (int i = 0; i < length; ++i)
            x[r * length + i] = std::sin((y[r] + 1) * .6f * i) + noise(rng);
    }
    float *dx, *f, *delta, *losses;
    int *dy;
    cudaMalloc(&dx, x.size() * 4);
    cudaMalloc(&dy, y.size() * 4);
    cudaMalloc(&f, batch * channels * 4);
    cudaMalloc(&delta, batch * classes * 4);
    cudaMalloc(&losses, batch * 4);
    cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), y.size() * 4, cudaMemcpyHostToDevice);
    Layer<kernel_size> conv(rng, .4f);
    Layer<dense_size> dense(rng, .4f);
    conv.annotate();
    dense.annotate();
    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(batch, &first, &count);
        size_t at = size_t(step % (records / batch)) * batch + first;
        features<<<count, channels>>>(dx + at * length, conv.w, f);
        classify<<<count, 1>>>(f, dense.w, dy + at, delta, losses);
        dense_gradient<<<1, dense_size>>>(f, delta, dense.g, count);
        kernel_gradient<<<1, kernel_size>>>(dx + at * length, conv.w, dense.w, delta, conv.g, count);
        DDP_STEP(0);
        conv.update(.02f);
        dense.update(.02f);
        if (step % 15 == 0 || step == steps - 1) {
            std::vector<float> l(count);
            cudaMemcpy(l.data(), losses, count * 4, cudaMemcpyDeviceToHost);
            float mean = 0;
            for (float v : l)
                mean += v / count;
            DDP_MEAN(&mean);
            if (DDP_RANK() == 0)
                std::printf("step %d: %.7g\n", step, mean);
        }
    }
}
