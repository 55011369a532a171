// Coordinate network: learns a procedural greyscale image from (u, v) with
// Fourier features.  Layer shapes are template parameters.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>
#include <cuda_runtime.h>

template <typename T, int IN, int OUT, int BATCH>
__global__ void denseForward(const T *__restrict__ x, const T *__restrict__ w, const T *__restrict__ b, T *y)
{
    __shared__ T row[IN];
    int s = blockIdx.x;
    for (int i = threadIdx.x; i < IN; i += blockDim.x) row[i] = x[s * IN + i];
    __syncthreads();
    int o = threadIdx.x;
    if (o < OUT) {
        T acc = b[o];
#pragma unroll 8
        for (int i = 0; i < IN; ++i) acc += row[i] * w[i * OUT + o];
        y[s * OUT + o] = acc;
    }
}

template <typename T, int IN, int OUT, int BATCH>
__global__ void denseBackwardParams(const T *x, const T *dy, T *dw, T *db)
{
    int o = threadIdx.x, i = blockIdx.x;
    if (o >= OUT) return;
    T acc = 0;
    if (i < IN) {
        for (int s = 0; s < BATCH; ++s) acc += x[s * IN + i] * dy[s * OUT + o];
        dw[i * OUT + o] = acc;
    } else {
        for (int s = 0; s < BATCH; ++s) acc += dy[s * OUT + o];
        db[o] = acc;
    }
}

template <typename T, int IN, int OUT, int BATCH>
__global__ void denseBackwardInput(const T *dy, const T *w, T *dx)
{
    int s = blockIdx.x, i = threadIdx.x;
    if (i >= IN) return;
    T acc = 0;
    for (int o = 0; o < OUT; ++o) acc += dy[s * OUT + o] * w[i * OUT + o];
    dx[s * IN + i] = acc;
}

template <typename T, int N>
__global__ void sineForward(T *a, T *pre)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) { pre[i] = a[i]; a[i] = sinf(a[i]); }
}
template <typename T, int N>
__global__ void sineBackward(T *d, const T *pre)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N) d[i] *= cosf(pre[i]);
}
template <typename T, int N>
__global__ void l2Loss(const T *y, const T *t, T *d, T *loss)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
    T e = y[i] - t[i];
    d[i] = T(2) * e / T(N);
    atomicAdd(loss, e * e / T(N));
}
template <typename T>
__global__ void descend(T *p, const T *g, T *vel, T lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { vel[i] = T(0.9) * vel[i] + g[i]; p[i] -= lr * vel[i]; }
}

template <typename T, int IN, int OUT, int BATCH>
struct Dense {
    static constexpr int kWeights = IN * OUT;
    T *w, *b, *dw, *db, *vw, *vb, *y, *dx;
    explicit Dense(std::mt19937 &g, float gain)
    {
        alloc(w, kWeights); alloc(b, OUT); alloc(dw, kWeights); alloc(db, OUT);
        alloc(vw, kWeights); alloc(vb, OUT); alloc(y, BATCH * OUT); alloc(dx, BATCH * IN);
        std::uniform_real_distribution<float> u(-gain / std::sqrt((float)IN), gain / std::sqrt((float)IN));
        std::vector<T> h(kWeights);
        for (auto &e : h) e = u(g);
        cudaMemcpy(w, h.data(), kWeights * sizeof(T), cudaMemcpyHostToDevice);
    }
    static void alloc(T *&p, int n) { cudaMalloc(&p, n * sizeof(T)); cudaMemset(p, 0, n * sizeof(T)); }
    T *forward(const T *x)
    {
        denseForward<T, IN, OUT, BATCH><<<BATCH, 64>>>(x, w, b, y);
        return y;
    }
    T *backward(const T *x, const T *dy)
    {
        denseBackwardParams<T, IN, OUT, BATCH><<<IN + 1, 64>>>(x, dy, dw, db);
        denseBackwardInput<T, IN, OUT, BATCH><<<BATCH, 64>>>(dy, w, dx);
        return dx;
    }
    void step(T lr)
    {
        descend<T><<<(kWeights + 63) / 64, 64>>>(w, dw, vw, lr, kWeights);
        descend<T><<<(OUT + 63) / 64, 64>>>(b, db, vb, lr, OUT);
    }
};

int main()
{
    constexpr int kSide = 48, kPixels = kSide * kSide, kBatch = 96, kFeat = 16, kHidden = 40;
    using Real = float;
    std::mt19937 gen(5);
    std::normal_distribution<float> freq(0.f, 4.f);
    float fx[kFeat / 2], fy[kFeat / 2];
    for (int k = 0; k < kFeat / 2; ++k) { fx[k] = freq(gen); fy[k] = freq(gen); }
    std::vector<Real> feat(kPixels * kFeat), pix(kPixels);
    std::vector<int> order(kPixels);
    for (int i = 0; i < kPixels; ++i) order[i] = i;
    for (int i = kPixels - 1; i > 0; --i) std::swap(order[i], order[gen() % (i + 1)]);
    for (int i = 0; i < kPixels; ++i) {
        float u = (order[i] % kSide) / (float)kSide, v = (order[i] / kSide) / (float)kSide;
        for (int k = 0; k < kFeat / 2; ++k) {
            feat[i * kFeat + 2 * k] = std::sin(fx[k] * u + fy[k] * v);
            feat[i * kFeat + 2 * k + 1] = std::cos(fx[k] * u + fy[k] * v);
        }
        float r = std::hypot(u - 0.5f, v - 0.5f);
        pix[i] = 0.5f + 0.5f * std::cos(12.f * r) * (1.f - u);
    }
    Real *dFeat, *dPix, *grad, *loss, *pre1, *pre2;
    cudaMalloc(&dFeat, feat.size() * sizeof(Real));
    cudaMalloc(&dPix, pix.size() * sizeof(Real));
    cudaMalloc(&grad, kBatch * sizeof(Real));
    cudaMalloc(&loss, sizeof(Real));
    cudaMalloc(&pre1, kBatch * kHidden * sizeof(Real));
    cudaMalloc(&pre2, kBatch * kHidden * sizeof(Real));
    cudaMemcpy(dFeat, feat.data(), feat.size() * sizeof(Real), cudaMemcpyHostToDevice);
    cudaMemcpy(dPix, pix.data(), pix.size() * sizeof(Real), cudaMemcpyHostToDevice);

    Dense<Real, kFeat, kHidden, kBatch> l1(gen, 2.f);
    Dense<Real, kHidden, kHidden, kBatch> l2(gen, 2.f);
    Dense<Real, kHidden, 1, kBatch> l3(gen, 1.f);
    constexpr int kAct = kBatch * kHidden;
    const int perEpoch = kPixels / kBatch;

    for (int step = 0; step < 192; ++step) {
        const Real *x = dFeat + (step % perEpoch) * kBatch * kFeat;
        const Real *t = dPix + (step % perEpoch) * kBatch;
        cudaMemset(loss, 0, sizeof(Real));
        l1.forward(x);
        sineForward<Real, kAct><<<(kAct + 127) / 128, 128>>>(l1.y, pre1);
        l2.forward(l1.y);
        sineForward<Real, kAct><<<(kAct + 127) / 128, 128>>>(l2.y, pre2);
        l3.forward(l2.y);
        l2Loss<Real, kBatch><<<(kBatch + 127) / 128, 128>>>(l3.y, t, grad, loss);
        Real *d = l3.backward(l2.y, grad);
        sineBackward<Real, kAct><<<(kAct + 127) / 128, 128>>>(d, pre2);
        d = l2.backward(l1.y, d);
        sineBackward<Real, kAct><<<(kAct + 127) / 128, 128>>>(d, pre1);
        l1.backward(x, d);
        l1.step(0.05f);
        l2.step(0.05f);
        l3.step(0.05f);
        if (step % 24 == 23) {
            Real h;
            cudaMemcpy(&h, loss, sizeof(h), cudaMemcpyDeviceToHost);
            std::printf("step %d  mse %.6f  psnr %.2f\n", step + 1, h, -10.f * std::log10(h));
        }
    }
    return 0;
}
