// Denoising autoencoder for one dimensional signals: 48 -> 32 -> 8 -> 32 -> 48, trained with Adam.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>
#include "device_buffer.h"

struct Identity {
    static __device__ float f(float x) { return x; }
    static __device__ float df(float) { return 1.0f; }
};
struct LeakyRelu {
    static __device__ float f(float x) { return x > 0 ? x : 0.1f * x; }
    static __device__ float df(float y) { return y > 0 ? 1.0f : 0.1f; }
};

template <typename T, typename Act>
__global__ void denseForward(const T *x, const T *w, const T *b, T *y, int in, int out)
{
    const int s = blockIdx.x;
    for (int o = threadIdx.x; o < out; o += blockDim.x) {
        T a = b[o];
        for (int i = 0; i < in; ++i)
            a += x[s * in + i] * w[o * in + i];
        y[s * out + o] = Act::f(a);
    }
}

template <typename T, typename Act>
__global__ void denseBackwardInput(T *dy, const T *y, const T *w, T *dx, int in, int out)
{
    const int s = blockIdx.x;
    for (int o = threadIdx.x; o < out; o += blockDim.x)
        dy[s * out + o] *= Act::df(y[s * out + o]);
    __syncthreads();
    for (int i = threadIdx.x; i < in; i += blockDim.x) {
        T a = 0;
        for (int o = 0; o < out; ++o)
            a += dy[s * out + o] * w[o * in + i];
        dx[s * in + i] = a;
    }
}

template <typename T> __global__ void denseBackwardWeights(const T *dy, const T *x, T *dw, T *db, int in, int out, int batch)
{
    const int o = blockIdx.x;
    for (int i = threadIdx.x; i <= in; i += blockDim.x) {
        T a = 0;
        for (int s = 0; s < batch; ++s)
            a += dy[s * out + o] * (i < in ? x[s * in + i] : T(1));
        if (i < in)
            dw[o * in + i] = a;
        else
            db[o] = a;
    }
}

template <typename T> __global__ void reconstructionLoss(const T *y, const T *target, T *dy, T *loss, int n, T scale)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const T d = y[i] - target[i];
        dy[i] = 2 * d * scale;
        loss[i] = d * d;
    }
}

template <typename T> __global__ void adamKernel(T *p, const T *g, T *m, T *v, int n, T lr, T c1, T c2)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        m[i] = T(0.9) * m[i] + T(0.1) * g[i];
        v[i] = T(0.999) * v[i] + T(0.001) * g[i] * g[i];
        p[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + T(1e-8));
    }
}

template <typename T> struct Tensor {
    DeviceBuffer<T> value, grad, m, v;
    explicit Tensor(size_t n) : value(n), grad(n), m(n), v(n) {}
};

template <typename T> struct LayerBase {
    virtual ~LayerBase() = default;
    virtual T *forward(const T *x, int batch) = 0;
    virtual T *backward(T *dy, int batch) = 0;
    virtual std::vector<Tensor<T> *> tensors() = 0;
};

template <typename T, typename Act> class Dense : public LayerBase<T> {
public:
    Dense(int in, int out, int batch, std::mt19937 &g) : in_(in), out_(out), w_(in * out), b_(out), y_(batch * out), dx_(batch * in)
    {
        std::normal_distribution<T> nd(0, std::sqrt(T(2) / in));
        std::vector<T> h(in * out);
        for (auto &x : h)
            x = nd(g);
        w_.value.upload(h);
    }
    T *forward(const T *x, int batch) override
    {
        x_ = x;
        denseForward<T, Act><<<batch, 32>>>(x, w_.value.data(), b_.value.data(), y_.data(), in_, out_);
        return y_.data();
    }
    T *backward(T *dy, int batch) override
    {
        denseBackwardInput<T, Act><<<batch, 32>>>(dy, y_.data(), w_.value.data(), dx_.data(), in_, out_);
        denseBackwardWeights<T><<<out_, 32>>>(dy, x_, w_.grad.data(), b_.grad.data(), in_, out_, batch);
        return dx_.data();
    }
    std::vector<Tensor<T> *> tensors() override { return {&w_, &b_}; }

private:
    int in_, out_;
    Tensor<T> w_, b_;
    DeviceBuffer<T> y_, dx_;
    const T *x_ = nullptr;
};

template <typename T> class Adam {
public:
    Adam(std::vector<Tensor<T> *> ts, T lr) : ts_(std::move(ts)), lr_(lr) {}
    void step()
    {
        ++t_;
        const T c1 = 1 - std::pow(T(0.9), t_), c2 = 1 - std::pow(T(0.999), t_);
        for (auto *t : ts_) {
            const int n = (int)t->value.size();
            adamKernel<T><<<(n + 127) / 128, 128>>>(t->value.data(), t->grad.data(), t->m.data(), t->v.data(), n, lr_, c1, c2);
        }
    }

private:
    std::vector<Tensor<T> *> ts_;
    T lr_;
    int t_ = 0;
};

class SignalSource {
public:
    explicit SignalSource(unsigned seed, int length) : gen_(seed), length_(length) {}
    void fill(std::vector<float> &noisy, std::vector<float> &clean)
    {
        std::uniform_real_distribution<float> u(0.0f, 1.0f);
        std::normal_distribution<float> noise(0.0f, 0.1f);
        for (size_t s = 0; s < clean.size(); s += length_) {
            const float f = 1 + 2 * u(gen_), p = 6.28f * u(gen_), a = 0.5f + u(gen_), slope = u(gen_) - 0.5f;
            for (int i = 0; i < length_; ++i) {
                const float x = (float)i / length_;
                clean[s + i] = a * std::sin(6.28f * f * x + p) + slope * x;
                noisy[s + i] = clean[s + i] + noise(gen_);
            }
        }
    }

private:
    std::mt19937 gen_;
    int length_;
};

int main()
{
    constexpr int kLength = 48, kBatch = 64, kSteps = 160;
    std::mt19937 gen(17);

    std::vector<LayerBase<float> *> net = {new Dense<float, LeakyRelu>(kLength, 32, kBatch, gen), new Dense<float, Identity>(32, 8, kBatch, gen),
                                           new Dense<float, LeakyRelu>(8, 32, kBatch, gen), new Dense<float, Identity>(32, kLength, kBatch, gen)};
    std::vector<Tensor<float> *> all;
    for (auto *l : net)
        for (auto *t : l->tensors())
            all.push_back(t);
    Adam<float> opt(all, 0.006f);

    SignalSource source(23, kLength);
    DeviceBuffer<float> x(kBatch * kLength), target(kBatch * kLength), dy(kBatch * kLength), loss(kBatch * kLength);
    std::vector<float> noisy(kBatch * kLength), clean(kBatch * kLength);

    for (int step = 0; step < kSteps; ++step) {
        source.fill(noisy, clean);
        x.upload(noisy);
        target.upload(clean);
        float *y = x.data();
        for (auto *l : net)
            y = l->forward(y, kBatch);
        const int n = kBatch * kLength;
        reconstructionLoss<float><<<(n + 127) / 128, 128>>>(y, target.data(), dy.data(), loss.data(), n, 1.0f / kBatch);
        float *d = dy.data();
        for (auto it = net.rbegin(); it != net.rend(); ++it)
            d = (*it)->backward(d, kBatch);
        opt.step();
        if (step % 20 == 0 || step + 1 == kSteps) {
            double sum = 0;
            for (float v : loss.download())
                sum += v;
            std::printf("step %3d  mse %.5f\n", step, sum / n);
        }
    }
    for (auto *l : net)
        delete l;
    return 0;
}
