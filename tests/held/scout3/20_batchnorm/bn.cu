// MLP with batch normalisation, Nesterov momentum and a stepped learning rate.
// Running statistics are used for the evaluation pass.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>
#include <cuda_runtime.h>

#define CUDA_OK(call)                                                           \
    {                                                                           \
        cudaError_t status = (call);                                            \
        if (status != cudaSuccess) {                                            \
            std::fprintf(stderr, "%d: %s\n", __LINE__, cudaGetErrorString(status)); \
            std::exit(1);                                                       \
        }                                                                       \
    }

namespace k {
__global__ void matmul(const float *a, const float *b, float *c, int m, int kk, int n)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= m || j >= n) return;
    float s = 0;
    for (int q = 0; q < kk; ++q) s += a[i * kk + q] * b[q * n + j];
    c[i * n + j] = s;
}
__global__ void matmul_tn(const float *a, const float *b, float *c, int m, int kk, int n)   // c[kk,n] = a'[m,kk] b[m,n]
{
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= kk || j >= n) return;
    float s = 0;
    for (int q = 0; q < m; ++q) s += a[q * kk + i] * b[q * n + j];
    c[i * n + j] = s;
}
__global__ void matmul_nt(const float *a, const float *b, float *c, int m, int n, int kk)   // c[m,kk] = a[m,n] b'[kk,n]
{
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= m || j >= kk) return;
    float s = 0;
    for (int q = 0; q < n; ++q) s += a[i * n + q] * b[j * n + q];
    c[i * kk + j] = s;
}
// one thread per feature
__global__ void bn_stats(const float *x, float *mean, float *istd, float *rmean, float *rvar, int n, int d)
{
    int f = blockIdx.x * blockDim.x + threadIdx.x;
    if (f >= d) return;
    float s = 0, q = 0;
    for (int i = 0; i < n; ++i) s += x[i * d + f];
    float mu = s / n;
    for (int i = 0; i < n; ++i) q += (x[i * d + f] - mu) * (x[i * d + f] - mu);
    mean[f] = mu;
    istd[f] = rsqrtf(q / n + 1e-5f);
    rmean[f] = 0.9f * rmean[f] + 0.1f * mu;
    rvar[f] = 0.9f * rvar[f] + 0.1f * q / (n - 1);
}
__global__ void bn_running(const float *rmean, const float *rvar, float *mean, float *istd, int d)
{
    int f = blockIdx.x * blockDim.x + threadIdx.x;
    if (f < d) { mean[f] = rmean[f]; istd[f] = rsqrtf(rvar[f] + 1e-5f); }
}
__global__ void bn_relu(const float *x, const float *mean, const float *istd, const float *gamma, const float *beta,
                        float *xhat, float *y, int n, int d)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * d) return;
    int f = i % d;
    xhat[i] = (x[i] - mean[f]) * istd[f];
    y[i] = fmaxf(0.f, gamma[f] * xhat[i] + beta[f]);
}
__global__ void bn_relu_grad(const float *xhat, const float *y, const float *istd, const float *gamma, float *dy,
                             float *ggamma, float *gbeta, int n, int d)
{
    int f = blockIdx.x * blockDim.x + threadIdx.x;
    if (f >= d) return;
    float sg = 0, sb = 0;
    for (int i = 0; i < n; ++i) {
        int e = i * d + f;
        if (y[e] <= 0.f) dy[e] = 0.f;
        sb += dy[e];
        sg += dy[e] * xhat[e];
    }
    ggamma[f] = sg;
    gbeta[f] = sb;
    for (int i = 0; i < n; ++i) {
        int e = i * d + f;
        dy[e] = gamma[f] * istd[f] * (dy[e] - sb / n - xhat[e] * sg / n);
    }
}
__global__ void xent(const float *z, const float *b, const int *t, float *dz, float *loss, int *hit, int n, int c)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float m = -1e30f, s = 0;
    int am = 0;
    for (int j = 0; j < c; ++j) if (z[i * c + j] + b[j] > m) { m = z[i * c + j] + b[j]; am = j; }
    for (int j = 0; j < c; ++j) s += expf(z[i * c + j] + b[j] - m);
    for (int j = 0; j < c; ++j) dz[i * c + j] = (expf(z[i * c + j] + b[j] - m) / s - (j == t[i])) / n;
    atomicAdd(loss, logf(s) + m - z[i * c + t[i]] - b[t[i]]);
    if (am == t[i]) atomicAdd(hit, 1);
}
__global__ void colsum(const float *d, float *out, int n, int c)
{
    int j = threadIdx.x;
    if (j >= c) return;
    float s = 0;
    for (int i = 0; i < n; ++i) s += d[i * c + j];
    out[j] = s;
}
__global__ void nesterov(float *p, float *v, const float *g, float lr, float mu, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float old = v[i];
    v[i] = mu * v[i] - lr * g[i];
    p[i] += -mu * old + (1.f + mu) * v[i];
}
}  // namespace k

static float *make(int n, float value = 0.f)
{
    float *p;
    std::vector<float> h(n, value);
    CUDA_OK(cudaMalloc(&p, n * sizeof(float)));
    CUDA_OK(cudaMemcpy(p, h.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    return p;
}
static dim3 g2(int n, int m) { return dim3((n + 15) / 16, (m + 7) / 8); }
static const dim3 b2(16, 8);

int main()
{
    const int D = 12, H = 32, C = 5, N = 1536, NV = 256;
    const int bsz = 96;
    std::mt19937 rng(2015);
    std::normal_distribution<float> nd;
    std::vector<float> hx((N + NV) * D), proj(D * C);
    std::vector<int> ht(N + NV);
    for (auto &p : proj) p = nd(rng);
    for (int i = 0; i < N + NV; ++i) {
        float best = -1e9f;
        for (int f = 0; f < D; ++f) hx[i * D + f] = nd(rng) * (1 + f) + 3.f * f;
        for (int c = 0; c < C; ++c) {
            float s = 0;
            for (int f = 0; f < D; ++f) { float u = (hx[i * D + f] - 3.f * f) / (1 + f); s += proj[f * C + c] * (f % 2 ? u : u * u - 1.f); }
            if (s > best) { best = s; ht[i] = c; }
        }
    }
    std::map<std::string, int> shape = {{"w1", D * H}, {"gamma", H}, {"beta", H}, {"w2", H * C}, {"b2", C}};
    std::map<std::string, float *> param, grad, vel;
    for (auto &s : shape) {
        param[s.first] = make(s.second, s.first == "gamma" ? 1.f : 0.f);
        grad[s.first] = make(s.second);
        vel[s.first] = make(s.second);
        if (s.first[0] != 'w') continue;
        std::vector<float> h(s.second);
        for (auto &v : h) v = nd(rng) * (s.first == "w1" ? 0.1f : 0.2f);
        CUDA_OK(cudaMemcpy(param[s.first], h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice));
    }
    float *x = make((N + NV) * D), *pre = make(bsz * H), *xhat = make(bsz * H), *act = make(bsz * H), *dact = make(bsz * H);
    float *z = make(bsz * C), *dz = make(bsz * C), *mean = make(H), *istd = make(H), *rmean = make(H), *rvar = make(H, 1.f), *loss = make(1);
    int *t, *hit;
    CUDA_OK(cudaMalloc(&t, (N + NV) * sizeof(int)));
    CUDA_OK(cudaMalloc(&hit, sizeof(int)));
    CUDA_OK(cudaMemcpy(x, hx.data(), hx.size() * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpy(t, ht.data(), ht.size() * sizeof(int), cudaMemcpyHostToDevice));

    auto forward = [&](int first, int n, bool training) {
        k::matmul<<<g2(H, n), b2>>>(x + first * D, param["w1"], pre, n, D, H);
        if (training) k::bn_stats<<<1, H>>>(pre, mean, istd, rmean, rvar, n, H);
        else k::bn_running<<<1, H>>>(rmean, rvar, mean, istd, H);
        k::bn_relu<<<(n * H + 127) / 128, 128>>>(pre, mean, istd, param["gamma"], param["beta"], xhat, act, n, H);
        k::matmul<<<g2(C, n), b2>>>(act, param["w2"], z, n, H, C);
        k::xent<<<(n + 31) / 32, 32>>>(z, param["b2"], t + first, dz, loss, hit, n, C);
    };
    auto report = [&](const char *what, int n) {
        float l; int c;
        CUDA_OK(cudaMemcpy(&l, loss, sizeof l, cudaMemcpyDeviceToHost));
        CUDA_OK(cudaMemcpy(&c, hit, sizeof c, cudaMemcpyDeviceToHost));
        CUDA_OK(cudaMemset(loss, 0, sizeof l));
        CUDA_OK(cudaMemset(hit, 0, sizeof c));
        std::printf("  %s %.5f / %.4f", what, l / n, c / (float)n);
    };

    CUDA_OK(cudaMemset(hit, 0, sizeof(int)));
    float lr = 0.1f;
    for (int epoch = 0; epoch < 10; ++epoch) {
        if (epoch == 5 || epoch == 8) lr *= 0.2f;
        for (int i = 0; i < N; i += bsz) {
            forward(i, bsz, true);
            k::matmul_tn<<<g2(C, H), b2>>>(act, dz, grad["w2"], bsz, H, C);
            k::colsum<<<1, 32>>>(dz, grad["b2"], bsz, C);
            k::matmul_nt<<<g2(H, bsz), b2>>>(dz, param["w2"], dact, bsz, C, H);
            k::bn_relu_grad<<<1, H>>>(xhat, act, istd, param["gamma"], dact, grad["gamma"], grad["beta"], bsz, H);
            k::matmul_tn<<<g2(H, D), b2>>>(x + i * D, dact, grad["w1"], bsz, D, H);
            for (auto &s : shape)
                k::nesterov<<<(s.second + 127) / 128, 128>>>(param[s.first], vel[s.first], grad[s.first], lr, 0.9f, s.second);
        }
        std::printf("epoch %d", epoch);
        report("train", N);
        for (int i = 0; i < NV; i += bsz) forward(N + i, i + bsz <= NV ? bsz : NV - i, false);
        report("valid", NV);
        std::printf("\n");
    }
    CUDA_OK(cudaDeviceSynchronize());
    return 0;
}
