// Variational autoencoder with one hidden layer on each side, trained with Adam.
// 24 -> 15 -> (mean 3, log variance 3) -> 15 -> 24. Noise is drawn on the host.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

constexpr int X = 24, H = 15, Z = 3, B = 30;
constexpr int kSamples = 600, kEpochs = 2;

static int blocks(int n) { return (n + 63) / 64; }

struct Linear {
    int in, out, step = 0;
    float *w, *b, *gw, *gb, *m, *v, *mb, *vb;

    Linear(int in_, int out_, std::mt19937 &gen) : in(in_), out(out_) {
        std::uniform_real_distribution<float> u(-1.f / std::sqrt((float)in), 1.f / std::sqrt((float)in));
        std::vector<float> h(in * out);
        for (auto &e : h) e = u(gen);
        for (float **p : {&w, &gw, &m, &v}) {
            cudaMalloc(p, in * out * sizeof(float));
            cudaMemset(*p, 0, in * out * sizeof(float));
        }
        for (float **p : {&b, &gb, &mb, &vb}) {
            cudaMalloc(p, out * sizeof(float));
            cudaMemset(*p, 0, out * sizeof(float));
        }
        cudaMemcpy(w, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice);
    }
    void forward(const float *x, float *y, int n, bool act);
    void backward(const float *x, const float *dy, float *dx, int n, bool add = false);
    void adam(float lr);
};

__global__ void linear_fwd(const float *x, const float *w, const float *b, float *y, int n, int in, int out, bool act) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * out) return;
    int r = i / out, c = i % out;
    float s = b[c];
    for (int k = 0; k < in; ++k) s += x[r * in + k] * w[k * out + c];
    y[i] = act ? tanhf(s) : s;
}
__global__ void linear_gw(const float *x, const float *dy, float *gw, float *gb, int n, int in, int out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (in + 1) * out) return;
    int k = i / out, c = i % out;
    float s = 0.f;
    for (int r = 0; r < n; ++r) s += (k < in ? x[r * in + k] : 1.f) * dy[r * out + c];
    if (k < in) gw[i] = s;
    else gb[c] = s;
}
__global__ void linear_dx(const float *dy, const float *w, float *dx, int n, int in, int out, bool add) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * in) return;
    int r = i / in, k = i % in;
    float s = add ? dx[i] : 0.f;
    for (int c = 0; c < out; ++c) s += dy[r * out + c] * w[k * out + c];
    dx[i] = s;
}
__global__ void adam_kernel(float *p, const float *g, float *m, float *v, int n, float lr, int t) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
    p[i] -= lr * m[i] / (1.f - powf(0.9f, t)) / (sqrtf(v[i] / (1.f - powf(0.99f, t))) + 1e-7f);
}
__global__ void tanh_back(const float *y, float *dy, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dy[i] *= 1.f - y[i] * y[i];
}
__global__ void sample_z(const float *mu, const float *lv, const float *eps, float *z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = mu[i] + expf(0.5f * lv[i]) * eps[i];
}
// squared error plus KL; losses are summed per sample
__global__ void elbo(const float *y, const float *x, const float *mu, const float *lv, float *dy, float *loss, int n) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float s = 0.f;
    for (int k = 0; k < X; ++k) {
        float e = y[r * X + k] - x[r * X + k];
        s += e * e;
        dy[r * X + k] = 2.f * e / n;
    }
    for (int k = 0; k < Z; ++k) s += 0.05f * (expf(lv[r * Z + k]) + mu[r * Z + k] * mu[r * Z + k] - 1.f - lv[r * Z + k]);
    loss[r] = s;
}
__global__ void latent_back(const float *dz, const float *mu, const float *lv, const float *eps, float *dmu, float *dlv, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * Z) return;
    dmu[i] = dz[i] + 0.1f * mu[i] / n;
    dlv[i] = dz[i] * eps[i] * 0.5f * expf(0.5f * lv[i]) + 0.05f * (expf(lv[i]) - 1.f) / n;
}

void Linear::forward(const float *x, float *y, int n, bool act) {
    linear_fwd<<<blocks(n * out), 64>>>(x, w, b, y, n, in, out, act);
}
void Linear::backward(const float *x, const float *dy, float *dx, int n, bool add) {
    linear_gw<<<blocks((in + 1) * out), 64>>>(x, dy, gw, gb, n, in, out);
    if (dx) linear_dx<<<blocks(n * in), 64>>>(dy, w, dx, n, in, out, add);
}
void Linear::adam(float lr) {
    ++step;
    adam_kernel<<<blocks(in * out), 64>>>(w, gw, m, v, in * out, lr, step);
    adam_kernel<<<blocks(out), 64>>>(b, gb, mb, vb, out, lr, step);
}

int main() {
    std::mt19937 gen(99);
    std::normal_distribution<float> normal;
    std::vector<float> data(kSamples * X), noise(B * Z), losses(B);
    for (int i = 0; i < kSamples; ++i) {
        float a = normal(gen), c = normal(gen);
        for (int k = 0; k < X; ++k) data[i * X + k] = std::sin(a + 0.3f * k) * 0.7f + 0.2f * c;
    }
    Linear enc(X, H, gen), mean(H, Z, gen), logvar(H, Z, gen), dec(Z, H, gen), out(H, X, gen);
    float *x, *h1, *mu, *lv, *eps, *z, *h2, *y, *dy, *dh2, *dz, *dmu, *dlv, *dh1, *loss;
    for (float **p : {&x, &y, &dy}) cudaMalloc(p, B * X * sizeof(float));
    for (float **p : {&h1, &h2, &dh1, &dh2}) cudaMalloc(p, B * H * sizeof(float));
    for (float **p : {&mu, &lv, &eps, &z, &dz, &dmu, &dlv}) cudaMalloc(p, B * Z * sizeof(float));
    cudaMalloc(&loss, B * sizeof(float));

    for (int epoch = 0; epoch < kEpochs; ++epoch) {
        double total = 0;
        for (int i = 0; i < kSamples; i += B) {
            for (auto &e : noise) e = normal(gen);
            cudaMemcpy(x, &data[i * X], B * X * sizeof(float), cudaMemcpyHostToDevice);
            cudaMemcpy(eps, noise.data(), B * Z * sizeof(float), cudaMemcpyHostToDevice);
            enc.forward(x, h1, B, true);
            mean.forward(h1, mu, B, false);
            logvar.forward(h1, lv, B, false);
            sample_z<<<blocks(B * Z), 64>>>(mu, lv, eps, z, B * Z);
            dec.forward(z, h2, B, true);
            out.forward(h2, y, B, false);
            elbo<<<1, 64>>>(y, x, mu, lv, dy, loss, B);
            out.backward(h2, dy, dh2, B);
            tanh_back<<<blocks(B * H), 64>>>(h2, dh2, B * H);
            dec.backward(z, dh2, dz, B);
            latent_back<<<blocks(B * Z), 64>>>(dz, mu, lv, eps, dmu, dlv, B);
            mean.backward(h1, dmu, dh1, B);
            logvar.backward(h1, dlv, dh1, B, true);
            tanh_back<<<blocks(B * H), 64>>>(h1, dh1, B * H);
            enc.backward(x, dh1, nullptr, B);
            for (Linear *l : {&enc, &mean, &logvar, &dec, &out}) l->adam(0.01f);
            cudaMemcpy(losses.data(), loss, B * sizeof(float), cudaMemcpyDeviceToHost);
            double sum = 0;
            for (float l : losses) sum += l;
            total += sum / B;
            if ((i / B) % 5 == 0) printf("epoch %d batch %d elbo loss %.4f\n", epoch, i / B, sum / B);
        }
        printf("epoch %d mean %.4f\n", epoch, total / (kSamples / B));
    }
    return 0;
}
