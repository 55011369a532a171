// Mixed precision: weights and their gradients are half, masters are float, and a loss scale follows overflows.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <ddprun.h>

#ifndef MISTAKE
#define MISTAKE 0
#endif

namespace {
constexpr int kBatch = 32, kIn = 10, kHidden = 24, kOut = 2, kItems = 320, kSteps = 40;

struct Scaler { // on the device
    float scale;
    int good, overflow;
};

__global__ void first_layer(const float *x, const __half *w, const float *b, float *h, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * kHidden) return;
    float s = b[i % kHidden];
    for (int k = 0; k < kIn; ++k) s += x[i / kHidden * kIn + k] * __half2float(w[k * kHidden + i % kHidden]);
    h[i] = fmaxf(s, 0.05f * s);
}
__global__ void second_layer(const float *h, const __half *w, const float *b, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * kOut) return;
    float s = b[i % kOut];
    for (int k = 0; k < kHidden; ++k) s += h[i / kOut * kHidden + k] * __half2float(w[k * kOut + i % kOut]);
    y[i] = s;
}
// dy carries the loss scale
__global__ void square_error(const float *y, const float *t, float *dy, float *loss, int n, float share, const Scaler *s)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * kOut) return;
    float e = y[i] - t[i];
    dy[i] = s->scale * share * e;
    loss[i] = fminf(0.5f * e * e, 10.0f); // broken targets do not spoil the figure
}
__global__ void hidden_delta(const float *h, const __half *w, const float *dy, float *dh, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = i % kHidden;
    if (i >= n * kHidden) return;
    float s = 0;
    for (int c = 0; c < kOut; ++c) s += dy[i / kHidden * kOut + c] * __half2float(w[k * kOut + c]);
    dh[i] = h[i] > 0 ? s : 0.05f * s;
}
__global__ void weight_gradient(const float *x, const float *dy, __half *g, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= in * out) return;
    float s = 0;
    for (int r = 0; r < n; ++r) s += x[r * in + i / out] * dy[r * out + i % out];
    g[i] = __float2half(s);
}
__global__ void bias_gradient(const float *dy, float *g, int n, int out)
{
    int c = threadIdx.x;
    if (c >= out) return;
    float s = 0;
    for (int r = 0; r < n; ++r) s += dy[r * out + c];
    g[c] = s;
}
__global__ void find_overflow(const __half *g, int n, Scaler *s)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && !(fabsf(__half2float(g[i])) <= 65504.0f)) s->overflow = 1;
}
__global__ void update_half(__half *w, float *master, float *v, const __half *g, int n, float rate, float part, const Scaler *s)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || s->overflow) return;
    v[i] = 0.8f * v[i] + __half2float(g[i]) / s->scale * part;
    master[i] -= rate * v[i];
    w[i] = __float2half(master[i]);
}
__global__ void update_float(float *w, float *v, const float *g, int n, float rate, float part, const Scaler *s)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || s->overflow) return;
    v[i] = 0.8f * v[i] + g[i] / s->scale * part;
    w[i] -= rate * v[i];
}
__global__ void adjust(Scaler *s)
{
    if (s->overflow) s->scale *= 0.5f, s->good = 0;
    else if (++s->good == 3) s->scale *= 2, s->good = 0;
    s->overflow = 0;
}
__global__ void add_up(const float *loss, float *sum, int n)
{
#if MISTAKE == 4 || MISTAKE == 8
    for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(sum, loss[i]);
#else
    if (threadIdx.x == 0)
        for (int i = 0; i < n; ++i) *sum += loss[i];
#endif
}
inline int grid(int n) { return (n + 63) / 64; }

template <typename T> T *allocate(size_t n)
{
    T *p;
    cudaMalloc(&p, n * sizeof(T));
    cudaMemset(p, 0, n * sizeof(T));
    return p;
}
struct HalfWeights {
    int n;
    __half *w, *g;
    float *master, *v;
    HalfWeights(int count, float spread, unsigned seed)
        : n(count), w(allocate<__half>(n)), g(allocate<__half>(n)), master(allocate<float>(n)), v(allocate<float>(n))
    {
        std::mt19937 random(seed);
        std::normal_distribution<float> normal(0, spread);
        std::vector<float> h(n);
        std::vector<__half> hh(n);
        for (int i = 0; i < n; ++i) h[i] = normal(random), hh[i] = __float2half(h[i]);
        cudaMemcpy(master, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(w, hh.data(), n * sizeof(__half), cudaMemcpyHostToDevice);
    }
};
} // namespace

int main()
{
    std::mt19937 random(12);
    std::normal_distribution<float> normal;
    std::vector<float> hx(kItems * kIn), ht(kItems * kOut);
    for (int i = 0; i < kItems; ++i) {
        float a = 0, b = 0;
        for (int k = 0; k < kIn; ++k) a += (hx[i * kIn + k] = normal(random)) * (k % 4 - 1.5f) * 0.4f, b += fabsf(hx[i * kIn + k]) * 0.1f;
        ht[i * kOut] = sinf(a), ht[i * kOut + 1] = b;
        if (i == 40 || i == 180) ht[i * kOut] = 1e20f; // a broken target
    }
    float *x = allocate<float>(hx.size()), *t = allocate<float>(ht.size()), *h = allocate<float>(kBatch * kHidden),
          *y = allocate<float>(kBatch * kOut), *dy = allocate<float>(kBatch * kOut), *dh = allocate<float>(kBatch * kHidden),
          *loss = allocate<float>(kBatch * kOut), *sum = allocate<float>(1);
    cudaMemcpy(x, hx.data(), hx.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(t, ht.data(), ht.size() * sizeof(float), cudaMemcpyHostToDevice);
    unsigned seed = 40;
#if MISTAKE == 2
    seed += 17 * DDP_RANK();
#endif
    HalfWeights w1(kIn * kHidden, 0.3f, seed), w2(kHidden * kOut, 0.25f, seed + 1);
    float *b1 = allocate<float>(kHidden), *b2 = allocate<float>(kOut), *db1 = allocate<float>(kHidden), *db2 = allocate<float>(kOut),
          *vb1 = allocate<float>(kHidden), *vb2 = allocate<float>(kOut);
    Scaler start = {1024, 0, 0}, *scaler = allocate<Scaler>(1);
    cudaMemcpy(scaler, &start, sizeof(start), cudaMemcpyHostToDevice);

    for (HalfWeights *p : {&w1, &w2}) {
        DDP_PARAMETER(p->w, p->n, DDP_FLOAT16);
#if MISTAKE != 2
        DDP_PARAMETER(p->master, p->n, DDP_FLOAT32);
#endif
#if MISTAKE == 3
        DDP_GRADIENT(p->g, p->n * sizeof(__half) / sizeof(float), DDP_FLOAT16);
#else
        DDP_GRADIENT(p->g, p->n, DDP_TYPE_OF(p->g));
#endif
    }
    DDP_PARAMETER(b1, kHidden, DDP_FLOAT32);
    DDP_PARAMETER(b2, kOut, DDP_FLOAT32);
#if MISTAKE != 8
    DDP_GRADIENT(db1, kHidden, DDP_FLOAT32);
    DDP_GRADIENT(db2, kOut, DDP_FLOAT32);
#endif

    const float rate = 0.1f;
    for (int step = 0; step < kSteps; ++step) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        int n = (int)count, begin = step * kBatch % kItems, from = begin + (int)first;
        const float *in = x + from * kIn, *target = t + from * kOut;
#if MISTAKE == 5
        target = t + begin * kOut;
#endif
        float share = 1.0f / n, part = 1;
#if MISTAKE == 7
        share = 1.0f / kBatch;
#elif MISTAKE == 4
        part = 1.0f / DDP_WORLD_SIZE();
#endif
#if MISTAKE == 2 || MISTAKE == 6
        cudaFree(dh);
        dh = allocate<float>(n * kHidden); // for this step
#endif
        first_layer<<<grid(n * kHidden), 64>>>(in, w1.w, b1, h, n);
        second_layer<<<grid(n * kOut), 64>>>(h, w2.w, b2, y, n);
        square_error<<<grid(n * kOut), 64>>>(y, target, dy, loss, n, share, scaler);
        hidden_delta<<<grid(n * kHidden), 64>>>(h, w2.w, dy, dh, n);
        weight_gradient<<<grid(w2.n), 64>>>(h, dy, w2.g, n, kHidden, kOut);
        weight_gradient<<<grid(w1.n), 64>>>(in, dh, w1.g, n, kIn, kHidden);
#if MISTAKE == 6
        DDP_STEP(0);
#endif
        bias_gradient<<<1, 32>>>(dy, db2, n, kOut);
        bias_gradient<<<1, 32>>>(dh, db1, n, kHidden);
#if MISTAKE == 1
        for (HalfWeights *p : {&w1, &w2}) find_overflow<<<grid(p->n), 64>>>(p->g, p->n, scaler);
        DDP_STEP(0);
#else
#if MISTAKE != 6
        DDP_STEP(0);
#endif
        for (HalfWeights *p : {&w1, &w2}) find_overflow<<<grid(p->n), 64>>>(p->g, p->n, scaler);
#endif
        for (HalfWeights *p : {&w1, &w2}) update_half<<<grid(p->n), 64>>>(p->w, p->master, p->v, p->g, p->n, rate, part, scaler);
        update_float<<<1, 32>>>(b1, vb1, db1, kHidden, rate, part, scaler);
        update_float<<<1, 32>>>(b2, vb2, db2, kOut, rate, part, scaler);
        adjust<<<1, 1>>>(scaler);
        if (step % 8 == 7) {
            float shown;
            Scaler now;
            cudaMemsetAsync(sum, 0, sizeof(float), 0);
            add_up<<<1, 32>>>(loss, sum, n * kOut);
            cudaMemcpy(&shown, sum, sizeof(float), cudaMemcpyDeviceToHost);
            cudaMemcpy(&now, scaler, sizeof(now), cudaMemcpyDeviceToHost);
            shown /= n;
            DDP_MEAN(&shown);
            if (DDP_RANK() == 0) printf("step %d loss %.4f scale %.0f\n", step + 1, shown, now.scale);
        }
    }
    return 0;
}
