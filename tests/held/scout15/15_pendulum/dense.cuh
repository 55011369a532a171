#pragma once
// Fully connected layers, templated on the number type and the activation.
#include <cuda_runtime.h>
#include <cmath>
#include <random>
#include <vector>

struct Tanh {
    template <typename T> static __device__ T apply(T v) { return tanh(v); }
    template <typename T> static __device__ T slope(T y) { return T(1) - y * y; }
};
struct Identity {
    template <typename T> static __device__ T apply(T v) { return v; }
    template <typename T> static __device__ T slope(T) { return T(1); }
};

template <typename T> struct Buffer {
    T *data = nullptr;
    int size = 0;
    explicit Buffer(int n) : size(n) {
        cudaMalloc(&data, n * sizeof(T));
        cudaMemset(data, 0, n * sizeof(T));
    }
    Buffer(const Buffer &) = delete;
    ~Buffer() { cudaFree(data); }
};

inline int blocksFor(int n) { return (n + 127) / 128; }

template <typename T, typename Act>
__global__ void denseForward(const T *x, const T *w, const T *b, T *y, int n, int in, int out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * out) return;
    T s = b[i % out];
    for (int k = 0; k < in; ++k) s += x[(i / out) * in + k] * w[k * out + i % out];
    y[i] = Act::apply(s);
}

template <typename T, typename Act> __global__ void denseDelta(T *dy, const T *y, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) dy[i] *= Act::slope(y[i]);
}

template <typename T>
__global__ void denseGradient(const T *x, const T *dy, T *gw, T *gb, int n, int in, int out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (in + 1) * out) return;
    int k = i / out, c = i % out;
    T s = 0;
    for (int r = 0; r < n; ++r) s += dy[r * out + c] * (k < in ? x[r * in + k] : T(1));
    if (k < in) gw[i] = s / n;
    else gb[c] = s / n;
}

template <typename T> __global__ void denseInputGradient(const T *dy, const T *w, T *dx, int n, int in, int out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * in) return;
    T s = 0;
    for (int c = 0; c < out; ++c) s += dy[(i / in) * out + c] * w[(i % in) * out + c];
    dx[i] = s;
}

template <typename T> __global__ void rmsprop(T *w, const T *g, T *sq, int n, T lr) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    sq[i] = T(0.9) * sq[i] + T(0.1) * g[i] * g[i];
    w[i] -= lr * g[i] / (sqrt(sq[i]) + T(1e-4));
}

template <typename T, typename Act> class Dense {
public:
    Dense(int in, int out, int batch, std::mt19937 &rng)
        : in_(in), out_(out), w(in * out), b(out), gw(in * out), gb(out), sw(in * out), sb(out), y(batch * out), dx(batch * in) {
        std::normal_distribution<double> d(0.0, 1.0 / std::sqrt(in));
        std::vector<T> h(in * out);
        for (auto &v : h) v = T(d(rng));
        cudaMemcpy(w.data, h.data(), h.size() * sizeof(T), cudaMemcpyHostToDevice);
    }
    const T *forward(const T *x, int n) {
        x_ = x;
        denseForward<T, Act><<<blocksFor(n * out_), 128>>>(x, w.data, b.data, y.data, n, in_, out_);
        return y.data;
    }
    T *backward(T *dy, int n) {
        denseDelta<T, Act><<<blocksFor(n * out_), 128>>>(dy, y.data, n * out_);
        denseGradient<<<blocksFor((in_ + 1) * out_), 128>>>(x_, dy, gw.data, gb.data, n, in_, out_);
        denseInputGradient<<<blocksFor(n * in_), 128>>>(dy, w.data, dx.data, n, in_, out_);
        return dx.data;
    }
    void update(T lr) {
        rmsprop<<<blocksFor(w.size), 128>>>(w.data, gw.data, sw.data, w.size, lr);
        rmsprop<<<blocksFor(b.size), 128>>>(b.data, gb.data, sb.data, b.size, lr);
    }

private:
    int in_, out_;
    Buffer<T> w, b, gw, gb, sw, sb, y, dx;
    const T *x_ = nullptr;
};
