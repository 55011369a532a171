// Regression with two actnorm layers (scale and shift that start from the statistics of the first batch), tanh between.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <cuda_runtime.h>
#include "ddprun.h"

static const int kIn = 8, kHidden = 32, kBatch = 30, kRows = 600;

#define GPU(call)                                                                           \
    if (cudaError_t err = (call)) {                                                         \
        fprintf(stderr, "%s failed: %s\n", #call, cudaGetErrorString(err));                 \
        exit(EXIT_FAILURE);                                                                 \
    }

struct XorShift {
    unsigned a = 0xBEEF1234u;
    float operator()(float low, float high)
    {
        a ^= a << 13, a ^= a >> 17, a ^= a << 5;
        return low + (high - low) * ((a >> 8) / 16777216.f);
    }
};

struct Array {
    float *data = nullptr;
    int n = 0;
    void create(int size) { n = size; GPU(cudaMalloc(&data, n * sizeof(float))); GPU(cudaMemset(data, 0, n * sizeof(float))); }
    void put(const float *host, int m) { GPU(cudaMemcpy(data, host, m * sizeof(float), cudaMemcpyHostToDevice)); }
    std::vector<float> get(int m) const
    {
        std::vector<float> v(m);
        GPU(cudaMemcpy(v.data(), data, m * sizeof(float), cudaMemcpyDeviceToHost));
        return v;
    }
};

// y = (x - shift) * scale
__global__ void actnormInit(const float *x, float *shift, float *scale, int rows, int width)
{
    int j = threadIdx.x;
    if (j >= width) return;
    float m = 0, v = 0;
    for (int r = 0; r < rows; ++r) m += x[r * width + j];
    m /= rows;
    for (int r = 0; r < rows; ++r) v += (x[r * width + j] - m) * (x[r * width + j] - m);
    shift[j] = m;
    scale[j] = 1.f / sqrtf(v / rows + 1e-4f);
}
__global__ void actnorm(const float *x, const float *shift, const float *scale, float *y, int rows, int width)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < rows * width) y[t] = (x[t] - shift[t % width]) * scale[t % width];
}
__global__ void actnormGrad(const float *x, const float *dy, const float *shift, const float *scale, float *dshift,
                            float *dscale, float *dx, int rows, int width)
{
    int j = threadIdx.x;
    if (j >= width) return;
    float a = 0, b = 0;
    for (int r = 0; r < rows; ++r) {
        float d = dy[r * width + j];
        a -= d * scale[j];
        b += d * (x[r * width + j] - shift[j]);
        if (dx) dx[r * width + j] = d * scale[j];
    }
    dshift[j] = a;
    dscale[j] = b;
}
__global__ void linear(const float *x, const float *w, float *y, int rows)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= rows * kHidden) return;
    float s = 0;
    for (int k = 0; k < kIn; ++k) s += x[t / kHidden * kIn + k] * w[k * kHidden + t % kHidden];
    y[t] = s;
}
__global__ void head(const float *pre, const float *v, const float *target, float *dpre, float *dout, float *loss, int rows)
{
    int r = threadIdx.x;
    if (r >= rows) return;
    float s = 0;
    for (int j = 0; j < kHidden; ++j) s += tanhf(pre[r * kHidden + j]) * v[j];
    float e = s - target[r];
    loss[r] = fabsf(e) < 1 ? 0.5f * e * e : fabsf(e) - 0.5f;
    e = fminf(fmaxf(e, -1.f), 1.f) / rows;
    dout[r] = e;
    for (int j = 0; j < kHidden; ++j) {
        float h = tanhf(pre[r * kHidden + j]);
        dpre[r * kHidden + j] = e * v[j] * (1 - h * h);
    }
}
__global__ void headGrad(const float *pre, const float *dout, float *dv, int rows)
{
    int j = threadIdx.x;
    float g = 0;
    for (int r = 0; r < rows; ++r) g += dout[r] * tanhf(pre[r * kHidden + j]);
    dv[j] = g;
}
__global__ void linearGrad(const float *x, const float *dy, float *dw, int rows)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= kIn * kHidden) return;
    float g = 0;
    for (int r = 0; r < rows; ++r) g += x[r * kIn + t / kHidden] * dy[r * kHidden + t % kHidden];
    dw[t] = g;
}
__global__ void linearBack(const float *dy, const float *w, float *dx, int rows)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= rows * kIn) return;
    float g = 0;
    for (int j = 0; j < kHidden; ++j) g += dy[t / kIn * kHidden + j] * w[t % kIn * kHidden + j];
    dx[t] = g;
}
__global__ void heavyBall(float *p, float *v, const float *g, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { v[i] = 0.85f * v[i] - rate * g[i]; p[i] += v[i]; }
}

int main(int argc, char **argv)
{
    const int steps = argc > 2 ? atoi(argv[2]) : 60;
    XorShift rnd;
    std::vector<float> X(kRows * kIn), Y(kRows);
    for (int i = 0; i < kRows; ++i) {
        for (int k = 0; k < kIn; ++k) X[i * kIn + k] = (k + 1) * rnd(-1, 1) + 0.5f * k;
        Y[i] = 1.2f * sinf(X[i * kIn]) + 0.3f * X[i * kIn + 3] - 0.1f * X[i * kIn + 5] * X[i * kIn + 1];
    }
    enum { SHIFT1, SCALE1, W, SHIFT2, SCALE2, V, TENSORS };
    const int sizes[TENSORS] = {kIn, kIn, kIn * kHidden, kHidden, kHidden, kHidden};
    Array p[TENSORS], g[TENSORS], m[TENSORS];
    for (int i = 0; i < TENSORS; ++i) p[i].create(sizes[i]), g[i].create(sizes[i]), m[i].create(sizes[i]);
    std::vector<float> w0(kIn * kHidden), v0(kHidden);
    for (float &w : w0) w = rnd(-0.5f, 0.5f);
    for (float &v : v0) v = rnd(-0.3f, 0.3f);
    p[W].put(w0.data(), kIn * kHidden);
    p[V].put(v0.data(), kHidden);
    Array x, y, xn, z, zn, dzn, dz, dxn, dout, loss;
    x.create(kBatch * kIn), xn.create(kBatch * kIn), dxn.create(kBatch * kIn), y.create(kBatch), dout.create(kBatch);
    z.create(kBatch * kHidden), zn.create(kBatch * kHidden), dzn.create(kBatch * kHidden), dz.create(kBatch * kHidden);
    loss.create(kBatch);

    size_t first, count;
    DDP_SHARD(kBatch, &first, &count);
    const int n = (int)count, full = (n * kHidden + 63) / 64;

    x.put(&X[first * kIn], n * kIn);
    actnormInit<<<1, 32>>>(x.data, p[SHIFT1].data, p[SCALE1].data, n, kIn);
    actnorm<<<full, 64>>>(x.data, p[SHIFT1].data, p[SCALE1].data, xn.data, n, kIn);
    linear<<<full, 64>>>(xn.data, p[W].data, z.data, n);
    actnormInit<<<1, 32>>>(z.data, p[SHIFT2].data, p[SCALE2].data, n, kHidden);

    for (int i = 0; i < TENSORS; ++i) {
        DDP_PARAMETER(p[i].data, p[i].n, DDP_FLOAT32);
        DDP_STATE(m[i].data, m[i].n, DDP_FLOAT32);
        DDP_GRADIENT(g[i].data, g[i].n, DDP_FLOAT32);
    }
    for (int s = 0; s < steps; ++s) {
        int row = s * kBatch % kRows + (int)first;
        x.put(&X[row * kIn], n * kIn);
        y.put(&Y[row], n);
        actnorm<<<full, 64>>>(x.data, p[SHIFT1].data, p[SCALE1].data, xn.data, n, kIn);
        linear<<<full, 64>>>(xn.data, p[W].data, z.data, n);
        actnorm<<<full, 64>>>(z.data, p[SHIFT2].data, p[SCALE2].data, zn.data, n, kHidden);
        head<<<1, 32>>>(zn.data, p[V].data, y.data, dzn.data, dout.data, loss.data, n);
        headGrad<<<1, kHidden>>>(zn.data, dout.data, g[V].data, n);
        actnormGrad<<<1, 32>>>(z.data, dzn.data, p[SHIFT2].data, p[SCALE2].data, g[SHIFT2].data, g[SCALE2].data, dz.data, n, kHidden);
        linearGrad<<<full, 64>>>(xn.data, dz.data, g[W].data, n);
        linearBack<<<full, 64>>>(dz.data, p[W].data, dxn.data, n);
        actnormGrad<<<1, 32>>>(x.data, dxn.data, p[SHIFT1].data, p[SCALE1].data, g[SHIFT1].data, g[SCALE1].data, nullptr, n, kIn);
        DDP_STEP(0);
        for (int i = 0; i < TENSORS; ++i)
            heavyBall<<<(p[i].n + 63) / 64, 64>>>(p[i].data, m[i].data, g[i].data, 0.03f, p[i].n);
        float sum = 0;
        for (float l : loss.get(n)) sum += l / n;
        DDP_MEAN_AS("huber", &sum);
        if (DDP_RANK() == 0 && (s % 10 == 0 || s + 1 == steps)) printf("step %d huber %.4f\n", s, sum);
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        for (int i = 0; i < TENSORS; ++i) fwrite(p[i].get(p[i].n).data(), 4, p[i].n, f);
        fclose(f);
    }
    return 0;
}
