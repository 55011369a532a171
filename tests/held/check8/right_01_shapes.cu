// Variational autoencoder for small closed curves. Noise comes from a counter-based generator on the device.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ddprun.h"

constexpr int PTS = 24, HID = 32, LAT = 4, BATCH = 48, ROWS = 480, STEPS = 60;

static void expect(cudaError_t e)
{
    if (e != cudaSuccess) {
        std::fprintf(stderr, "CUDA says: %s\n", cudaGetErrorString(e));
        std::exit(1);
    }
}

__host__ __device__ inline unsigned scramble(unsigned x)
{
    x += 0x9E3779B9u;
    x = (x ^ (x >> 16)) * 0x21F0AAADu;
    x = (x ^ (x >> 15)) * 0x735A2D97u;
    return x ^ (x >> 15);
}

__device__ inline float gaussian(unsigned key, unsigned index)
{
    unsigned a = scramble(key * 7919u + 2 * index), b = scramble(a ^ 0x5bd1e995u);
    float u = ((a >> 8) + 1) / 16777217.0f, v = (b >> 8) / 16777216.0f;
    return sqrtf(-2.0f * logf(u)) * cosf(6.2831853f * v);
}

struct Linear {
    float *w, *b, *gw, *gb, *mw, *mb;
    int in, out;
};

__global__ void linear_forward(const float *x, Linear l, float *y, int rows, int squash)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * l.out)
        return;
    int r = i / l.out, o = i % l.out;
    float s = l.b[o];
    for (int k = 0; k < l.in; ++k)
        s += x[r * l.in + k] * l.w[k * l.out + o];
    y[i] = squash ? tanhf(s) : s;
}

__global__ void linear_gradient(const float *x, const float *dy, Linear l, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (l.in + 1) * l.out)
        return;
    int k = i / l.out, o = i % l.out;
    float s = 0.0f;
    for (int r = 0; r < rows; ++r)
        s += (k < l.in ? x[r * l.in + k] : 1.0f) * dy[r * l.out + o];
    if (k < l.in)
        l.gw[i] = s;
    else
        l.gb[o] = s;
}

__global__ void linear_backward(const float *dy, Linear l, const float *x, float *dx, int rows, int through_tanh)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * l.in)
        return;
    int r = i / l.in, k = i % l.in;
    float s = 0.0f;
    for (int o = 0; o < l.out; ++o)
        s += dy[r * l.out + o] * l.w[k * l.out + o];
    dx[i] = through_tanh ? s * (1.0f - x[i] * x[i]) : s;
}

// stat holds mean and log variance of each latent; z = mean + exp(logvar / 2) * eps
__global__ void draw(const float *stat, float *z, float *eps, unsigned step, int first, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * LAT)
        return;
    int r = i / LAT, k = i % LAT;
    eps[i] = gaussian(step, (first + r) * LAT + k);
    z[i] = stat[r * 2 * LAT + k] + expf(0.5f * stat[r * 2 * LAT + LAT + k]) * eps[i];
}

__global__ void draw_backward(const float *stat, const float *dz, const float *eps, float *dstat, float beta, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * LAT)
        return;
    int m = i / LAT * 2 * LAT + i % LAT, v = m + LAT;
    dstat[m] = dz[i] + beta * stat[m] / rows;
    dstat[v] = dz[i] * 0.5f * expf(0.5f * stat[v]) * eps[i] + beta * 0.5f * (expf(stat[v]) - 1.0f) / rows;
}

__global__ void reconstruct(const float *y, const float *x, float *dy, float *loss, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    float s = 0.0f;
    for (int k = 0; k < PTS; ++k) {
        float d = y[r * PTS + k] - x[r * PTS + k];
        s += 0.5f * d * d;
        dy[r * PTS + k] = d / rows;
    }
    loss[r] = s;
}

__global__ void momentum(float *w, float *m, const float *g, int n, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    m[i] = 0.85f * m[i] + g[i];
    w[i] -= rate * m[i];
}

static float *floats(size_t n)
{
    float *p;
    expect(cudaMalloc(&p, n * sizeof(float)));
    expect(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

static Linear make_linear(int in, int out, unsigned seed)
{
    Linear l = {floats(in * out), floats(out), floats(in * out), floats(out), floats(in * out), floats(out), in, out};
    std::vector<float> init(in * out);
    for (int i = 0; i < in * out; ++i)
        init[i] = (scramble(seed + i) / 4294967296.0f - 0.5f) * 2.0f / std::sqrt((float)in);
    expect(cudaMemcpy(l.w, init.data(), init.size() * sizeof(float), cudaMemcpyHostToDevice));
    DDP_PARAMETER(l.w, in * out, DDP_FLOAT32);
    DDP_PARAMETER(l.b, out, DDP_FLOAT32);
    DDP_GRADIENT(l.gw, in * out, DDP_FLOAT32);
    DDP_GRADIENT(l.gb, out, DDP_FLOAT32);
    return l;
}

static int g64(int n) { return (n + 63) / 64; }

int main(int argc, char **argv)
{
    const unsigned seed = 1000u * (1 + DDP_RANK());
    std::vector<float> data(ROWS * PTS);
    for (int r = 0; r < ROWS; ++r) {
        float a[4];
        for (int k = 0; k < 4; ++k)
            a[k] = scramble(r * 4 + k) / 4294967296.0f - 0.5f;
        for (int k = 0; k < PTS; ++k) {
            float t = 6.2831853f * k / PTS;
            data[r * PTS + k] = 2.0f * a[0] * std::cos(t) + 2.0f * a[1] * std::sin(t) + a[2] * std::cos(2 * t) + a[3];
        }
    }
    float *x = floats(data.size());
    expect(cudaMemcpy(x, data.data(), data.size() * sizeof(float), cudaMemcpyHostToDevice));
    Linear enc = make_linear(PTS, HID, seed), stats = make_linear(HID, 2 * LAT, seed + 10000);
    Linear dec = make_linear(LAT, HID, seed + 20000), out = make_linear(HID, PTS, seed + 30000);
    float *h = floats(BATCH * HID), *stat = floats(BATCH * 2 * LAT), *z = floats(BATCH * LAT), *eps = floats(BATCH * LAT);
    float *h2 = floats(BATCH * HID), *y = floats(BATCH * PTS), *dy = floats(BATCH * PTS), *dh2 = floats(BATCH * HID);
    float *dz = floats(BATCH * LAT), *dstat = floats(BATCH * 2 * LAT), *dh = floats(BATCH * HID), *loss = floats(BATCH);

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        const float *xb = x + (step * BATCH % ROWS + first) * PTS;
        float beta = 0.05f * fminf(1.0f, step / 30.0f);

        linear_forward<<<g64(n * HID), 64>>>(xb, enc, h, n, 1);
        linear_forward<<<g64(n * 2 * LAT), 64>>>(h, stats, stat, n, 0);
        draw<<<g64(n * LAT), 64>>>(stat, z, eps, step, (int)first, n);
        linear_forward<<<g64(n * HID), 64>>>(z, dec, h2, n, 1);
        linear_forward<<<g64(n * PTS), 64>>>(h2, out, y, n, 0);
        reconstruct<<<g64(n), 64>>>(y, xb, dy, loss, n);
        linear_gradient<<<g64((HID + 1) * PTS), 64>>>(h2, dy, out, n);
        linear_backward<<<g64(n * HID), 64>>>(dy, out, h2, dh2, n, 1);
        linear_gradient<<<g64((LAT + 1) * HID), 64>>>(z, dh2, dec, n);
        linear_backward<<<g64(n * LAT), 64>>>(dh2, dec, z, dz, n, 0);
        draw_backward<<<g64(n * LAT), 64>>>(stat, dz, eps, dstat, beta, n);
        linear_gradient<<<g64((HID + 1) * 2 * LAT), 64>>>(h, dstat, stats, n);
        linear_backward<<<g64(n * HID), 64>>>(dstat, stats, h, dh, n, 1);
        linear_gradient<<<g64((PTS + 1) * HID), 64>>>(xb, dh, enc, n);
        DDP_STEP(0);
        for (const Linear &l : {enc, stats, dec, out}) {
            momentum<<<g64(l.in * l.out), 64>>>(l.w, l.mw, l.gw, l.in * l.out, 0.03f);
            momentum<<<g64(l.out), 64>>>(l.b, l.mb, l.gb, l.out, 0.03f);
        }
        if (step % 15 == 0 || step == STEPS - 1) {
            std::vector<float> host(n);
            expect(cudaMemcpy(host.data(), loss, n * sizeof(float), cudaMemcpyDeviceToHost));
            float mean = 0.0f;
            for (float v : host)
                mean += v / n;
            DDP_MEAN_AS("loss", &mean);
            if (DDP_RANK() == 0)
                std::printf("%2d %.4f\n", step, mean);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        for (const Linear &l : {enc, stats, dec, out}) {
            std::vector<float> v(l.in * l.out);
            expect(cudaMemcpy(v.data(), l.w, v.size() * sizeof(float), cudaMemcpyDeviceToHost));
            std::fwrite(v.data(), sizeof(float), v.size(), f);
            expect(cudaMemcpy(v.data(), l.b, l.out * sizeof(float), cudaMemcpyDeviceToHost));
            std::fwrite(v.data(), sizeof(float), l.out, f);
        }
        std::fclose(f);
    }
    return 0;
}
