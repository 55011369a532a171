// Marks the pulses in a noisy signal: two convolutions over time, one probability for each sample of the signal,
// trained with the soft overlap (Dice) loss, because pulses are rare. Momentum SGD.
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ddprun.h"

enum { LENGTH = 48, CHANNELS = 8, TAPS = 5, SIGNALS = 256, BATCH = 16, REACH = TAPS / 2 };

// All weights in one block: first convolution, its bias, second convolution, its bias.
enum { W1 = 0, B1 = W1 + CHANNELS * TAPS, W2 = B1 + CHANNELS, B2 = W2 + CHANNELS * TAPS, TOTAL = B2 + 1 };

static void ok(cudaError_t e, int line)
{
    if (e != cudaSuccess) {
        fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e));
        exit(1);
    }
}
#define OK(e) ok((e), __LINE__)

static unsigned long long seed = 0x1234567;
static float rnd()
{
    seed = seed * 2862933555777941757ull + 3037000493ull;
    return (float)((seed >> 40) / 16777216.0);
}

struct Activations {
    float *hidden;   // [n][CHANNELS][LENGTH]
    float *prob;     // [n][LENGTH]
    float *dlogit;   // [n][LENGTH]
    float *dhidden;  // [n][CHANNELS][LENGTH]
    float *partial;  // [n][2]
    float *sums;     // overlap; prob + truth
};

__global__ void conv1(const float *x, const float *w, Activations a, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * CHANNELS * LENGTH)
        return;
    int p = t % LENGTH, c = t / LENGTH % CHANNELS, i = t / (LENGTH * CHANNELS);
    float s = w[B1 + c];
    for (int k = 0; k < TAPS; ++k) {
        int q = p + k - REACH;
        if (q >= 0 && q < LENGTH)
            s += x[i * LENGTH + q] * w[W1 + c * TAPS + k];
    }
    a.hidden[t] = tanhf(s);
}

__global__ void conv2(const float *w, Activations a, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * LENGTH)
        return;
    int p = t % LENGTH, i = t / LENGTH;
    float s = w[B2];
    for (int c = 0; c < CHANNELS; ++c)
        for (int k = 0; k < TAPS; ++k) {
            int q = p + k - REACH;
            if (q >= 0 && q < LENGTH)
                s += a.hidden[(i * CHANNELS + c) * LENGTH + q] * w[W2 + c * TAPS + k];
        }
    a.prob[t] = 1 / (1 + expf(-s));
}

__global__ void overlapPartial(const float *truth, Activations a, int n)
{
    int i = threadIdx.x;
    if (i >= n)
        return;
    float both = 0, any = 0;
    for (int p = 0; p < LENGTH; ++p) {
        both += a.prob[i * LENGTH + p] * truth[i * LENGTH + p];
        any += a.prob[i * LENGTH + p] + truth[i * LENGTH + p];
    }
    a.partial[2 * i] = both;
    a.partial[2 * i + 1] = any;
}

__global__ void overlapTotal(Activations a, int n)
{
    float s = 0;
    for (int i = 0; i < n; ++i)
        s += a.partial[2 * i + threadIdx.x];
    a.sums[threadIdx.x] = s;
}

// loss = 1 - 2 both / any
__global__ void overlapGradient(const float *truth, const float *sums, Activations a, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * LENGTH)
        return;
    float both = sums[0], any = sums[1], p = a.prob[t];
    a.dlogit[t] = (2 * both / (any * any) - 2 * truth[t] / any) * p * (1 - p);
}

__global__ void conv2Backward(const float *w, Activations a, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * CHANNELS * LENGTH)
        return;
    int q = t % LENGTH, c = t / LENGTH % CHANNELS, i = t / (LENGTH * CHANNELS);
    float s = 0, h = a.hidden[t];
    for (int k = 0; k < TAPS; ++k) {
        int p = q - k + REACH;
        if (p >= 0 && p < LENGTH)
            s += a.dlogit[i * LENGTH + p] * w[W2 + c * TAPS + k];
    }
    a.dhidden[t] = s * (1 - h * h);
}

__global__ void weightGradients(const float *x, Activations a, float *g, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= TOTAL)
        return;
    float s = 0;
    for (int i = 0; i < n; ++i)
        for (int p = 0; p < LENGTH; ++p) {
            if (t == B2) {
                s += a.dlogit[i * LENGTH + p];
            } else if (t >= W2) {
                int q = p + (t - W2) % TAPS - REACH;
                if (q >= 0 && q < LENGTH)
                    s += a.dlogit[i * LENGTH + p] * a.hidden[(i * CHANNELS + (t - W2) / TAPS) * LENGTH + q];
            } else if (t >= B1) {
                s += a.dhidden[(i * CHANNELS + t - B1) * LENGTH + p];
            } else {
                int q = p + t % TAPS - REACH;
                if (q >= 0 && q < LENGTH)
                    s += a.dhidden[(i * CHANNELS + t / TAPS) * LENGTH + p] * x[i * LENGTH + q];
            }
        }
    g[t] = s;
}

__global__ void momentumStep(float *w, float *m, const float *g, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < TOTAL) {
        m[i] = 0.8f * m[i] + g[i];
        w[i] -= rate * m[i];
    }
}

static float *deviceFloats(size_t n)
{
    void *p;
    OK(cudaMalloc(&p, n * sizeof(float)));
    OK(cudaMemset(p, 0, n * sizeof(float)));
    return (float *)p;
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    float *hx = (float *)calloc(SIGNALS * LENGTH, sizeof(float)), *ht = (float *)calloc(SIGNALS * LENGTH, sizeof(float));
    for (int i = 0; i < SIGNALS; ++i) {
        int pulses = (int)(rnd() * 4);
        for (int k = 0; k < pulses; ++k) {
            int at = (int)(rnd() * (LENGTH - 6)), width = 3 + (int)(rnd() * 3);
            for (int p = at; p < at + width; ++p)
                ht[i * LENGTH + p] = 1;
        }
        for (int p = 0; p < LENGTH; ++p)
            hx[i * LENGTH + p] = ht[i * LENGTH + p] + 1.2f * (rnd() - 0.5f);
    }
    float *x = deviceFloats(SIGNALS * LENGTH), *truth = deviceFloats(SIGNALS * LENGTH);
    OK(cudaMemcpy(x, hx, SIGNALS * LENGTH * sizeof(float), cudaMemcpyHostToDevice));
    OK(cudaMemcpy(truth, ht, SIGNALS * LENGTH * sizeof(float), cudaMemcpyHostToDevice));

    float init[TOTAL];
    for (int i = 0; i < TOTAL; ++i)
        init[i] = 0.6f * (rnd() - 0.5f);
    float *w = deviceFloats(TOTAL), *g = deviceFloats(TOTAL), *m = deviceFloats(TOTAL);
    OK(cudaMemcpy(w, init, sizeof init, cudaMemcpyHostToDevice));
    DDP_PARAMETER(w, TOTAL, DDP_FLOAT32);
    DDP_STATE(m, TOTAL, DDP_FLOAT32);
    DDP_GRADIENT(g, TOTAL, DDP_FLOAT32);

    Activations a;
    a.hidden = deviceFloats(BATCH * CHANNELS * LENGTH);
    a.dhidden = deviceFloats(BATCH * CHANNELS * LENGTH);
    a.prob = deviceFloats(BATCH * LENGTH);
    a.dlogit = deviceFloats(BATCH * LENGTH);
    a.partial = deviceFloats(BATCH * 2);
    a.sums = deviceFloats(2);

    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count, wide = (n * CHANNELS * LENGTH + 127) / 128, flat = (n * LENGTH + 127) / 128;
        size_t at = ((size_t)step * BATCH % SIGNALS + first) * LENGTH;

        conv1<<<wide, 128>>>(x + at, w, a, n);
        conv2<<<flat, 128>>>(w, a, n);
        overlapPartial<<<1, BATCH>>>(truth + at, a, n);
        overlapTotal<<<1, 2>>>(a, n);
        overlapGradient<<<flat, 128>>>(truth + at, a.sums, a, n);
        conv2Backward<<<wide, 128>>>(w, a, n);
        weightGradients<<<(TOTAL + 31) / 32, 32>>>(x + at, a, g, n);

        DDP_STEP(0);
        momentumStep<<<(TOTAL + 31) / 32, 32>>>(w, m, g, 0.5f);

        if (step % 10 == 0 || step == steps - 1) {
            float s[2];
            OK(cudaMemcpy(s, a.sums, sizeof s, cudaMemcpyDeviceToHost));
            float loss = 1 - 2 * s[0] / s[1];
            DDP_MEAN_AS("loss", &loss);
            if (DDP_RANK() == 0)
                printf("step %2d, loss %.4f\n", step, loss);
        }
    }
    OK(cudaDeviceSynchronize());
    if (argc > 1 && DDP_RANK() == 0) {
        OK(cudaMemcpy(init, w, sizeof init, cudaMemcpyDeviceToHost));
        FILE *f = fopen(argv[1], "wb");
        fwrite(init, sizeof(float), TOTAL, f);
        fclose(f);
    }
    return 0;
}
