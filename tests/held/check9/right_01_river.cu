// River gauge forecaster: an Elman network over many stations at once, trained by truncated backpropagation.
// The hidden state of each station goes on from one window to the next.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include "ddprun.h"

#define STATIONS 16
#define INPUTS 3
#define HID 20
#define WINDOW 8
#define DAYS 520
#define W_IN 0
#define W_REC (INPUTS * HID)
#define BIAS (W_REC + HID * HID)
#define W_OUT (BIAS + HID)
#define B_OUT (W_OUT + HID)
#define TOTAL (B_OUT + 1)

// h: (WINDOW + 1) x STATIONS x HID; slot 0 holds the state at the window's begin
__global__ void carry(float *h, int first, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count * HID) return;
    h[first * HID + i] = h[(WINDOW * STATIONS + first) * HID + i];
}

__global__ void forward_time(const float *p, const float *x, const float *y, float *h, float *err, int day, int t, int first, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count * HID) return;
    int s = first + i / HID, j = i % HID;
    const float *in = x + ((size_t)s * DAYS + day + t) * INPUTS, *prev = h + (t * STATIONS + s) * HID;
    float a = p[BIAS + j];
    for (int k = 0; k < INPUTS; ++k) a += in[k] * p[W_IN + k * HID + j];
    for (int k = 0; k < HID; ++k) a += prev[k] * p[W_REC + k * HID + j];
    h[((t + 1) * STATIONS + s) * HID + j] = tanhf(a);
}

__global__ void outputs(const float *p, const float *y, const float *h, float *err, int day, int first, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count * WINDOW) return;
    int s = first + i / WINDOW, t = i % WINDOW;
    float a = p[B_OUT];
    for (int j = 0; j < HID; ++j) a += h[((t + 1) * STATIONS + s) * HID + j] * p[W_OUT + j];
    err[t * STATIONS + s] = a - y[(size_t)s * DAYS + day + t];
}

__global__ void backward_time(const float *p, const float *h, const float *err, float *da, int t, int first, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count * HID) return;
    int s = first + i / HID, j = i % HID;
    float q = h[((t + 1) * STATIONS + s) * HID + j];
    float d = err[t * STATIONS + s] * p[W_OUT + j] / (count * WINDOW);
    if (t + 1 < WINDOW)
        for (int k = 0; k < HID; ++k) d += da[((t + 1) * STATIONS + s) * HID + k] * p[W_REC + j * HID + k];
    da[(t * STATIONS + s) * HID + j] = d * (1 - q * q);
}

__global__ void gradient(const float *x, const float *h, const float *err, const float *da, float *g, int day, int first, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= TOTAL) return;
    float a = 0;
    for (int t = 0; t < WINDOW; ++t)
        for (int s = first; s < first + count; ++s) {
            int at = t * STATIONS + s;
            if (i < W_REC) a += x[((size_t)s * DAYS + day + t) * INPUTS + i / HID] * da[at * HID + i % HID];
            else if (i < BIAS) a += h[at * HID + (i - W_REC) / HID] * da[at * HID + (i - W_REC) % HID];
            else if (i < W_OUT) a += da[at * HID + i - BIAS];
            else a += err[at] / (count * WINDOW) * (i < B_OUT ? h[((t + 1) * STATIONS + s) * HID + i - W_OUT] : 1.0f);
        }
    g[i] = a;
}

__global__ void sgd(float *p, const float *g, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < TOTAL) p[i] -= rate * g[i];
}

static unsigned seed = 271828u;
static float rnd() { seed = seed * 1664525u + 1013904223u; return (seed >> 8) / 8388608.0f - 1.0f; }

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    std::vector<float> x(STATIONS * DAYS * INPUTS), y(STATIONS * DAYS), init(TOTAL), e(WINDOW * STATIONS);
    for (int s = 0; s < STATIONS; ++s) {
        float level = 0, soil = 0;
        for (int d = 0; d < DAYS; ++d) {
            float rain = rnd() > 0.4f ? rnd() + 1 : 0.0f;
            soil = 0.8f * soil + 0.2f * rain;
            level = 0.6f * level + 0.5f * soil + 0.1f * rnd();
            float *in = &x[(s * DAYS + d) * INPUTS];
            in[0] = rain - 0.5f; in[1] = level - 0.8f; in[2] = 0.3f * sinf(d * 0.017f * 6);
            if (d) y[s * DAYS + d - 1] = 2 * (level - 0.6f);
        }
    }
    for (float &v : init) v = 0.3f * rnd();
    float *p, *g, *h, *da, *err, *dx, *dy;
    cudaMalloc(&p, TOTAL * 4); cudaMalloc(&g, TOTAL * 4);
    cudaMalloc(&h, (WINDOW + 1) * STATIONS * HID * 4); cudaMalloc(&da, WINDOW * STATIONS * HID * 4);
    cudaMalloc(&err, WINDOW * STATIONS * 4); cudaMalloc(&dx, x.size() * 4); cudaMalloc(&dy, y.size() * 4);
    cudaMemcpy(p, init.data(), TOTAL * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), y.size() * 4, cudaMemcpyHostToDevice);
    cudaMemset(h, 0, (WINDOW + 1) * STATIONS * HID * 4);
    DDP_PARAMETER(p, TOTAL, DDP_FLOAT32);
    DDP_GRADIENT(g, TOTAL, DDP_FLOAT32);

    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(STATIONS, &first, &count);
        int f = (int)first, n = (int)count, day = step * WINDOW % (DAYS - WINDOW - 1);
        carry<<<(n * HID + 63) / 64, 64>>>(h, f, n);
        for (int t = 0; t < WINDOW; ++t) forward_time<<<(n * HID + 63) / 64, 64>>>(p, dx, dy, h, err, day, t, f, n);
        outputs<<<(n * WINDOW + 63) / 64, 64>>>(p, dy, h, err, day, f, n);
        for (int t = WINDOW - 1; t >= 0; --t) backward_time<<<(n * HID + 63) / 64, 64>>>(p, h, err, da, t, f, n);
        gradient<<<(TOTAL + 63) / 64, 64>>>(dx, h, err, da, g, day, f, n);
        DDP_STEP(0);
        sgd<<<(TOTAL + 63) / 64, 64>>>(p, g, 0.1f);
        if (step % 10 == 0 || step == steps - 1) {
            cudaMemcpy(e.data(), err, e.size() * 4, cudaMemcpyDeviceToHost);
            float mse = 0;
            for (int t = 0; t < WINDOW; ++t)
                for (int s = f; s < f + n; ++s) mse += e[t * STATIONS + s] * e[t * STATIONS + s] / (n * WINDOW);
            DDP_MEAN_AS("mse", &mse);
            printf("window %d mse %.4f\n", step, mse);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "w");
        cudaMemcpy(init.data(), p, TOTAL * 4, cudaMemcpyDeviceToHost);
        for (float v : init) fprintf(f, "%.9g\n", v);
        fclose(f);
    }
    return 0;
}
