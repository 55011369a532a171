// Linear autoencoder. To save memory both layers share one gradient buffer.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

constexpr int D = 20, C = 5, B = 40, N = 400;

__global__ void matmul(const float *a, const float *b, float *c, int n, int k, int m)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * m) return;
    float s = 0;
    for (int j = 0; j < k; ++j) s += a[i / m * k + j] * b[j * m + i % m];
    c[i] = s;
}
// c = a^T b, a: n x k, b: n x m
__global__ void matmul_at(const float *a, const float *b, float *c, int n, int k, int m)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= k * m) return;
    float s = 0;
    for (int r = 0; r < n; ++r) s += a[r * k + i / m] * b[r * m + i % m];
    c[i] = s;
}
// c = a b^T, a: n x m, b: k x m
__global__ void matmul_bt(const float *a, const float *b, float *c, int n, int m, int k)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * k) return;
    float s = 0;
    for (int j = 0; j < m; ++j) s += a[i / k * m + j] * b[i % k * m + j];
    c[i] = s;
}
__global__ void diff(const float *rec, const float *x, float *d, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * D) return;
    float e = rec[i] - x[i];
    d[i] = 2 * e / (n * D);
    loss[i] = e * e / (n * D);
}
__global__ void sgd(float *w, const float *g, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= lr * g[i];
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? std::atoi(argv[1]) : 80;
    std::mt19937 g(11);
    std::normal_distribution<float> nd;
    std::vector<float> x(N * D), e(D * C), d(C * D), mix(C * D);
    for (auto &v : mix) v = nd(g);
    for (int i = 0; i < N; ++i) {
        float z[C];
        for (float &v : z) v = nd(g);
        for (int j = 0; j < D; ++j) {
            x[i * D + j] = 0.05f * nd(g);
            for (int c = 0; c < C; ++c) x[i * D + j] += z[c] * mix[c * D + j] * 0.5f;
        }
    }
    for (auto &v : e) v = 0.2f * nd(g);
    for (auto &v : d) v = 0.2f * nd(g);
    float *dx, *enc, *dec, *grad, *code, *rec, *delta, *dcode, *loss;
    for (auto p : {&code, &dcode}) cudaMalloc(p, B * C * 4);
    for (auto p : {&rec, &delta, &loss}) cudaMalloc(p, B * D * 4);
    for (auto p : {&enc, &dec, &grad}) cudaMalloc(p, D * C * 4);
    cudaMalloc(&dx, N * D * 4);
    cudaMemcpy(dx, x.data(), N * D * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(enc, e.data(), D * C * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dec, d.data(), D * C * 4, cudaMemcpyHostToDevice);
    DDP_PARAMETER(enc, D * C, DDP_FLOAT32);
    DDP_PARAMETER(dec, C * D, DDP_FLOAT32);
    DDP_GRADIENT(grad, D * C, DDP_FLOAT32);
    for (int s = 0; s < steps; ++s) {
        size_t first, n;
        DDP_SHARD(B, &first, &n);
        const float *in = dx + (s % (N / B) * B + first) * D;
        matmul<<<4, 64>>>(in, enc, code, n, D, C);
        matmul<<<13, 64>>>(code, dec, rec, n, C, D);
        diff<<<13, 64>>>(rec, in, delta, loss, n);
        matmul_bt<<<4, 64>>>(delta, dec, dcode, n, D, C);
        matmul_at<<<2, 64>>>(code, delta, grad, n, C, D);
        DDP_STEP(0);
        sgd<<<2, 64>>>(dec, grad, 0.3f, D * C);
        matmul_at<<<2, 64>>>(in, dcode, grad, n, D, C);
        sgd<<<2, 64>>>(enc, grad, 0.3f, D * C);
        if (s % 20 == 0 || s == steps - 1) {
            std::vector<float> l(n * D);
            cudaMemcpy(l.data(), loss, n * D * 4, cudaMemcpyDeviceToHost);
            double t = 0;
            for (float v : l) t += v;
            DDP_MEAN(&t);
            if (DDP_RANK() == 0) std::printf("step %d mse %.5f\n", s, t);
        }
    }
}
