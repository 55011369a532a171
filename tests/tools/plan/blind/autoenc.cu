/* Autoencoder 16-4-16 with sigmoids, Adagrad; the step losses lie in managed memory and are read once per epoch.
 * Truth: gradients (truth_step over the flat gradient array of all four parameters).
 * Batches: 48 (6 epochs of 8 batches of 32). */
#include "truth.h"
#include <cmath>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <vector>

namespace cfg
{
constexpr int in = 16, code = 4, batch = 32, perEpoch = 8, epochs = 6, samples = batch * perEpoch;
constexpr int w1 = 0, b1 = w1 + in * code, w2 = b1 + code, b2 = w2 + code * in, total = b2 + in;
} // namespace cfg

__device__ float
sigmoid(float v)
{
    return 1.0f / (1.0f + __expf(-v));
}

__global__ void
encode(const float *__restrict__ theta, const float *__restrict__ x, float *__restrict__ h)
{
    const int s = blockIdx.x, j = threadIdx.x;
    float a = theta[cfg::b1 + j];
    for (int i = 0; i < cfg::in; ++i)
        a = fmaf(x[s * cfg::in + i], theta[cfg::w1 + i * cfg::code + j], a);
    h[s * cfg::code + j] = sigmoid(a);
}

__global__ void
decode(const float *__restrict__ theta, const float *__restrict__ x, const float *__restrict__ h,
       float *__restrict__ delta, float *__restrict__ sampleLoss, float *__restrict__ recon)
{
    __shared__ float sq[cfg::in];
    const int s = blockIdx.x, i = threadIdx.x;
    float a = theta[cfg::b2 + i];
    for (int j = 0; j < cfg::code; ++j)
        a = fmaf(h[s * cfg::code + j], theta[cfg::w2 + j * cfg::in + i], a);
    const float y = sigmoid(a), t = x[s * cfg::in + i];
    if (recon)
        recon[s * cfg::in + i] = y;
    delta[s * cfg::in + i] = (y - t) / cfg::batch; // cross entropy with sigmoid
    sq[i] = (y - t) * (y - t);
    __syncthreads();
    if (i == 0) {
        float q = 0;
        for (int k = 0; k < cfg::in; ++k)
            q += sq[k];
        sampleLoss[s] = q / cfg::in;
    }
}

__global__ void
meanLoss(const float *sampleLoss, float *slot)
{
    __shared__ float buf[cfg::batch];
    buf[threadIdx.x] = sampleLoss[threadIdx.x];
    __syncthreads();
    for (int o = cfg::batch / 2; o; o /= 2) {
        if (threadIdx.x < o)
            buf[threadIdx.x] += buf[threadIdx.x + o];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *slot = buf[0] / cfg::batch;
}

__global__ void
hiddenDelta(const float *theta, const float *h, const float *delta, float *dh)
{
    const int s = blockIdx.x, j = threadIdx.x;
    float a = 0;
    for (int i = 0; i < cfg::in; ++i)
        a += delta[s * cfg::in + i] * theta[cfg::w2 + j * cfg::in + i];
    const float v = h[s * cfg::code + j];
    dh[s * cfg::code + j] = a * v * (1 - v);
}

__global__ void
gradients(const float *x, const float *h, const float *delta, const float *dh, float *grad)
{
    for (int p = blockIdx.x * blockDim.x + threadIdx.x; p < cfg::total; p += gridDim.x * blockDim.x) {
        float a = 0;
        for (int s = 0; s < cfg::batch; ++s) {
            if (p < cfg::b1)
                a += x[s * cfg::in + p / cfg::code] * dh[s * cfg::code + p % cfg::code];
            else if (p < cfg::w2)
                a += dh[s * cfg::code + p - cfg::b1];
            else if (p < cfg::b2)
                a += h[s * cfg::code + (p - cfg::w2) / cfg::in] * delta[s * cfg::in + (p - cfg::w2) % cfg::in];
            else
                a += delta[s * cfg::in + p - cfg::b2];
        }
        grad[p] = a;
    }
}

__global__ void
adagrad(float *theta, const float *grad, float *hist, float eta)
{
    for (int p = blockIdx.x * blockDim.x + threadIdx.x; p < cfg::total; p += gridDim.x * blockDim.x) {
        const float g = grad[p];
        hist[p] += g * g;
        theta[p] -= eta * g * rsqrtf(hist[p] + 1e-10f);
    }
}

static uint32_t state = 2463534242u;
static float
frand()
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return (state & 0xffffff) / 16777216.0f;
}

template <class T>
T *
device(std::size_t n)
{
    T *p = nullptr;
    if (cudaMalloc(&p, n * sizeof(T)) != cudaSuccess) {
        std::cerr << "out of memory\n";
        std::exit(2);
    }
    cudaMemset(p, 0, n * sizeof(T));
    return p;
}

int
main()
{
    // patterns from six prototypes, with noise
    std::vector<float> protos(6 * cfg::in), host(cfg::samples * cfg::in), init(cfg::total);
    for (float &p : protos)
        p = frand() > 0.5f ? 0.95f : 0.05f;
    for (int s = 0; s < cfg::samples; ++s) {
        const int k = int(frand() * 6);
        for (int i = 0; i < cfg::in; ++i)
            host[s * cfg::in + i] = std::min(1.0f, std::max(0.0f, protos[k * cfg::in + i] + 0.1f * (frand() - 0.5f)));
    }
    for (float &w : init)
        w = 0.8f * (frand() - 0.5f);

    float *x = device<float>(host.size()), *theta = device<float>(cfg::total), *grad = device<float>(cfg::total),
          *hist = device<float>(cfg::total);
    float *h = device<float>(cfg::batch * cfg::code), *dh = device<float>(cfg::batch * cfg::code),
          *delta = device<float>(cfg::batch * cfg::in), *sl = device<float>(cfg::batch),
          *recon = device<float>(cfg::batch * cfg::in);
    float *losses = nullptr;
    cudaMallocManaged(&losses, (cfg::perEpoch + 1) * sizeof(float));
    cudaMemcpy(x, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(theta, init.data(), init.size() * sizeof(float), cudaMemcpyHostToDevice);

    std::cout << std::fixed << std::setprecision(6);
    for (int e = 0; e < cfg::epochs; ++e) {
        for (int k = 0; k < cfg::perEpoch; ++k) {
            const float *xb = x + k * cfg::batch * cfg::in;
            encode<<<cfg::batch, cfg::code>>>(theta, xb, h);
            decode<<<cfg::batch, cfg::in>>>(theta, xb, h, delta, sl, nullptr);
            meanLoss<<<1, cfg::batch>>>(sl, losses + k);
            hiddenDelta<<<cfg::batch, cfg::code>>>(theta, h, delta, dh);
            gradients<<<2, 64>>>(xb, h, delta, dh, grad);
            if (!truth_step({{grad, cfg::total}}))
                continue;
            adagrad<<<2, 64>>>(theta, grad, hist, 0.25f);
        }
        cudaDeviceSynchronize();
        std::cout << "epoch " << e << ":";
        for (int k = 0; k < cfg::perEpoch; ++k)
            std::cout << ' ' << losses[k];
        std::cout << '\n';
    }
    // look at the first sample of the data
    encode<<<cfg::batch, cfg::code>>>(theta, x, h);
    decode<<<cfg::batch, cfg::in>>>(theta, x, h, delta, sl, recon);
    meanLoss<<<1, cfg::batch>>>(sl, losses + cfg::perEpoch);
    std::vector<float> r(cfg::in);
    cudaMemcpy(r.data(), recon, cfg::in * sizeof(float), cudaMemcpyDeviceToHost);
    for (int i = 0; i < cfg::in; ++i)
        std::cout << host[i] << " -> " << r[i] << '\n';
    std::cout << "test mse " << losses[cfg::perEpoch] << std::endl;
    truth_dump({{theta, cfg::total}});
    cudaFree(losses);
    cudaFree(x);
    cudaFree(theta);
    cudaFree(grad);
    cudaFree(hist);
    cudaFree(h);
    cudaFree(dh);
    cudaFree(delta);
    cudaFree(sl);
    cudaFree(recon);
}
