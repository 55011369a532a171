// Variational autoencoder on 8x8 binary patterns.
#include "tensor.hpp"
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>

constexpr int kPixels = 64, kHidden = 40, kLatent = 4;
constexpr float kBeta = 0.3f;

__global__ void affine(const float *x, const float *w, const float *b, float *y, int n, int in, int out, bool relu)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * out) return;
    int r = t / out, c = t % out;
    float s = b[c];
    for (int k = 0; k < in; ++k) s += x[r * in + k] * w[c * in + k];
    y[t] = relu ? fmaxf(s, 0.f) : s;
}

__global__ void affine_grad(const float *x, const float *dy, float *dw, float *db, int n, int in, int out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= in * out) return;
    int c = t / in, k = t % in;
    float s = 0, sb = 0;
    for (int r = 0; r < n; ++r) {
        s += dy[r * out + c] * x[r * in + k];
        sb += dy[r * out + c];
    }
    dw[t] = s;
    if (k == 0) db[c] = sb;
}

__global__ void affine_back(const float *dy, const float *w, const float *act, float *dx, int n, int in, int out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * in) return;
    int r = t / in, k = t % in;
    float s = 0;
    for (int c = 0; c < out; ++c) s += dy[r * out + c] * w[c * in + k];
    dx[t] = act == nullptr || act[t] > 0 ? s : 0.f;
}

// stats: n x 2*kLatent, mean then log variance
__global__ void reparameterise(const float *stats, const float *eps, float *z, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * kLatent) return;
    int r = t / kLatent, k = t % kLatent;
    z[t] = stats[r * 2 * kLatent + k] + expf(0.5f * stats[r * 2 * kLatent + kLatent + k]) * eps[t];
}

__global__ void reparam_grad(const float *stats, const float *eps, const float *dz, float *dstats, float *kl, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * kLatent) return;
    int r = t / kLatent, k = t % kLatent;
    float mu = stats[r * 2 * kLatent + k], lv = stats[r * 2 * kLatent + kLatent + k];
    dstats[r * 2 * kLatent + k] = dz[t] + kBeta * mu / n;
    dstats[r * 2 * kLatent + kLatent + k] = dz[t] * 0.5f * expf(0.5f * lv) * eps[t] + kBeta * 0.5f * (expf(lv) - 1.f) / n;
    atomicAdd(kl, -0.5f * (1.f + lv - mu * mu - expf(lv)) / n);
}

__global__ void bce(const float *logits, const float *x, float *dlogits, float *loss, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * kPixels) return;
    float l = logits[t], p = 1.f / (1.f + expf(-l));
    dlogits[t] = (p - x[t]) / n;
    atomicAdd(loss, (fmaxf(l, 0.f) - l * x[t] + log1pf(expf(-fabsf(l)))) / n);
}

__global__ void rmsprop(float *w, const float *g, float *cache, float lr, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    cache[t] = 0.9f * cache[t] + 0.1f * g[t] * g[t];
    w[t] -= lr * g[t] / (sqrtf(cache[t]) + 1e-6f);
}

inline int div_up(int a, int b) { return (a + b - 1) / b; }

class Dense {
public:
    Dense(int in, int out, bool relu, int max_batch, std::mt19937 &rng)
        : in_(in), out_(out), relu_(relu), w_(init(in, out, rng)), b_(out), dw_(in * out), db_(out), cw_(in * out), cb_(out), y_(max_batch * out),
          dy_(max_batch * out)
    {
    }
    void forward(const float *x, int n) { affine<<<div_up(n * out_, 128), 128>>>(x, w_.data(), b_.data(), y_.data(), n, in_, out_, relu_); }
    // act: activation of the layer below if that is a relu
    void backward(const float *x, float *dx, const float *act, int n)
    {
        affine_grad<<<div_up(in_ * out_, 128), 128>>>(x, dy_.data(), dw_.data(), db_.data(), n, in_, out_);
        if (dx) affine_back<<<div_up(n * in_, 128), 128>>>(dy_.data(), w_.data(), act, dx, n, in_, out_);
    }
    void step(float lr)
    {
        rmsprop<<<div_up(in_ * out_, 128), 128>>>(w_.data(), dw_.data(), cw_.data(), lr, in_ * out_);
        rmsprop<<<div_up(out_, 128), 128>>>(b_.data(), db_.data(), cb_.data(), lr, out_);
    }
    float *y() { return y_.data(); }
    float *dy() { return dy_.data(); }

private:
    static std::vector<float> init(int in, int out, std::mt19937 &rng)
    {
        std::normal_distribution<float> d(0.f, std::sqrt(2.f / (in + out)));
        std::vector<float> h(in * out);
        for (auto &v : h) v = d(rng);
        return h;
    }
    int in_, out_;
    bool relu_;
    DeviceBuffer<float> w_, b_, dw_, db_, cw_, cb_, y_, dy_;
};

class VAE {
public:
    VAE(int batch, std::mt19937 &rng)
        : enc1(std::make_unique<Dense>(kPixels, kHidden, true, batch, rng)), enc2(std::make_unique<Dense>(kHidden, 2 * kLatent, false, batch, rng)),
          dec1(std::make_unique<Dense>(kLatent, kHidden, true, batch, rng)), dec2(std::make_unique<Dense>(kHidden, kPixels, false, batch, rng)),
          x(batch * kPixels), eps(batch * kLatent), z(batch * kLatent), dz(batch * kLatent), loss(2), batch(batch)
    {
    }

    std::vector<float> train(const std::vector<float> &images, const std::vector<float> &noise, float lr)
    {
        x.upload(images);
        eps.upload(noise);
        loss.upload({0.f, 0.f});

        enc1->forward(x.data(), batch);
        enc2->forward(enc1->y(), batch);
        reparameterise<<<div_up(batch * kLatent, 128), 128>>>(enc2->y(), eps.data(), z.data(), batch);
        dec1->forward(z.data(), batch);
        dec2->forward(dec1->y(), batch);

        bce<<<div_up(batch * kPixels, 128), 128>>>(dec2->y(), x.data(), dec2->dy(), loss.data(), batch);
        dec2->backward(dec1->y(), dec1->dy(), dec1->y(), batch);
        dec1->backward(z.data(), dz.data(), nullptr, batch);
        reparam_grad<<<div_up(batch * kLatent, 128), 128>>>(enc2->y(), eps.data(), dz.data(), enc2->dy(), loss.data() + 1, batch);
        enc2->backward(enc1->y(), enc1->dy(), enc1->y(), batch);
        enc1->backward(x.data(), nullptr, nullptr, batch);

        for (auto *l : {enc1.get(), enc2.get(), dec1.get(), dec2.get()}) l->step(lr);
        return loss.download();
    }

private:
    std::unique_ptr<Dense> enc1, enc2, dec1, dec2;
    DeviceBuffer<float> x, eps, z, dz, loss;
    int batch;
};

static std::vector<float> sample_images(int n, std::mt19937 &rng)
{
    std::vector<float> v(n * kPixels, 0.f);
    for (int i = 0; i < n; ++i) {
        int top = rng() % 5, left = rng() % 5, h = 2 + rng() % 3, w = 2 + rng() % 3;
        for (int y = top; y < top + h; ++y)
            for (int x = left; x < left + w; ++x) v[i * kPixels + y * 8 + x] = 1.f;
    }
    return v;
}

int main()
{
    const int batch = 64, steps = 120;
    std::mt19937 rng(3);
    std::normal_distribution<float> normal;
    VAE vae(batch, rng);
    float lr = 5e-3f;
    for (int s = 0; s < steps; ++s) {
        std::vector<float> images = sample_images(batch, rng);
        std::vector<float> noise(batch * kLatent);
        for (float &e : noise) e = normal(rng);
        if (s == 80) lr *= 0.3f;
        auto l = vae.train(images, noise, lr);
        if (s % 20 == 0 || s == steps - 1) std::printf("step %d  loss %.4f  (reconstruction %.4f, KL %.4f)\n", s, l[0] + kBeta * l[1], l[0], l[1]);
    }
    return 0;
}
