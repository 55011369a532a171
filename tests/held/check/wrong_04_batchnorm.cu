// Regression with one batch-normalised hidden layer. Each step is one struct of
// device pointers handed to the kernels by value.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <random>
#include <cuda_runtime.h>
#include <ddprun.h>

enum { I = 8, H = 16, B = 32, N = 640 };

struct Model { float *w, *v, *gw, *gv; };
struct Work { float *pre, *hat, *mean, *inv, *dhat, *err, *loss; };

static float *alloc(int n) { float *p; cudaMalloc(&p, n * sizeof(float)); cudaMemset(p, 0, n * sizeof(float)); return p; }

__global__ void linear(const float *x, Model m, Work k, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * H) return;
    float a = 0;
    for (int i = 0; i < I; ++i) a += x[(t / H) * I + i] * m.w[i * H + t % H];
    k.pre[t] = a;
}

__global__ void bn_stats(const float *pre, float *mean, float *inv, int n)
{
    int c = threadIdx.x;
    float a = 0, q = 0;
    for (int r = 0; r < n; ++r) a += pre[r * H + c];
    a /= n;
    for (int r = 0; r < n; ++r) q += (pre[r * H + c] - a) * (pre[r * H + c] - a);
    mean[c] = a;
    inv[c] = rsqrtf(q / n + 1e-4f);
}

__global__ void head(const float *y, Model m, Work k, int n)
{
    int r = threadIdx.x;
    if (r >= n) return;
    float o = 0;
    for (int c = 0; c < H; ++c) {
        float h = (k.pre[r * H + c] - k.mean[c]) * k.inv[c];
        k.hat[r * H + c] = h;
        o += fmaxf(h, 0.f) * m.v[c];
    }
    float e = o - y[r];
    k.err[r] = 2 * e / n;
    k.loss[r] = e * e;
    for (int c = 0; c < H; ++c) k.dhat[r * H + c] = k.hat[r * H + c] > 0 ? k.err[r] * m.v[c] : 0;
}

__global__ void bn_backward(const float *x, Model m, Work k, int n)
{
    int c = threadIdx.x;
    float s1 = 0, s2 = 0, g = 0;
    for (int r = 0; r < n; ++r) {
        s1 += k.dhat[r * H + c];
        s2 += k.dhat[r * H + c] * k.hat[r * H + c];
        g += k.err[r] * fmaxf(k.hat[r * H + c], 0.f);
    }
    m.gv[c] = g;
    for (int i = 0; i < I; ++i) {
        float a = 0;
        for (int r = 0; r < n; ++r)
            a += x[r * I + i] * k.inv[c] * (k.dhat[r * H + c] - s1 / n - k.hat[r * H + c] * s2 / n);
        m.gw[i * H + c] = a;
    }
}

__global__ void sgd(Model m, float lr)
{
    int c = threadIdx.x;
    m.v[c] -= lr * m.gv[c];
    for (int i = 0; i < I; ++i) m.w[i * H + c] -= lr * m.gw[i * H + c];
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 60;
    std::mt19937 r(3);
    std::uniform_real_distribution<float> u(-1, 1);
    std::vector<float> x(N * I), y(N), w(I * H), v(H);
    for (int i = 0; i < N; ++i) {
        for (int j = 0; j < I; ++j) x[i * I + j] = u(r);
        y[i] = fabsf(x[i * I]) + x[i * I + 1] - 0.5f * x[i * I + 2];
    }
    for (float &f : w) f = u(r);
    for (float &f : v) f = 0.3f * u(r);
    float *dx = alloc(N * I), *dy = alloc(N);
    Model m = {alloc(I * H), alloc(H), alloc(I * H), alloc(H)};
    Work k = {alloc(B * H), alloc(B * H), alloc(H), alloc(H), alloc(B * H), alloc(B), alloc(B)};
    cudaMemcpy(dx, x.data(), N * I * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), N * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(m.w, w.data(), I * H * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(m.v, v.data(), H * 4, cudaMemcpyHostToDevice);
    DDP_PARAMETER(m.w, I * H, DDP_FLOAT32);
    DDP_PARAMETER(m.v, H, DDP_FLOAT32);
    DDP_GRADIENT(m.gw, I * H, DDP_FLOAT32);
    DDP_GRADIENT(m.gv, H, DDP_FLOAT32);
    for (int s = 0; s < steps; ++s) {
        size_t first, n;
        DDP_SHARD(B, &first, &n);
        size_t row = s % (N / B) * B + first;
        linear<<<(n * H + 127) / 128, 128>>>(dx + row * I, m, k, n);
        bn_stats<<<1, H>>>(k.pre, k.mean, k.inv, n);
        head<<<1, B>>>(dy + row, m, k, n);
        bn_backward<<<1, H>>>(dx + row * I, m, k, n);
        DDP_STEP(0);
        sgd<<<1, H>>>(m, 0.1f);
        if (s % 10 == 0) {
            std::vector<float> l(n);
            cudaMemcpy(l.data(), k.loss, n * 4, cudaMemcpyDeviceToHost);
            float a = 0;
            for (float f : l) a += f / n;
            DDP_MEAN_AS("mse", &a);
            if (DDP_RANK() == 0) printf("%d: mse %.5f\n", s, a);
        }
    }
    return 0;
}
