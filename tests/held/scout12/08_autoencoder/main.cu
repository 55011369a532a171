// Denoising-free autoencoder 36-20-6-20-36 in double precision; data set on the device, rows gathered by a shuffled index.
#include "tensor.h"
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>

using Real = double;
using Mat = Tensor<Real>;

template <typename T>
__global__ void gather(const T *all, const int *index, T *out, int n, int d)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n * d) out[i] = all[index[i / d] * d + i % d];
}

template <typename T, bool Tanh>
__global__ void affine(const T *x, const T *w, const T *b, T *y, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * out) return;
    int r = i / out, c = i % out;
    T s = b[c];
    for (int k = 0; k < in; ++k) s += x[r * in + k] * w[k * out + c];
    y[i] = Tanh ? tanh(s) : s;
}

template <typename T>
__global__ void mse_delta(const T *y, const T *t, T *d, T *err, int n, int dim)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    T s = 0;
    for (int k = 0; k < dim; ++k) {
        T e = y[r * dim + k] - t[r * dim + k];
        d[r * dim + k] = 2 * e / (T(n) * dim);
        s += e * e;
    }
    err[r] = s / dim;
}

template <typename T>
__global__ void tanh_delta(T *d, const T *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) d[i] *= 1 - y[i] * y[i];
}

template <typename T>
__global__ void affine_grad(const T *x, const T *d, T *gw, T *gb, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (in + 1) * out) return;
    int k = i / out, c = i % out;
    T s = 0;
    for (int r = 0; r < n; ++r) s += d[r * out + c] * (k < in ? x[r * in + k] : T(1));
    if (k < in) gw[k * out + c] = s; else gb[c] = s;
}

template <typename T>
__global__ void affine_input(const T *d, const T *w, T *dx, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * in) return;
    int r = i / in, k = i % in;
    T s = 0;
    for (int c = 0; c < out; ++c) s += d[r * out + c] * w[k * out + c];
    dx[i] = s;
}

template <typename T>
__global__ void rmsprop(T *w, const T *g, T *cache, int n, T lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    cache[i] = T(0.9) * cache[i] + T(0.1) * g[i] * g[i];
    w[i] -= lr * g[i] / (sqrt(cache[i]) + T(1e-7));
}

constexpr int threads = 128;
inline int grid(size_t n) { return int((n + threads - 1) / threads); }

struct Layer {
    int in, out;
    bool activation;
    Mat w, b, gw, gb, cw, cb, y, dx;
    Layer(int in, int out, int batch, bool act, std::mt19937 &rng)
        : in(in), out(out), activation(act), w(in, out), b(1, out), gw(in, out), gb(1, out), cw(in, out), cb(1, out),
          y(batch, out), dx(batch, in)
    {
        std::uniform_real_distribution<Real> u(-1, 1);
        std::vector<Real> h(w.size());
        for (auto &v : h) v = u(rng) * std::sqrt(6.0 / (in + out));
        w.upload(h);
    }
    Real *forward(const Real *x, int n)
    {
        if (activation)
            affine<Real, true><<<grid(n * out), threads>>>(x, w.data(), b.data(), y.data(), n, in, out);
        else
            affine<Real, false><<<grid(n * out), threads>>>(x, w.data(), b.data(), y.data(), n, in, out);
        return y.data();
    }
    Real *backward(const Real *x, Real *d, int n)
    {
        if (activation) tanh_delta<<<grid(n * out), threads>>>(d, y.data(), n * out);
        affine_grad<<<grid((in + 1) * out), threads>>>(x, d, gw.data(), gb.data(), n, in, out);
        affine_input<<<grid(n * in), threads>>>(d, w.data(), dx.data(), n, in, out);
        return dx.data();
    }
    void update(Real lr)
    {
        rmsprop<<<grid(w.size()), threads>>>(w.data(), gw.data(), cw.data(), (int)w.size(), lr);
        rmsprop<<<grid(b.size()), threads>>>(b.data(), gb.data(), cb.data(), (int)b.size(), lr);
    }
};

int main()
{
    const int dim = 36, count = 1280, batch = 64, epochs = 6;
    std::mt19937 rng(3);
    std::uniform_real_distribution<Real> u(0, 1);
    std::vector<Real> host(count * dim);
    for (int i = 0; i < count; ++i) {       // blobs on a 6x6 grid
        Real cx = 5 * u(rng), cy = 5 * u(rng), s = 0.5 + u(rng);
        for (int p = 0; p < dim; ++p) {
            Real dx = p % 6 - cx, dy = p / 6 - cy;
            host[i * dim + p] = std::exp(-(dx * dx + dy * dy) / (2 * s * s));
        }
    }
    Mat data(count, dim);
    data.upload(host);

    std::vector<std::unique_ptr<Layer>> layers;
    const int sizes[] = { dim, 20, 6, 20, dim };
    for (int l = 0; l < 4; ++l) layers.push_back(std::make_unique<Layer>(sizes[l], sizes[l + 1], batch, l < 3, rng));

    Mat x(batch, dim), delta(batch, dim), err(batch, 1);
    Tensor<int> index(1, count);
    std::vector<int> order(count);
    std::iota(order.begin(), order.end(), 0);

    for (int epoch = 0; epoch < epochs; ++epoch) {
        std::shuffle(order.begin(), order.end(), rng);
        index.upload(order);
        Real total = 0;
        int batches = 0;
        for (int first = 0; first + batch <= count; first += batch, ++batches) {
            gather<<<grid(batch * dim), threads>>>(data.data(), index.data() + first, x.data(), batch, dim);
            Real *a = x.data();
            for (auto &l : layers) a = l->forward(a, batch);
            mse_delta<<<grid(batch), threads>>>(a, x.data(), delta.data(), err.data(), batch, dim);
            Real *d = delta.data();
            for (int l = (int)layers.size() - 1; l >= 0; --l)
                d = layers[l]->backward(l ? layers[l - 1]->y.data() : x.data(), d, batch);
            for (auto &l : layers) l->update(0.003);
            for (Real e : err.download()) total += e;
        }
        std::printf("epoch %d  mse %.6f\n", epoch + 1, total / (batches * batch));
    }
    return 0;
}
