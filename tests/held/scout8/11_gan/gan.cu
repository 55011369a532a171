// GAN on a ring of eight gaussians. Generator and discriminator are small MLPs with their own RMSprop optimizers.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>

#define CK(e) do { if ((e) != cudaSuccess) { printf("cuda error line %d\n", __LINE__); exit(1); } } while (0)

static std::mt19937 gen(31337);

template <class T> class DeviceArray {
    T *p_ = nullptr;
    size_t n_ = 0;

public:
    DeviceArray() = default;
    explicit DeviceArray(size_t n) : n_(n) { CK(cudaMalloc(&p_, n * sizeof(T))); CK(cudaMemset(p_, 0, n * sizeof(T))); }
    DeviceArray(DeviceArray &&o) noexcept : p_(o.p_), n_(o.n_) { o.p_ = nullptr; o.n_ = 0; }
    DeviceArray &operator=(DeviceArray &&o) noexcept { std::swap(p_, o.p_); std::swap(n_, o.n_); return *this; }
    ~DeviceArray() { if (p_) cudaFree(p_); }
    T *get() const { return p_; }
    size_t size() const { return n_; }
    void set(const std::vector<T> &h) { CK(cudaMemcpy(p_, h.data(), h.size() * sizeof(T), cudaMemcpyHostToDevice)); }
    std::vector<T> host() const { std::vector<T> h(n_); CK(cudaMemcpy(h.data(), p_, n_ * sizeof(T), cudaMemcpyDeviceToHost)); return h; }
};
using Vec = DeviceArray<float>;

__global__ void k_forward(const float *x, const float *w, const float *b, float *y, int B, int in, int out, bool leaky)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= B * out) return;
    int r = t / out, c = t % out;
    float s = b[c];
    for (int k = 0; k < in; ++k) s += x[r * in + k] * w[c * in + k];
    y[t] = leaky && s < 0 ? 0.2f * s : s;
}
__global__ void k_act_back(const float *y, float *dy, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n && y[t] < 0) dy[t] *= 0.2f;
}
// adds to dw, db
__global__ void k_weights(const float *x, const float *dy, float *dw, float *db, int B, int in, int out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= out * in) return;
    int c = t / in, k = t % in;
    float s = 0, sb = 0;
    for (int r = 0; r < B; ++r) {
        s += dy[r * out + c] * x[r * in + k];
        sb += dy[r * out + c];
    }
    dw[t] += s;
    if (k == 0) db[c] += sb;
}
__global__ void k_input(const float *dy, const float *w, float *dx, int B, int in, int out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= B * in) return;
    int r = t / in, k = t % in;
    float s = 0;
    for (int c = 0; c < out; ++c) s += dy[r * out + c] * w[c * in + k];
    dx[t] = s;
}
// binary cross entropy with logits against a constant label
__global__ void k_bce(const float *z, float label, float *dz, float *loss, int B)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= B) return;
    dz[t] = (1.f / (1.f + expf(-z[t])) - label) / B;
    loss[t] = fmaxf(z[t], 0.f) - z[t] * label + log1pf(expf(-fabsf(z[t])));
}
__global__ void k_rmsprop(float *w, const float *g, float *r, int n, float lr)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n) return;
    r[t] = 0.9f * r[t] + 0.1f * g[t] * g[t];
    w[t] -= lr * g[t] / (sqrtf(r[t]) + 1e-6f);
}
#define L(n) ((n) + 127) / 128, 128

struct Linear {
    int in, out;
    bool leaky;
    Vec w, b, dw, db, rw, rb, y, dx;
    Linear(int in, int out, bool leaky, int B)
        : in(in), out(out), leaky(leaky), w(in * out), b(out), dw(in * out), db(out), rw(in * out), rb(out), y(B * out), dx(B * in)
    {
        std::normal_distribution<float> d(0, std::sqrt(1.6f / in));
        std::vector<float> h(in * out);
        for (auto &v : h) v = d(gen);
        w.set(h);
    }
};

class MLP {
    std::vector<Linear> layers;
    const float *x0 = nullptr;
    int B;

public:
    MLP(std::vector<int> dims, int B) : B(B)
    {
        for (size_t i = 0; i + 1 < dims.size(); ++i) layers.emplace_back(dims[i], dims[i + 1], i + 2 < dims.size(), B);
    }
    const float *forward(const float *x)
    {
        x0 = x;
        for (auto &l : layers) {
            k_forward<<<L(B * l.out)>>>(x, l.w.get(), l.b.get(), l.y.get(), B, l.in, l.out, l.leaky);
            x = l.y.get();
        }
        return x;
    }
    float *backward(float *d, bool weights = true)
    {
        for (size_t i = layers.size(); i-- > 0;) {
            Linear &l = layers[i];
            if (l.leaky) k_act_back<<<L(B * l.out)>>>(l.y.get(), d, B * l.out);
            if (weights) k_weights<<<L(l.in * l.out)>>>(i ? layers[i - 1].y.get() : x0, d, l.dw.get(), l.db.get(), B, l.in, l.out);
            k_input<<<L(B * l.in)>>>(d, l.w.get(), l.dx.get(), B, l.in, l.out);
            d = l.dx.get();
        }
        return d;
    }
    void zero_grad()
    {
        for (auto &l : layers) {
            CK(cudaMemset(l.dw.get(), 0, l.dw.size() * sizeof(float)));
            CK(cudaMemset(l.db.get(), 0, l.db.size() * sizeof(float)));
        }
    }
    void rmsprop(float lr)
    {
        for (auto &l : layers) {
            k_rmsprop<<<L((int)l.w.size())>>>(l.w.get(), l.dw.get(), l.rw.get(), (int)l.w.size(), lr);
            k_rmsprop<<<L((int)l.b.size())>>>(l.b.get(), l.db.get(), l.rb.get(), (int)l.b.size(), lr);
        }
    }
};

static float mean(const Vec &v)
{
    float s = 0;
    for (float x : v.host()) s += x;
    return s / v.size();
}

int main()
{
    const int B = 96, NZ = 8, STEPS = 150;
    MLP G({NZ, 32, 32, 2}, B), D({2, 32, 32, 1}, B);
    Vec real(B * 2), z(B * NZ), dlogit(B), loss_real(B), loss_fake(B), loss_g(B);
    std::normal_distribution<float> nd(0, 1);
    std::vector<float> hreal(B * 2), hz(B * NZ);
    auto noise = [&] {
        for (auto &v : hz) v = nd(gen);
        z.set(hz);
    };

    for (int step = 0; step < STEPS; ++step) {
        for (int i = 0; i < B; ++i) {
            float a = (gen() % 8) * 0.785398f;
            hreal[i * 2] = 2 * std::cos(a) + 0.05f * nd(gen);
            hreal[i * 2 + 1] = 2 * std::sin(a) + 0.05f * nd(gen);
        }
        real.set(hreal);

        // discriminator
        D.zero_grad();
        k_bce<<<L(B)>>>(D.forward(real.get()), 1.f, dlogit.get(), loss_real.get(), B);
        D.backward(dlogit.get());
        noise();
        k_bce<<<L(B)>>>(D.forward(G.forward(z.get())), 0.f, dlogit.get(), loss_fake.get(), B);
        D.backward(dlogit.get());
        D.rmsprop(1e-3f);

        // generator
        G.zero_grad();
        noise();
        k_bce<<<L(B)>>>(D.forward(G.forward(z.get())), 1.f, dlogit.get(), loss_g.get(), B);
        G.backward(D.backward(dlogit.get(), false));
        G.rmsprop(1e-3f);

        if (step % 15 == 0) {
            auto s = G.forward(z.get());
            std::vector<float> h(B * 2);
            CK(cudaMemcpy(h.data(), s, h.size() * sizeof(float), cudaMemcpyDeviceToHost));
            float dist = 0;
            for (int i = 0; i < B; ++i) dist += std::fabs(std::hypot(h[i * 2], h[i * 2 + 1]) - 2);
            printf("step %3d  D %.4f  G %.4f  distance to ring %.3f\n", step, mean(loss_real) + mean(loss_fake), mean(loss_g), dist / B);
        }
    }
    return 0;
}
