// Fits f(a, b) = sin(3a) cos(2b) with a two-hidden-layer network and Adam.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>
#include <cuda_runtime.h>

static std::mt19937 rng(1234);

float *gpu_alloc(size_t n)
{
    float *p = nullptr;
    if (cudaMalloc(&p, n * sizeof(float)) != cudaSuccess) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    return p;
}

float *gpu_zeros(size_t n)
{
    float *p = gpu_alloc(n);
    cudaMemset(p, 0, n * sizeof(float));
    return p;
}

float *gpu_randn(size_t n, float scale)
{
    std::normal_distribution<float> d(0.f, scale);
    std::vector<float> h(n);
    for (auto &v : h) v = d(rng);
    float *p = gpu_alloc(n);
    cudaMemcpy(p, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    return p;
}

inline int blocks(int n) { return (n + 255) / 256; }

__global__ void linear(const float *in, const float *W, const float *b, float *out,
                       int n, int nin, int nout, bool relu)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= n * nout) return;
    int row = idx / nout, col = idx % nout;
    float acc = b[col];
    for (int k = 0; k < nin; ++k) acc += in[row * nin + k] * W[col * nin + k];
    out[idx] = relu ? fmaxf(acc, 0.f) : acc;
}

__global__ void mse_grad(const float *pred, const float *target, float *grad, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float d = pred[i] - target[i];
    grad[i] = 2.f * d / n;
    atomicAdd(loss, d * d / n);
}

__global__ void linear_dw(const float *in, const float *gout, float *gW, float *gb,
                          int n, int nin, int nout)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= nin * nout) return;
    int col = idx / nin, k = idx % nin;
    float acc = 0.f, accb = 0.f;
    for (int r = 0; r < n; ++r) {
        float g = gout[r * nout + col];
        acc += g * in[r * nin + k];
        accb += g;
    }
    gW[idx] = acc;
    if (k == 0) gb[col] = accb;
}

__global__ void linear_dx(const float *gout, const float *W, const float *act, float *gin,
                          int n, int nin, int nout)
{
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= n * nin) return;
    int row = idx / nin, k = idx % nin;
    float acc = 0.f;
    for (int c = 0; c < nout; ++c) acc += gout[row * nout + c] * W[c * nin + k];
    gin[idx] = act[idx] > 0.f ? acc : 0.f;
}

__global__ void adam(float *w, const float *g, float *m, float *v, int n, float lr, float c1, float c2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    w[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-8f);
}

void adam_step(float *w, float *g, float *m, float *v, int n, float lr, int t)
{
    float c1 = 1.f - powf(0.9f, t), c2 = 1.f - powf(0.999f, t);
    adam<<<blocks(n), 256>>>(w, g, m, v, n, lr, c1, c2);
}

int main()
{
    const int num = 2000, hidden = 32, steps = 200;
    const int batch_size = 100;

    std::uniform_real_distribution<float> uni(-1.f, 1.f);
    std::vector<float> xs(num * 2), ys(num);
    for (int i = 0; i < num; ++i) {
        xs[2 * i] = uni(rng);
        xs[2 * i + 1] = uni(rng);
        ys[i] = std::sin(3.f * xs[2 * i]) * std::cos(2.f * xs[2 * i + 1]);
    }

    float *W1 = gpu_randn(2 * hidden, 1.f), *b1 = gpu_zeros(hidden);
    float *W2 = gpu_randn(hidden * hidden, std::sqrt(2.f / hidden)), *b2 = gpu_zeros(hidden);
    float *W3 = gpu_randn(hidden, std::sqrt(1.f / hidden)), *b3 = gpu_zeros(1);
    float *gW1 = gpu_zeros(2 * hidden), *gb1 = gpu_zeros(hidden);
    float *gW2 = gpu_zeros(hidden * hidden), *gb2 = gpu_zeros(hidden);
    float *gW3 = gpu_zeros(hidden), *gb3 = gpu_zeros(1);

    float *params[] = {W1, b1, W2, b2, W3, b3};
    float *grads[] = {gW1, gb1, gW2, gb2, gW3, gb3};
    int sizes[] = {2 * hidden, hidden, hidden * hidden, hidden, hidden, 1};
    float *m[6], *v[6];
    for (int i = 0; i < 6; ++i) { m[i] = gpu_zeros(sizes[i]); v[i] = gpu_zeros(sizes[i]); }

    float *x = gpu_alloc(batch_size * 2), *y = gpu_alloc(batch_size);
    float *a1 = gpu_alloc(batch_size * hidden), *a2 = gpu_alloc(batch_size * hidden);
    float *out = gpu_alloc(batch_size);
    float *d1 = gpu_alloc(batch_size * hidden), *d2 = gpu_alloc(batch_size * hidden);
    float *d3 = gpu_alloc(batch_size);
    float *loss = gpu_zeros(1);

    std::vector<float> bx(batch_size * 2), by(batch_size);
    std::uniform_int_distribution<int> pick(0, num - 1);
    float lr = 0.01f;

    for (int step = 1; step <= steps; ++step) {
        for (int i = 0; i < batch_size; ++i) {
            int j = pick(rng);
            bx[2 * i] = xs[2 * j];
            bx[2 * i + 1] = xs[2 * j + 1];
            by[i] = ys[j];
        }
        cudaMemcpy(x, bx.data(), bx.size() * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(y, by.data(), by.size() * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemset(loss, 0, sizeof(float));

        linear<<<blocks(batch_size * hidden), 256>>>(x, W1, b1, a1, batch_size, 2, hidden, true);
        linear<<<blocks(batch_size * hidden), 256>>>(a1, W2, b2, a2, batch_size, hidden, hidden, true);
        linear<<<blocks(batch_size), 256>>>(a2, W3, b3, out, batch_size, hidden, 1, false);
        mse_grad<<<blocks(batch_size), 256>>>(out, y, d3, loss, batch_size);

        linear_dw<<<blocks(hidden), 256>>>(a2, d3, gW3, gb3, batch_size, hidden, 1);
        linear_dx<<<blocks(batch_size * hidden), 256>>>(d3, W3, a2, d2, batch_size, hidden, 1);
        linear_dw<<<blocks(hidden * hidden), 256>>>(a1, d2, gW2, gb2, batch_size, hidden, hidden);
        linear_dx<<<blocks(batch_size * hidden), 256>>>(d2, W2, a1, d1, batch_size, hidden, hidden);
        linear_dw<<<blocks(2 * hidden), 256>>>(x, d1, gW1, gb1, batch_size, 2, hidden);

        for (int i = 0; i < 6; ++i) adam_step(params[i], grads[i], m[i], v[i], sizes[i], lr, step);
        if (step % 80 == 0) lr *= 0.5f;
        if (step == 1 || step % 25 == 0) {
            float h;
            cudaMemcpy(&h, loss, sizeof(float), cudaMemcpyDeviceToHost);
            printf("step %d mse %.6f lr %g\n", step, h, lr);
        }
    }
    return 0;
}
