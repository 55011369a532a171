// Tells two kinds of ripples in a signal apart: convolution, squares, mean over the signal, logistic output. The
// gradient of every filter is centred (its mean is taken off it, "gradient centralisation") before the ranks average.
//
// Centring is a linear map of the gradient, the same on all ranks, so the mean of the centred gradients is the centred
// mean: what one process has. The optimizer, which is not linear, comes after DDP_STEP.
#include <cuda_runtime.h>
#include <ddprun.h>
#include <cstdio>
#include <cmath>
#include <vector>

template <int LENGTH, int FILTERS, int TAPS> struct Shape {
    static constexpr int length = LENGTH, filters = FILTERS, taps = TAPS, places = LENGTH - TAPS + 1;
    static constexpr int weights = FILTERS * TAPS, all = FILTERS * TAPS + FILTERS + 1; // filters, output, offset
};

template <class S> __global__ void forward(const float *signal, const float *w, float *conv, float *pooled)
{
    int item = blockIdx.x, f = threadIdx.x;
    float sum = 0;
    for (int p = 0; p < S::places; ++p) {
        float c = 0;
        for (int t = 0; t < S::taps; ++t)
            c += signal[item * S::length + p + t] * w[f * S::taps + t];
        conv[(item * S::filters + f) * S::places + p] = c;
        sum += c * c;
    }
    pooled[item * S::filters + f] = sum / S::places;
}

template <class S> __global__ void output(const float *pooled, const float *w, const int *kind, float *delta, float *loss, int n)
{
    int item = blockIdx.x * blockDim.x + threadIdx.x;
    if (item >= n)
        return;
    float z = w[S::all - 1];
    for (int f = 0; f < S::filters; ++f)
        z += pooled[item * S::filters + f] * w[S::weights + f];
    float p = 1 / (1 + expf(-z));
    delta[item] = (p - kind[item]) / n;
    loss[item] = -logf((kind[item] ? p : 1 - p) + 1e-7f);
}

// A thread for each weight.
template <class S>
__global__ void backward(const float *signal, const float *conv, const float *pooled, const float *delta, const float *w, float *g, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= S::all)
        return;
    float sum = 0;
    for (int item = 0; item < n; ++item) {
        if (k < S::weights) {
            int f = k / S::taps, t = k % S::taps;
            float c = 0;
            for (int p = 0; p < S::places; ++p)
                c += conv[(item * S::filters + f) * S::places + p] * signal[item * S::length + p + t];
            sum += delta[item] * w[S::weights + f] * 2 * c / S::places;
        } else if (k < S::all - 1)
            sum += delta[item] * pooled[item * S::filters + k - S::weights];
        else
            sum += delta[item];
    }
    g[k] = sum;
}

template <class S> __global__ void centre(float *g)
{
    float *filter = g + threadIdx.x * S::taps, mean = 0;
    for (int t = 0; t < S::taps; ++t)
        mean += filter[t] / S::taps;
    for (int t = 0; t < S::taps; ++t)
        filter[t] -= mean;
}

__global__ void adamw(float *w, float *m, float *v, const float *g, float rate, float c1, float c2, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < n) {
        m[k] = 0.9f * m[k] + 0.1f * g[k];
        v[k] = 0.95f * v[k] + 0.05f * g[k] * g[k];
        w[k] -= rate * (m[k] / c1 / (sqrtf(v[k] / c2) + 1e-4f) + 0.01f * w[k]);
    }
}

template <class T> static T *gpu(const std::vector<T> &from)
{
    T *p = nullptr;
    if (cudaMalloc(&p, from.size() * sizeof(T)) == cudaSuccess)
        cudaMemcpy(p, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice);
    return p;
}

template <class S> static int train(int batch, int batches, int steps)
{
    std::vector<float> signal(batch * batches * S::length), w(S::all), host(batch);
    std::vector<int> kind(batch * batches);
    for (int i = 0; i < batch * batches; ++i) {
        kind[i] = i * 5 % 7 < 3;
        for (int p = 0; p < S::length; ++p)
            signal[i * S::length + p] = std::sin(p * (kind[i] ? 0.9f : 1.7f) + 0.61f * i) + 0.5f * std::sin(37.0f * p * i + p);
    }
    for (int k = 0; k < S::all; ++k)
        w[k] = 0.5f * std::cos(3.7f * k);
    float *gw = gpu(w), *g = gpu(std::vector<float>(S::all)), *m = gpu(std::vector<float>(S::all)), *v = gpu(std::vector<float>(S::all));
    float *x = gpu(signal), *conv = gpu(std::vector<float>(batch * S::filters * S::places));
    float *pooled = gpu(std::vector<float>(batch * S::filters)), *delta = gpu(host), *loss = gpu(host);
    int *y = gpu(kind);
    DDP_PARAMETER(gw, S::all, DDP_FLOAT32);
    DDP_STATE(m, S::all, DDP_FLOAT32);
    DDP_STATE(v, S::all, DDP_FLOAT32);
    DDP_GRADIENT(g, S::all, DDP_FLOAT32);
    for (int step = 1; step <= steps; ++step) {
        size_t first, n;
        DDP_SHARD(batch, &first, &n);
        first += (step - 1) % batches * batch;
        forward<S><<<n, S::filters>>>(x + first * S::length, gw, conv, pooled);
        output<S><<<1, batch>>>(pooled, gw, y + first, delta, loss, n);
        backward<S><<<(S::all + 31) / 32, 32>>>(x + first * S::length, conv, pooled, delta, gw, g, n);
        centre<S><<<1, S::filters>>>(g);
        DDP_STEP(0);
        adamw<<<(S::all + 31) / 32, 32>>>(gw, m, v, g, 0.08f, 1 - std::pow(0.9f, step), 1 - std::pow(0.95f, step), S::all);
        cudaMemcpy(host.data(), loss, n * sizeof(float), cudaMemcpyDeviceToHost);
        float mean = 0;
        for (size_t i = 0; i < n; ++i)
            mean += host[i] / n;
        DDP_MEAN(&mean);
        if (DDP_RANK() == 0)
            std::printf("%d %.4f\n", step, mean);
    }
    return cudaDeviceSynchronize();
}

int main() { return train<Shape<24, 6, 5>>(28, 4, 16); }
