// Fit of a spectrum by a sum of Gaussian peaks on a linear background, double precision, stochastic RMSprop.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>
#include <cuda_runtime.h>

using real = double;

constexpr int PEAKS = 80;
constexpr int NPAR = 3 * PEAKS + 2; // amplitude, centre, width of each peak; background a + b x
constexpr int CHANNELS = 4096;
constexpr int THREADS = 256;

__host__ __device__ inline real model(const real *p, real x)
{
    real y = p[3 * PEAKS] + p[3 * PEAKS + 1] * x;
    for (int k = 0; k < PEAKS; ++k) {
        real u = (x - p[3 * k + 1]) / p[3 * k + 2];
        y += p[3 * k] * exp(-0.5 * u * u);
    }
    return y;
}

/* Residuals of the channels idx[0..n) */
__global__ void residuals(const real *p, const real *xs, const real *ys, const int *idx, int n, real *res)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n)
        res[t] = model(p, xs[idx[t]]) - ys[idx[t]];
}

/* One block per peak (and one for the background), reduction over the mini batch; gradient of the mean square */
__global__ void chi2_gradient(const real *p, const real *xs, const int *idx, const real *res, int n, real *grad)
{
    __shared__ real s0[THREADS], s1[THREADS], s2[THREADS];
    int k = blockIdx.x, t = threadIdx.x;
    real a = 0, b = 0, c = 0;
    for (int i = t; i < n; i += blockDim.x) {
        real x = xs[idx[i]], r = 2 * res[i] / n;
        if (k == PEAKS) {
            a += r;
            b += r * x;
        } else {
            real w = p[3 * k + 2], u = (x - p[3 * k + 1]) / w, e = exp(-0.5 * u * u);
            a += r * e;
            b += r * p[3 * k] * e * u / w;
            c += r * p[3 * k] * e * u * u / w;
        }
    }
    s0[t] = a;
    s1[t] = b;
    s2[t] = c;
    __syncthreads();
    for (int h = blockDim.x / 2; h > 0; h >>= 1) {
        if (t < h) {
            s0[t] += s0[t + h];
            s1[t] += s1[t + h];
            s2[t] += s2[t + h];
        }
        __syncthreads();
    }
    if (t == 0) {
        grad[3 * k] = s0[0];
        grad[3 * k + 1] = s1[0];
        if (k < PEAKS)
            grad[3 * k + 2] = s2[0];
    }
}

__global__ void rmsprop(real *p, const real *g, real *cache, real lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    cache[i] = 0.95 * cache[i] + 0.05 * g[i] * g[i];
    p[i] -= lr * g[i] / (sqrt(cache[i]) + 1e-8);
    if (i < 3 * PEAKS && i % 3 == 2 && p[i] < 0.002)
        p[i] = 0.002; // widths stay positive
}

int main()
{
    std::mt19937_64 rng(20);
    std::uniform_real_distribution<real> u(0, 1);
    std::normal_distribution<real> g(0, 1);

    std::vector<real> truth(NPAR), start(NPAR), xs(CHANNELS), ys(CHANNELS);
    for (int k = 0; k < PEAKS; ++k) {
        truth[3 * k] = 0.5 + u(rng);
        truth[3 * k + 1] = (k + 0.5 + 0.4 * (u(rng) - 0.5)) / PEAKS;
        truth[3 * k + 2] = 0.003 + 0.003 * u(rng);
        start[3 * k] = 0.5;
        start[3 * k + 1] = (k + 0.5) / PEAKS;
        start[3 * k + 2] = 0.006;
    }
    truth[3 * PEAKS] = 0.7;
    truth[3 * PEAKS + 1] = -0.4;
    for (int i = 0; i < CHANNELS; ++i) {
        xs[i] = (i + 0.5) / CHANNELS;
        ys[i] = model(truth.data(), xs[i]) + 0.02 * g(rng);
    }

    real *d_p, *d_grad, *d_cache, *d_x, *d_y, *d_res;
    int *d_idx;
    const int batch = 256;
    cudaMalloc(&d_p, NPAR * sizeof(real));
    cudaMalloc(&d_grad, NPAR * sizeof(real));
    cudaMalloc(&d_cache, NPAR * sizeof(real));
    cudaMalloc(&d_x, CHANNELS * sizeof(real));
    cudaMalloc(&d_y, CHANNELS * sizeof(real));
    cudaMalloc(&d_res, CHANNELS * sizeof(real));
    cudaMalloc(&d_idx, CHANNELS * sizeof(int));
    cudaMemcpy(d_p, start.data(), NPAR * sizeof(real), cudaMemcpyHostToDevice);
    cudaMemset(d_cache, 0, NPAR * sizeof(real));
    cudaMemcpy(d_x, xs.data(), CHANNELS * sizeof(real), cudaMemcpyHostToDevice);
    cudaMemcpy(d_y, ys.data(), CHANNELS * sizeof(real), cudaMemcpyHostToDevice);

    std::vector<int> order(CHANNELS);
    std::iota(order.begin(), order.end(), 0);
    std::vector<real> res(CHANNELS);
    real lr = 4e-3;
    for (int sweep = 0; sweep < 8; ++sweep) {
        // a new order of all channels for each sweep
        std::shuffle(order.begin(), order.end(), rng);
        cudaMemcpy(d_idx, order.data(), CHANNELS * sizeof(int), cudaMemcpyHostToDevice);
        for (int at = 0; at < CHANNELS; at += batch) {
            residuals<<<(batch + THREADS - 1) / THREADS, THREADS>>>(d_p, d_x, d_y, d_idx + at, batch, d_res);
            chi2_gradient<<<PEAKS + 1, THREADS>>>(d_p, d_x, d_idx + at, d_res, batch, d_grad);
            rmsprop<<<(NPAR + THREADS - 1) / THREADS, THREADS>>>(d_p, d_grad, d_cache, lr, NPAR);
        }
        // chi^2 over the full spectrum
        residuals<<<CHANNELS / THREADS, THREADS>>>(d_p, d_x, d_y, d_idx, CHANNELS, d_res);
        cudaMemcpy(res.data(), d_res, CHANNELS * sizeof(real), cudaMemcpyDeviceToHost);
        real chi2 = 0;
        for (real r : res)
            chi2 += r * r / CHANNELS;
        printf("sweep %d: lr %.2e, loss (mean square) %.6f\n", sweep, lr, chi2);
        lr *= 0.65;
    }
    return 0;
}
