// Bayes by backprop: softmax regression whose weights have a Gaussian posterior (mean, softplus of rho).
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include "ddprun.h"

namespace cfg {
constexpr int features = 20, classes = 5, batch = 40, train = 800, weights = features * classes;
constexpr float prior_sigma = 1.0f, rate = 0.25f;
}

#define CUDA_OK(e)                                                                     \
    do {                                                                               \
        cudaError_t err = (e);                                                         \
        if (err != cudaSuccess) {                                                      \
            fprintf(stderr, "%s at line %d\n", cudaGetErrorString(err), __LINE__);     \
            exit(1);                                                                   \
        }                                                                              \
    } while (0)

template <typename T> T *device(size_t n)
{
    T *p;
    CUDA_OK(cudaMalloc(&p, n * sizeof(T)));
    CUDA_OK(cudaMemset(p, 0, n * sizeof(T)));
    return p;
}

__global__ void draw(const float *mu, const float *rho, const float *eps, float *w)
{
    int i = threadIdx.x;
    if (i < cfg::weights)
        w[i] = mu[i] + log1pf(expf(rho[i])) * eps[i];
}

__global__ void likelihood(const float *x, const int *t, const float *w, float *dz, float *nll, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    float z[cfg::classes], m = -1e30f, s = 0;
    for (int c = 0; c < cfg::classes; ++c) {
        z[c] = 0;
        for (int k = 0; k < cfg::features; ++k)
            z[c] += x[r * cfg::features + k] * w[k * cfg::classes + c];
        m = fmaxf(m, z[c]);
    }
    for (int c = 0; c < cfg::classes; ++c)
        s += z[c] = expf(z[c] - m);
    for (int c = 0; c < cfg::classes; ++c)
        dz[r * cfg::classes + c] = z[c] / s - (c == t[r]);
    nll[r] = -logf(z[t[r]] / s);
}

// d(mean nll + kl_weight * KL(q || prior)) / d(mu, rho)
__global__ void posterior_gradient(const float *x, const float *dz, const float *mu, const float *rho, const float *eps,
                                   float *gmu, float *grho, int rows, float kl_weight)
{
    int i = threadIdx.x;
    if (i >= cfg::weights)
        return;
    int k = i / cfg::classes, c = i % cfg::classes;
    float g = 0;
    for (int r = 0; r < rows; ++r)
        g += x[r * cfg::features + k] * dz[r * cfg::classes + c];
    g /= rows;
    float sigma = log1pf(expf(rho[i])), slope = 1.0f / (1.0f + expf(-rho[i]));
    float var = cfg::prior_sigma * cfg::prior_sigma;
    gmu[i] = g + kl_weight * mu[i] / var;
    grho[i] = (g * eps[i] + kl_weight * (sigma / var - 1.0f / sigma)) * slope;
}

__global__ void descend(float *p, const float *g, float rate)
{
    int i = threadIdx.x;
    if (i < cfg::weights)
        p[i] -= rate * g[i];
}

int main(int argc, char **argv)
{
    const int steps = argc > 2 ? atoi(argv[2]) : 60;
    std::mt19937 gen(31337);
    auto normal = [&gen]() { // Box-Muller, so that it does not depend on the library
        double u = (gen() + 1.0) / 4294967297.0, v = gen() / 4294967296.0;
        return (float)(std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v));
    };
    std::vector<float> x(cfg::train * cfg::features), truth(cfg::weights), host(cfg::weights);
    std::vector<int> t(cfg::train);
    for (float &v : truth)
        v = normal();
    for (int i = 0; i < cfg::train; ++i) {
        float best = -1e30f;
        for (int k = 0; k < cfg::features; ++k)
            x[i * cfg::features + k] = normal();
        for (int c = 0; c < cfg::classes; ++c) {
            float s = normal();
            for (int k = 0; k < cfg::features; ++k)
                s += x[i * cfg::features + k] * truth[k * cfg::classes + c];
            if (s > best) {
                best = s;
                t[i] = c;
            }
        }
    }
    float *mu = device<float>(cfg::weights), *rho = device<float>(cfg::weights), *w = device<float>(cfg::weights);
    float *gmu = device<float>(cfg::weights), *grho = device<float>(cfg::weights), *eps = device<float>(cfg::weights);
    float *dx = device<float>(cfg::batch * cfg::features), *dz = device<float>(cfg::batch * cfg::classes);
    float *nll = device<float>(cfg::batch);
    int *dt = device<int>(cfg::batch);
    for (float &v : host)
        v = -2.0f;
    CUDA_OK(cudaMemcpy(rho, host.data(), cfg::weights * 4, cudaMemcpyHostToDevice));
    for (float &v : host)
        v = 0.05f * normal();
    CUDA_OK(cudaMemcpy(mu, host.data(), cfg::weights * 4, cudaMemcpyHostToDevice));
    DDP_PARAMETER(mu, cfg::weights, DDP_TYPE_OF(mu));
    DDP_PARAMETER(rho, cfg::weights, DDP_TYPE_OF(rho));
    DDP_GRADIENT(gmu, cfg::weights, DDP_TYPE_OF(gmu));
    DDP_GRADIENT(grho, cfg::weights, DDP_TYPE_OF(grho));

    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(cfg::batch, &first, &count);
        size_t at = (size_t)step * cfg::batch % cfg::train + first;
        CUDA_OK(cudaMemcpy(dx, &x[at * cfg::features], count * cfg::features * 4, cudaMemcpyHostToDevice));
        CUDA_OK(cudaMemcpy(dt, &t[at], count * 4, cudaMemcpyHostToDevice));
        for (float &v : host)
            v = normal();
        CUDA_OK(cudaMemcpy(eps, host.data(), cfg::weights * 4, cudaMemcpyHostToDevice));

        int batches = cfg::train / (int)count;
        draw<<<1, 128>>>(mu, rho, eps, w);
        likelihood<<<1, cfg::batch>>>(dx, dt, w, dz, nll, (int)count);
        posterior_gradient<<<1, 128>>>(dx, dz, mu, rho, eps, gmu, grho, (int)count, 1.0f / batches);
        DDP_STEP(0);
        descend<<<1, 128>>>(mu, gmu, cfg::rate);
        descend<<<1, 128>>>(rho, grho, cfg::rate);

        std::vector<float> l(count);
        CUDA_OK(cudaMemcpy(l.data(), nll, count * 4, cudaMemcpyDeviceToHost));
        double sum = 0;
        for (float v : l)
            sum += v / count;
        DDP_MEAN(&sum);
        if (DDP_RANK() == 0 && step % 10 == 0)
            printf("step %d nll %.4f\n", step, sum);
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        for (float *p : {mu, rho}) {
            CUDA_OK(cudaMemcpy(host.data(), p, cfg::weights * 4, cudaMemcpyDeviceToHost));
            fwrite(host.data(), 4, cfg::weights, f);
        }
        fclose(f);
    }
    return 0;
}
