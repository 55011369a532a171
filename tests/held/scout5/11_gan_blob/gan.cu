// GAN for points of a tilted Gaussian blob. Generator and discriminator are three-layer MLPs; each has its own Adam.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

static const int BATCH = 64;
static const int NOISE = 4;
static const int STEPS = 160;

static void gpuAssert(cudaError_t code, int line)
{
    if (code != cudaSuccess) {
        fprintf(stderr, "GPUassert: %s line %d\n", cudaGetErrorString(code), line);
        exit(code);
    }
}
#define gpuErrchk(ans) gpuAssert((ans), __LINE__)

__global__ void fc(const float *x, const float *w, const float *b, float *y, int n, int in, int out, bool leaky)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * out) return;
    int s = i / out, o = i % out;
    float a = b[o];
    for (int k = 0; k < in; k++) a += x[s * in + k] * w[o * in + k];
    y[i] = leaky && a < 0 ? 0.2f * a : a;
}
__global__ void fc_dw(const float *x, const float *dy, float *dw, float *db, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= in * out) return;
    int o = i / in, k = i % in;
    float a = 0, ab = 0;
    for (int s = 0; s < n; s++) {
        a += x[s * in + k] * dy[s * out + o];
        ab += dy[s * out + o];
    }
    dw[i] += a;
    if (k == 0) db[o] += ab;
}
__global__ void fc_dx(const float *w, const float *dy, const float *x, float *dx, int n, int in, int out, bool leaky)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * in) return;
    float a = 0;
    for (int o = 0; o < out; o++) a += w[o * in + i % in] * dy[i / in * out + o];
    dx[i] = leaky && x[i] < 0 ? 0.2f * a : a;
}
// binary cross entropy with logits against one label for the whole batch
__global__ void bce(const float *logit, float label, float *d, float *loss, int n)
{
    int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= n) return;
    float z = logit[s];
    d[s] = (1.f / (1.f + expf(-z)) - label) / n;
    atomicAdd(loss, (fmaxf(z, 0.f) - z * label + log1pf(expf(-fabsf(z)))) / n);
}
__global__ void adamKernel(float *w, const float *g, float *m, float *v, int n, float lr, float b1, float b2, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = b1 * m[i] + (1 - b1) * g[i];
    v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
    w[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-8f);
}

struct DeviceDeleter {
    void operator()(float *p) const { cudaFree(p); }
};
using DevicePtr = std::unique_ptr<float[], DeviceDeleter>;
static DevicePtr makeDevice(size_t n)
{
    float *p;
    gpuErrchk(cudaMalloc(&p, n * sizeof(float)));
    gpuErrchk(cudaMemset(p, 0, n * sizeof(float)));
    return DevicePtr(p);
}

class Network {
public:
    Network(std::vector<int> dims, std::mt19937 &rng, float lr) : dims_(dims), lr_(lr)
    {
        for (size_t l = 0; l + 1 < dims.size(); l++) {
            int n = dims[l] * dims[l + 1];
            std::normal_distribution<float> d(0, std::sqrt(2.0f / dims[l]));
            std::vector<float> h(n);
            for (float &x : h) x = d(rng);
            addTensor(n, h.data());
            addTensor(dims[l + 1], nullptr);
            act_.push_back(makeDevice(BATCH * dims[l + 1]));
            dact_.push_back(makeDevice(BATCH * dims[l]));
        }
    }

    float *forward(const float *x)
    {
        input_ = x;
        for (size_t l = 0; l < act_.size(); l++) {
            fc<<<blocks(BATCH * dims_[l + 1]), 128>>>(x, w_[2 * l].get(), w_[2 * l + 1].get(), act_[l].get(), BATCH, dims_[l], dims_[l + 1], l + 1 < act_.size());
            x = act_[l].get();
        }
        return act_.back().get();
    }
    // returns the gradient of the input
    float *backward(const float *dy, bool parameters)
    {
        for (int l = (int)act_.size() - 1; l >= 0; l--) {
            const float *x = l ? act_[l - 1].get() : input_;
            if (parameters)
                fc_dw<<<blocks(dims_[l] * dims_[l + 1]), 128>>>(x, dy, g_[2 * l].get(), g_[2 * l + 1].get(), BATCH, dims_[l], dims_[l + 1]);
            fc_dx<<<blocks(BATCH * dims_[l]), 128>>>(w_[2 * l].get(), dy, x, dact_[l].get(), BATCH, dims_[l], dims_[l + 1], l > 0);
            dy = dact_[l].get();
        }
        return dact_[0].get();
    }
    void zeroGrad()
    {
        for (size_t i = 0; i < g_.size(); i++) gpuErrchk(cudaMemset(g_[i].get(), 0, size_[i] * sizeof(float)));
    }
    void adam()
    {
        t_++;
        for (size_t i = 0; i < w_.size(); i++)
            adamKernel<<<blocks(size_[i]), 128>>>(w_[i].get(), g_[i].get(), m_[i].get(), v_[i].get(), size_[i], lr_, 0.5f, 0.99f,
                                                  1 - std::pow(0.5f, t_), 1 - std::pow(0.99f, t_));
    }

private:
    static int blocks(int n) { return (n + 127) / 128; }
    void addTensor(int n, const float *init)
    {
        w_.push_back(makeDevice(n));
        g_.push_back(makeDevice(n));
        m_.push_back(makeDevice(n));
        v_.push_back(makeDevice(n));
        size_.push_back(n);
        if (init) gpuErrchk(cudaMemcpy(w_.back().get(), init, n * sizeof(float), cudaMemcpyHostToDevice));
    }
    std::vector<int> dims_, size_;
    std::vector<DevicePtr> w_, g_, m_, v_, act_, dact_;
    const float *input_ = nullptr;
    float lr_;
    int t_ = 0;
};

int main()
{
    std::mt19937 rng(31);
    std::normal_distribution<float> gauss(0, 1);
    Network G({NOISE, 32, 32, 2}, rng, 3e-3f);
    Network D({2, 48, 48, 1}, rng, 3e-3f);

    DevicePtr real = makeDevice(BATCH * 2), noise = makeDevice(BATCH * NOISE), dlogit = makeDevice(BATCH), losses = makeDevice(2);
    std::vector<float> h_real(BATCH * 2), h_noise(BATCH * NOISE), h_fake(BATCH * 2);

    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < BATCH; i++) {
            float u = gauss(rng), v = gauss(rng);
            h_real[2 * i] = 2.0f + 0.5f * u;
            h_real[2 * i + 1] = -1.0f + 0.3f * u + 0.3f * v;
        }
        for (float &z : h_noise) z = gauss(rng);
        gpuErrchk(cudaMemcpy(real.get(), h_real.data(), h_real.size() * sizeof(float), cudaMemcpyHostToDevice));
        gpuErrchk(cudaMemcpy(noise.get(), h_noise.data(), h_noise.size() * sizeof(float), cudaMemcpyHostToDevice));
        gpuErrchk(cudaMemset(losses.get(), 0, 2 * sizeof(float)));

        // discriminator: real, then fake
        D.zeroGrad();
        bce<<<1, BATCH>>>(D.forward(real.get()), 0.9f, dlogit.get(), losses.get(), BATCH);
        D.backward(dlogit.get(), true);
        float *fake = G.forward(noise.get());
        bce<<<1, BATCH>>>(D.forward(fake), 0.0f, dlogit.get(), losses.get(), BATCH);
        D.backward(dlogit.get(), true);
        D.adam();

        // generator, with new noise
        for (float &z : h_noise) z = gauss(rng);
        gpuErrchk(cudaMemcpy(noise.get(), h_noise.data(), h_noise.size() * sizeof(float), cudaMemcpyHostToDevice));
        G.zeroGrad();
        fake = G.forward(noise.get());
        bce<<<1, BATCH>>>(D.forward(fake), 1.0f, dlogit.get(), losses.get() + 1, BATCH);
        float *dfake = D.backward(dlogit.get(), false);
        G.backward(dfake, true);
        G.adam();

        if (step % 25 == 0 || step == STEPS - 1) {
            float l[2], mx = 0, my = 0;
            gpuErrchk(cudaMemcpy(l, losses.get(), sizeof(l), cudaMemcpyDeviceToHost));
            gpuErrchk(cudaMemcpy(h_fake.data(), fake, h_fake.size() * sizeof(float), cudaMemcpyDeviceToHost));
            for (int i = 0; i < BATCH; i++) {
                mx += h_fake[2 * i] / BATCH;
                my += h_fake[2 * i + 1] / BATCH;
            }
            printf("%4d  D %.4f  G %.4f  mean (%.2f, %.2f) err %.4f\n", step, l[0], l[1], mx, my, std::hypot(mx - 2.0f, my + 1.0f));
        }
    }
    return 0;
}
