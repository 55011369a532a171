// LSTM cell (16 units) over sine waves, backpropagation through 8 steps, Adam; all buffers in one arena.
// Truth: gradients (truth_step over the one gradient vector). Adam's bias correction takes the batch index of the host
// loop. Batches: 48 (batches of 8 windows).
#include "truth.h"
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int H = 16, T = 8, B = 8, G = 4 * H;
// parameter layout
constexpr int oWx = 0, oWh = oWx + G, oB = oWh + G * H, oWy = oB + G, oBy = oWy + H, P = oBy + 1;

struct Arena {
    char *base;
    size_t used, cap;
    explicit Arena(size_t n) : used(0), cap(n)
    {
        cudaMalloc((void **)&base, n);
        cudaMemset(base, 0, n);
    }
    float *take(size_t floats)
    {
        float *p = (float *)(base + used);
        used += (floats * 4 + 255) / 256 * 256;
        if (used > cap) {
            puts("arena too small");
            exit(1);
        }
        return p;
    }
};

__device__ __forceinline__ float
sigm(float x)
{
    return 1.f / (1.f + expf(-x));
}

// gates [T][B][4H], h and c [T+1][B][H]
__global__ void
cellForward(const float *p, const float *x, float *gates, float *h, float *c, int t)
{
    int b = blockIdx.x, j = threadIdx.x;
    const float *hp = h + (t * B + b) * H;
    float xin = x[b * (T + 1) + t], z[4];
    for (int q = 0; q < 4; ++q) {
        int r = q * H + j;
        float s = p[oB + r] + p[oWx + r] * xin;
        for (int k = 0; k < H; ++k)
            s += p[oWh + r * H + k] * hp[k];
        z[q] = q == 2 ? tanhf(s) : sigm(s); // i f g o
        gates[(t * B + b) * G + r] = z[q];
    }
    float cn = z[1] * c[(t * B + b) * H + j] + z[0] * z[2];
    c[((t + 1) * B + b) * H + j] = cn;
    h[((t + 1) * B + b) * H + j] = z[3] * tanhf(cn);
}
__global__ void
readout(const float *p, const float *x, const float *h, float *dy, float *loss)
{
    __shared__ float part[T * B];
    int t = threadIdx.x / B, b = threadIdx.x % B;
    float y = p[oBy];
    for (int k = 0; k < H; ++k)
        y += p[oWy + k] * h[((t + 1) * B + b) * H + k];
    float e = y - x[b * (T + 1) + t + 1];
    dy[t * B + b] = 2.f * e / (T * B);
    part[threadIdx.x] = e * e / (T * B);
    __syncthreads();
    for (int s = T * B / 2; s > 0; s >>= 1) {
        if (threadIdx.x < s)
            part[threadIdx.x] += part[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *loss = part[0];
}
__global__ void
cellBackward(const float *p, const float *gates, const float *c, const float *dy, float *dgates, float *dh, float *dc,
             int t)
{
    int b = blockIdx.x, j = threadIdx.x;
    const float *g = gates + (t * B + b) * G;
    float *dg = dgates + (t * B + b) * G;
    float i = g[j], f = g[H + j], a = g[2 * H + j], o = g[3 * H + j];
    float tc = tanhf(c[((t + 1) * B + b) * H + j]);
    float d = dh[b * H + j] + dy[t * B + b] * p[oWy + j];
    float dcell = dc[b * H + j] + d * o * (1 - tc * tc);
    dg[j] = dcell * a * i * (1 - i);
    dg[H + j] = dcell * c[(t * B + b) * H + j] * f * (1 - f);
    dg[2 * H + j] = dcell * i * (1 - a * a);
    dg[3 * H + j] = d * tc * o * (1 - o);
    dc[b * H + j] = dcell * f;
    __syncthreads();
    float s = 0;
    for (int r = 0; r < G; ++r)
        s += dg[r] * p[oWh + r * H + j];
    dh[b * H + j] = s;
}
__global__ void
weightGrads(const float *x, const float *h, const float *dgates, const float *dy, float *grad)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= P)
        return;
    float s = 0;
    for (int t = 0; t < T; ++t)
        for (int b = 0; b < B; ++b) {
            const float *dg = dgates + (t * B + b) * G;
            if (id < oWh)
                s += dg[id] * x[b * (T + 1) + t];
            else if (id < oB)
                s += dg[(id - oWh) / H] * h[(t * B + b) * H + (id - oWh) % H];
            else if (id < oWy)
                s += dg[id - oB];
            else if (id < oBy)
                s += dy[t * B + b] * h[((t + 1) * B + b) * H + id - oWy];
            else
                s += dy[t * B + b];
        }
    grad[id] = s;
}
__global__ void
adam(float *p, const float *g, float *m, float *v, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= P)
        return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
    p[i] -= rate * m[i] / (sqrtf(v[i]) + 1e-8f);
}

static unsigned long long lcg = 99;
static float
uni()
{
    lcg = lcg * 6364136223846793005ULL + 1442695040888963407ULL;
    return (float)((lcg >> 40) / 16777216.0);
}
static void
windows(std::vector<float> &x)
{
    for (int b = 0; b < B; ++b) {
        float ph = 6.2831853f * uni(), w = 0.5f + 0.3f * uni();
        for (int t = 0; t <= T; ++t)
            x[b * (T + 1) + t] = sinf(ph + w * t);
    }
}

int
main()
{
    Arena ar(1 << 20);
    float *p = ar.take(P), *grad = ar.take(P), *m = ar.take(P), *v = ar.take(P);
    float *x = ar.take(B * (T + 1)), *gates = ar.take(T * B * G), *dgates = ar.take(T * B * G);
    float *h = ar.take((T + 1) * B * H), *c = ar.take((T + 1) * B * H), *dy = ar.take(T * B);
    float *dhc = ar.take(2 * B * H), *loss = ar.take(1);
    std::vector<float> w(P, 0.f), hx(B * (T + 1));
    for (int i = 0; i < P; ++i)
        w[i] = 0.5f * (uni() - 0.5f);
    for (int i = 0; i < H; ++i)
        w[oB + H + i] = 1.f;
    cudaMemcpy(p, w.data(), P * 4, cudaMemcpyHostToDevice);
    auto forward = [&]() {
        windows(hx);
        cudaMemcpy(x, hx.data(), hx.size() * 4, cudaMemcpyHostToDevice);
        for (int t = 0; t < T; ++t)
            cellForward<<<B, H>>>(p, x, gates, h, c, t);
        readout<<<1, T * B>>>(p, x, h, dy, loss);
    };
    float L;
    for (int step = 0; step < 48; ++step) {
        forward();
        cudaMemset(dhc, 0, 2 * B * H * 4);
        for (int t = T - 1; t >= 0; --t)
            cellBackward<<<B, H>>>(p, gates, c, dy, dgates, dhc, dhc + B * H, t);
        weightGrads<<<(P + 127) / 128, 128>>>(x, h, dgates, dy, grad);
        float rate = 0.02f * sqrtf(1 - powf(0.99f, step + 1)) / (1 - powf(0.9f, step + 1));
        if (truth_step({{grad, P}}))
            adam<<<(P + 127) / 128, 128>>>(p, grad, m, v, rate);
        cudaMemcpy(&L, loss, 4, cudaMemcpyDeviceToHost);
        printf("%d\t%f\n", step, L);
    }
    float test = 0;
    for (int k = 0; k < 4; ++k) {
        forward();
        cudaMemcpy(&L, loss, 4, cudaMemcpyDeviceToHost);
        test += L / 4;
    }
    printf("test mse %f\n", test);
    truth_dump({{p, P}});
    cudaFree(ar.base);
}
