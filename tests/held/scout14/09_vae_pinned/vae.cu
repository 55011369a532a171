// Variational autoencoder on bit patterns. Everything is column major, one sample a column; cuBLAS for the products.
#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

namespace {

inline void check(cudaError_t e) { if (e != cudaSuccess) throw std::runtime_error(cudaGetErrorString(e)); }
inline void check(cublasStatus_t s) { if (s != CUBLAS_STATUS_SUCCESS) throw std::runtime_error("cublas"); }

float *device(size_t n, float value = 0.f)
{
    float *p;
    check(cudaMalloc(&p, n * sizeof(float)));
    std::vector<float> h(n, value);
    check(cudaMemcpy(p, h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    return p;
}

struct Dense {
    int in = 0, out = 0;
    float *w, *b, *dw, *db;     // weights and gradients
    float *mw, *vw, *mb, *vb;   // Adam

    void create(int inputs, int outputs, std::mt19937 &rng)
    {
        in = inputs, out = outputs;
        for (float **p : {&w, &dw, &mw, &vw}) *p = device(in * out);
        for (float **p : {&b, &db, &mb, &vb}) *p = device(out);
        std::normal_distribution<float> normal(0.f, 1.f / std::sqrt((float)in));
        std::vector<float> h(in * out);
        for (float &x : h) x = normal(rng);
        check(cudaMemcpy(w, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice));
    }
};

__global__ void add_bias(float *y, const float *b, int rows, int cols, bool squash)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) y[i] = squash ? tanhf(y[i] + b[i % rows]) : y[i] + b[i % rows];
}

__global__ void tanh_back(const float *y, float *d, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) d[i] *= 1.f - y[i] * y[i];
}

__global__ void sample_latent(const float *mu, const float *logvar, const float *eps, float *z, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = mu[i] + expf(0.5f * logvar[i]) * eps[i];
}

// loss of one sample a thread; d becomes the gradient with respect to the logits
__global__ void bernoulli(const float *logit, const float *x, float *d, float *loss, int pixels, int n)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= n) return;
    float s = 0.f;
    for (int i = j * pixels; i < (j + 1) * pixels; ++i) {
        float l = logit[i];
        s += fmaxf(l, 0.f) - l * x[i] + log1pf(expf(-fabsf(l)));
        d[i] = (1.f / (1.f + expf(-l)) - x[i]) / n;
    }
    loss[j] = s;
}

__global__ void latent_back(const float *mu, const float *logvar, const float *eps, const float *dz, float *dmu, float *dlogvar,
                            float *loss, int latent, int n, float beta)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= n) return;
    float kl = 0.f;
    for (int i = j * latent; i < (j + 1) * latent; ++i) {
        float var = expf(logvar[i]);
        kl += 0.5f * (var + mu[i] * mu[i] - 1.f - logvar[i]);
        dmu[i] = dz[i] + beta * mu[i] / n;
        dlogvar[i] = dz[i] * eps[i] * 0.5f * sqrtf(var) + beta * 0.5f * (var - 1.f) / n;
    }
    loss[j] += beta * kl;
}

__global__ void adam(float *w, const float *g, float *m, float *v, int n, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] += 0.1f * (g[i] - m[i]);
    v[i] += 0.005f * (g[i] * g[i] - v[i]);
    w[i] -= rate * m[i] / (sqrtf(v[i]) + 1e-7f);
}

constexpr int kPixels = 36, kHidden = 26, kLatent = 3, kBatch = 50, kSamples = 900, kEpochs = 8;
cublasHandle_t blas;
float *ones;

unsigned blocks(int n) { return (n + 63) / 64; }

void forward(const Dense &l, const float *x, float *y, int n, bool squash)
{
    const float one = 1.f, zero = 0.f;
    check(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, l.out, n, l.in, &one, l.w, l.out, x, l.in, &zero, y, l.out));
    add_bias<<<blocks(l.out * n), 64>>>(y, l.b, l.out, n, squash);
}

// dx may be null; with add, it is added to dx
void backward(const Dense &l, const float *x, const float *dy, float *dx, int n, bool add = false)
{
    const float one = 1.f, zero = 0.f;
    check(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, l.out, l.in, n, &one, dy, l.out, x, l.in, &zero, l.dw, l.out));
    check(cublasSgemv(blas, CUBLAS_OP_N, l.out, n, &one, dy, l.out, ones, 1, &zero, l.db, 1));
    if (dx) check(cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, l.in, n, l.out, &one, l.w, l.out, dy, l.out, add ? &one : &zero, dx, l.in));
}

} // namespace

int main()
{
    std::mt19937 rng(314);
    std::normal_distribution<float> normal;
    std::vector<std::array<float, kPixels>> data(kSamples);
    for (auto &x : data) { // a horizontal and a vertical bar, with some flipped bits
        int row = rng() % 6, col = rng() % 6;
        for (int p = 0; p < kPixels; ++p) x[p] = ((p / 6 == row || p % 6 == col) != (rng() % 40 == 0)) ? 1.f : 0.f;
    }
    std::vector<int> order(kSamples);
    std::iota(order.begin(), order.end(), 0);

    check(cublasCreate(&blas));
    ones = device(kBatch, 1.f);
    std::array<Dense, 5> net; // encoder, mean, log variance, decoder, output
    net[0].create(kPixels, kHidden, rng);
    net[1].create(kHidden, kLatent, rng);
    net[2].create(kHidden, kLatent, rng);
    net[3].create(kLatent, kHidden, rng);
    net[4].create(kHidden, kPixels, rng);

    float *x = device(kBatch * kPixels), *eps = device(kBatch * kLatent), *enc = device(kBatch * kHidden), *mu = device(kBatch * kLatent);
    float *lv = device(kBatch * kLatent), *z = device(kBatch * kLatent), *dec = device(kBatch * kHidden), *logit = device(kBatch * kPixels);
    float *dlogit = device(kBatch * kPixels), *ddec = device(kBatch * kHidden), *dz = device(kBatch * kLatent), *dmu = device(kBatch * kLatent);
    float *dlv = device(kBatch * kLatent), *denc = device(kBatch * kHidden), *loss = device(kBatch);
    float *h_x, *h_eps, *h_loss;
    check(cudaMallocHost(&h_x, kBatch * kPixels * sizeof(float)));
    check(cudaMallocHost(&h_eps, kBatch * kLatent * sizeof(float)));
    check(cudaMallocHost(&h_loss, kBatch * sizeof(float)));

    for (int epoch = 0; epoch < kEpochs; ++epoch) {
        std::shuffle(order.begin(), order.end(), rng);
        const float beta = std::min(1.f, 0.25f * (epoch + 1));
        double sum = 0;
        for (int b = 0; b < kSamples / kBatch; ++b) {
            for (int j = 0; j < kBatch; ++j) std::copy(data[order[b * kBatch + j]].begin(), data[order[b * kBatch + j]].end(), h_x + j * kPixels);
            for (int j = 0; j < kBatch * kLatent; ++j) h_eps[j] = normal(rng);
            check(cudaMemcpyAsync(x, h_x, kBatch * kPixels * sizeof(float), cudaMemcpyHostToDevice, 0));
            check(cudaMemcpyAsync(eps, h_eps, kBatch * kLatent * sizeof(float), cudaMemcpyHostToDevice, 0));

            forward(net[0], x, enc, kBatch, true);
            forward(net[1], enc, mu, kBatch, false);
            forward(net[2], enc, lv, kBatch, false);
            sample_latent<<<blocks(kBatch * kLatent), 64>>>(mu, lv, eps, z, kBatch * kLatent);
            forward(net[3], z, dec, kBatch, true);
            forward(net[4], dec, logit, kBatch, false);
            bernoulli<<<blocks(kBatch), 64>>>(logit, x, dlogit, loss, kPixels, kBatch);

            backward(net[4], dec, dlogit, ddec, kBatch);
            tanh_back<<<blocks(kBatch * kHidden), 64>>>(dec, ddec, kBatch * kHidden);
            backward(net[3], z, ddec, dz, kBatch);
            latent_back<<<blocks(kBatch), 64>>>(mu, lv, eps, dz, dmu, dlv, loss, kLatent, kBatch, beta);
            backward(net[1], enc, dmu, denc, kBatch);
            backward(net[2], enc, dlv, denc, kBatch, true);
            tanh_back<<<blocks(kBatch * kHidden), 64>>>(enc, denc, kBatch * kHidden);
            backward(net[0], x, denc, nullptr, kBatch);

            for (Dense &l : net) {
                adam<<<blocks(l.in * l.out), 64>>>(l.w, l.dw, l.mw, l.vw, l.in * l.out, 0.004f);
                adam<<<blocks(l.out), 64>>>(l.b, l.db, l.mb, l.vb, l.out, 0.004f);
            }
            check(cudaMemcpyAsync(h_loss, loss, kBatch * sizeof(float), cudaMemcpyDeviceToHost, 0));
            check(cudaStreamSynchronize(0));
            sum += std::accumulate(h_loss, h_loss + kBatch, 0.f);
        }
        std::printf("epoch %d beta %.2f negative elbo %.4f\n", epoch, beta, sum / kSamples);
    }
    cublasDestroy(blas);
    cudaFreeHost(h_x), cudaFreeHost(h_eps), cudaFreeHost(h_loss);
    return 0;
}
