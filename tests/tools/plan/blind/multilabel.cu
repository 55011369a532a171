// Multi-label net 10-24-6 with inverted dropout (mask by a counter hash), labels unpacked from bits by a kernel,
// Nesterov momentum. Truth: gradients (truth_step over g, all four parameters in one vector). Batches: 48 (4 epochs of
// 12 batches of 32; the order is shuffled on the host, rows are gathered on the device).
#include "truth.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

using std::vector;
typedef unsigned int u32;

const u32 IN = 10, HID = 24, OUT = 6, BS = 32, TRAIN = 384, TEST = 96, EPOCHS = 4;
const u32 OFF_B1 = IN * HID, OFF_W2 = OFF_B1 + HID, OFF_B2 = OFF_W2 + HID * OUT, ALL = OFF_B2 + OUT;
const float KEEP = 0.8f;

__device__ inline u32
hash3(u32 a, u32 b, u32 c)
{
    u32 h = a * 0x9E3779B1u ^ b * 0x85EBCA77u ^ c * 0xC2B2AE3Du;
    h ^= h >> 15;
    h *= 0x2C1B3C6Du;
    h ^= h >> 12;
    h *= 0x297A2D39u;
    h ^= h >> 15;
    return h;
}
__global__ void
gather_rows(const float *all, const u32 *bits, const u32 *order, float *x, float *t)
{
    u32 r = order[blockIdx.x], j = threadIdx.x;
    if (j < IN)
        x[blockIdx.x * IN + j] = all[r * IN + j];
    if (j < OUT)
        t[blockIdx.x * OUT + j] = (float)(bits[r] >> j & 1u);
}
template <bool TRAINING>
__global__ void
hidden(const float *p, const float *x, float *h, u32 counter)
{
    u32 i = blockIdx.x, j = threadIdx.x;
    float a = p[OFF_B1 + j];
    for (u32 k = 0; k < IN; ++k)
        a += x[i * IN + k] * p[k * HID + j];
    a = fmaxf(a, 0.f);
    if (TRAINING)
        a = (hash3(counter, i, j) >> 8) < (u32)(KEEP * 16777216.f) ? a / KEEP : 0.f;
    h[i * HID + j] = a;
}
__global__ void
output(const float *p, const float *h, const float *t, float *d, float *loss, u32 *right)
{
    u32 i = blockIdx.x, o = threadIdx.x;
    float z = p[OFF_B2 + o];
    for (u32 j = 0; j < HID; ++j)
        z += h[i * HID + j] * p[OFF_W2 + j * OUT + o];
    float y = t[i * OUT + o];
    d[i * OUT + o] = (1.f / (1.f + expf(-z)) - y) / (BS);
    loss[i * OUT + o] = fmaxf(z, 0.f) - z * y + logf(1.f + expf(-fabsf(z)));
    if (right)
        atomicAdd(right, (z > 0.f) == (y > 0.5f) ? 1u : 0u);
}
// where dropout or relu made a zero, nothing comes back; the factor 1/KEEP is in the mask
__global__ void
back_hidden(const float *p, const float *h, const float *d, float *dh)
{
    u32 i = blockIdx.x, j = threadIdx.x;
    float s = 0.f;
    for (u32 o = 0; o < OUT; ++o)
        s += d[i * OUT + o] * p[OFF_W2 + j * OUT + o];
    dh[i * HID + j] = h[i * HID + j] > 0.f ? s / KEEP : 0.f;
}
__global__ void
back_params(const float *x, const float *h, const float *d, const float *dh, float *g)
{
    u32 q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= ALL)
        return;
    float s = 0.f;
    for (u32 i = 0; i < BS; ++i) {
        if (q < OFF_B1)
            s += x[i * IN + q / HID] * dh[i * HID + q % HID];
        else if (q < OFF_W2)
            s += dh[i * HID + (q - OFF_B1)];
        else if (q < OFF_B2)
            s += h[i * HID + (q - OFF_W2) / OUT] * d[i * OUT + (q - OFF_W2) % OUT];
        else
            s += d[i * OUT + (q - OFF_B2)];
    }
    g[q] = s;
}
__global__ void
nesterov(float *p, float *vel, const float *g, float lr, float mu)
{
    u32 q = blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= ALL)
        return;
    float v = mu * vel[q] + g[q];
    vel[q] = v;
    p[q] -= lr * (g[q] + mu * v);
}

template <class T> struct Dev {
    T *p = nullptr;
    size_t n;
    explicit Dev(size_t n_) : n(n_)
    {
        if (cudaMalloc(&p, n * sizeof(T))) {
            puts("no memory");
            exit(1);
        }
        cudaMemset(p, 0, n * sizeof(T));
    }
    ~Dev()
    {
        cudaFree(p);
    }
    void set(const T *h, size_t k)
    {
        cudaMemcpy(p, h, k * sizeof(T), cudaMemcpyHostToDevice);
    }
    vector<T> get(size_t k) const
    {
        vector<T> h(k);
        cudaMemcpy(h.data(), p, k * sizeof(T), cudaMemcpyDeviceToHost);
        return h;
    }
    operator T *()
    {
        return p;
    }
};

int
main()
{
    srand(20240501);
    auto uni = [] { return rand() * 2.f / RAND_MAX - 1.f; };
    vector<float> X((TRAIN + TEST) * IN), A(OUT * IN), P(ALL, 0.f);
    vector<u32> Y(TRAIN + TEST), order(TRAIN + TEST);
    for (auto &a : A)
        a = uni();
    for (auto &x : X)
        x = uni();
    for (u32 i = 0; i < TRAIN + TEST; ++i) {
        order[i] = i;
        Y[i] = 0;
        for (u32 o = 0; o < OUT; ++o) {
            float s = 0.2f * uni();
            for (u32 k = 0; k < IN; ++k)
                s += A[o * IN + k] * X[i * IN + k] * (k ? 1.f : X[i * IN + 1]);
            if (s > 0)
                Y[i] |= 1u << o;
        }
    }
    for (u32 q = 0; q < ALL; ++q)
        P[q] = q < OFF_B1 ? 0.5f * uni() : q >= OFF_W2 && q < OFF_B2 ? 0.4f * uni() : 0.f;

    Dev<float> all(X.size()), p(ALL), vel(ALL), g(ALL), x(BS * IN), t(BS * OUT), h(BS * HID), dh(BS * HID), d(BS * OUT),
        loss(BS * OUT);
    Dev<u32> bits(Y.size()), ord(order.size()), right(1);
    all.set(X.data(), X.size());
    bits.set(Y.data(), Y.size());
    p.set(P.data(), ALL);

    u32 counter = 0;
    for (u32 e = 0; e < EPOCHS; ++e) {
        for (u32 i = TRAIN - 1; i; --i)
            std::swap(order[i], order[rand() % (i + 1)]);
        ord.set(order.data(), order.size());
        float mean = 0.f;
        for (u32 b = 0; b < TRAIN / BS; ++b, ++counter) {
            gather_rows<<<BS, 16>>>(all, bits, ord.p + b * BS, x, t);
            hidden<true><<<BS, HID>>>(p, x, h, counter);
            output<<<BS, OUT>>>(p, h, t, d, loss, (u32 *)nullptr);
            back_hidden<<<BS, HID>>>(p, h, d, dh);
            back_params<<<(ALL + 63) / 64, 64>>>(x, h, d, dh, g);
            if (truth_step({{g.p, ALL}}))
                nesterov<<<(ALL + 63) / 64, 64>>>(p, vel, g, 0.06f, 0.85f);
            float s = 0.f;
            for (float l : loss.get(BS * OUT))
                s += l / (BS * OUT);
            mean += s;
            if (b % 3 == 0)
                printf("[%u/%u] bce %.5f\n", e, b, s);
        }
        printf("epoch %u mean bce %.5f\n", e, mean / (TRAIN / BS));
    }
    float s = 0.f;
    for (u32 b = TRAIN / BS; b < (TRAIN + TEST) / BS; ++b) {
        gather_rows<<<BS, 16>>>(all, bits, ord.p + b * BS, x, t);
        hidden<false><<<BS, HID>>>(p, x, h, 0);
        output<<<BS, OUT>>>(p, h, t, d, loss, right);
        for (float l : loss.get(BS * OUT))
            s += l / (TEST * OUT);
    }
    printf("test bce %.5f, labels right %u of %u\n", s, right.get(1)[0], TEST * OUT);
    truth_dump({{p.p, ALL}});
}
