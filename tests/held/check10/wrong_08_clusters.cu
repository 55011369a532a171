// Two-layer perceptron on noisy clusters, trained on convex combinations of pairs of examples with soft labels.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <random>
#include <stdexcept>
#include <vector>
#include "ddprun.h"

using std::size_t;
static void check(cudaError_t e) { if (e != cudaSuccess) throw std::runtime_error(cudaGetErrorString(e)); }
static void check(cublasStatus_t e) { if (e != CUBLAS_STATUS_SUCCESS) throw std::runtime_error("cublas"); }

struct Vec {
    float *p = nullptr;
    int n = 0;
    explicit Vec(int n_) : n(n_) { check(cudaMalloc(&p, n * sizeof(float))); check(cudaMemset(p, 0, n * sizeof(float))); }
    Vec(const Vec &) = delete;
    ~Vec() { cudaFree(p); }
    void set(const std::vector<float> &h) { check(cudaMemcpy(p, h.data(), n * sizeof(float), cudaMemcpyHostToDevice)); }
    std::vector<float> host() const
    {
        std::vector<float> h(n);
        check(cudaMemcpy(h.data(), p, n * sizeof(float), cudaMemcpyDeviceToHost));
        return h;
    }
};

__global__ void blend(const float *x, float *mixed, float lambda, int width, int n)
{
    int i = blockIdx.x, j = threadIdx.x;
    if (j < width) mixed[i * width + j] = lambda * x[i * width + j] + (1 - lambda) * x[(n - 1 - i) * width + j];
}
__global__ void bias_relu(float *h, const float *b, int width)
{
    int i = blockIdx.x * width + threadIdx.x;
    h[i] = fmaxf(0.0f, h[i] + b[threadIdx.x]);
}
__global__ void soft_cross_entropy(float *z, const float *b, const float *label, float *loss, int classes, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float *r = z + i * classes, top = -1e30f, sum = 0, l = 0;
    const float *y = label + i * classes;
    for (int c = 0; c < classes; ++c) { r[c] += b[c]; top = fmaxf(top, r[c]); }
    for (int c = 0; c < classes; ++c) sum += expf(r[c] - top);
    for (int c = 0; c < classes; ++c) {
        l -= y[c] * (r[c] - top - logf(sum));
        r[c] = (expf(r[c] - top) / sum - y[c]) / n;
    }
    loss[i] = l;
}
__global__ void relu_mask(float *d, const float *h, int width) { int i = blockIdx.x * width + threadIdx.x; if (h[i] <= 0) d[i] = 0; }
__global__ void sum_rows(const float *d, float *g, int width, int n)
{
    float s = 0;
    for (int i = 0; i < n; ++i) s += d[i * width + threadIdx.x];
    g[threadIdx.x] = s;
}
__global__ void nesterov(float *w, float *v, const float *g, float lr, float mu, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    v[i] = mu * v[i] + g[i];
    w[i] -= lr * (g[i] + mu * v[i]);
}

int main(int argc, char **argv)
{
    const int D = 20, H = 32, C = 5, BATCH = 48, N = 480, steps = argc > 2 ? std::atoi(argv[2]) : 60;
    std::minstd_rand eng(5);
    auto uni = [&] { return (eng() - 1) / 2147483646.0f; };
    std::vector<float> centres(C * D), xs(N * D), ys(N * C, 0.0f), w1h(D * H), w2h(H * C);
    for (auto &c : centres) c = 2 * uni() - 1;
    for (int i = 0; i < N; ++i) {
        int c = int(uni() * C) % C;
        ys[i * C + c] = 1;
        for (int j = 0; j < D; ++j) xs[i * D + j] = centres[c * D + j] + 1.2f * (uni() + uni() - 1);
    }
    for (auto &w : w1h) w = 0.5f * (uni() - 0.5f);
    for (auto &w : w2h) w = 0.5f * (uni() - 0.5f);
    Vec x(N * D), y(N * C), w1(D * H), b1(H), w2(H * C), b2(C), gw1(D * H), gb1(H), gw2(H * C), gb2(C), v1(D * H), vb1(H),
        v2(H * C), vb2(C), mx(BATCH * D), my(BATCH * C), h(BATCH * H), z(BATCH * C), dh(BATCH * H), loss(BATCH);
    x.set(xs); y.set(ys); w1.set(w1h); w2.set(w2h);
    Vec *W[] = {&w1, &b1, &w2, &b2}, *G[] = {&gw1, &gb1, &gw2, &gb2}, *V[] = {&v1, &vb1, &v2, &vb2};
    for (Vec *w : W) DDP_PARAMETER(w->p, w->n, DDP_FLOAT32);
    for (Vec *v : V) DDP_STATE(v->p, v->n, DDP_FLOAT32);
    for (Vec *g : G) DDP_GRADIENT(g->p, g->n, DDP_FLOAT32);
    cublasHandle_t blas;
    check(cublasCreate(&blas));
    const float one = 1, zero = 0;
    for (int it = 0; it < steps; ++it) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        const int n = int(count);
        const size_t at = size_t(it % (N / BATCH)) * BATCH + first;
        const float lambda = 0.5f + 0.5f * uni();
        blend<<<n, 32>>>(x.p + at * D, mx.p, lambda, D, n);
        blend<<<n, 32>>>(y.p + at * C, my.p, lambda, C, n);
        check(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, H, n, D, &one, w1.p, H, mx.p, D, &zero, h.p, H));
        bias_relu<<<n, H>>>(h.p, b1.p, H);
        check(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, C, n, H, &one, w2.p, C, h.p, H, &zero, z.p, C));
        soft_cross_entropy<<<1, 64>>>(z.p, b2.p, my.p, loss.p, C, n);
        check(cublasSgemm(blas, CUBLAS_OP_T, CUBLAS_OP_N, H, n, C, &one, w2.p, C, z.p, C, &zero, dh.p, H));
        relu_mask<<<n, H>>>(dh.p, h.p, H);
        check(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, C, H, n, &one, z.p, C, h.p, H, &zero, gw2.p, C));
        check(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, H, D, n, &one, dh.p, H, mx.p, D, &zero, gw1.p, H));
        sum_rows<<<1, C>>>(z.p, gb2.p, C, n);
        sum_rows<<<1, H>>>(dh.p, gb1.p, H, n);
        DDP_STEP(0);
        for (int k = 0; k < 4; ++k) nesterov<<<(W[k]->n + 63) / 64, 64>>>(W[k]->p, V[k]->p, G[k]->p, 0.05f, 0.8f, W[k]->n);
        if (it % 20 == 19 || it == 0) {
            float l = 0;
            std::vector<float> lh = loss.host();
            for (int i = 0; i < n; ++i) l += lh[i] / n;
            DDP_MEAN(&l);
            std::cout << "iteration " << it << " loss " << l << std::endl;
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        for (Vec *w : W) {
            auto o = w->host();
            std::fwrite(o.data(), sizeof(float), o.size(), f);
        }
        std::fclose(f);
    }
    cublasDestroy(blas);
    return 0;
}
