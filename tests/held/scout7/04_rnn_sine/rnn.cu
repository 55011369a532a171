/* Elman RNN that learns to continue a sine wave. Hidden state unrolled over T steps, BPTT, Adagrad. */
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <cuda_runtime.h>

enum { T = 12, H = 32, B = 40, STEPS = 120 };

struct RNN {
    float *Wxh, *Whh, *bh, *Why, *by;
};

__global__ void rnn_forward_step(RNN p, const float *x, const float *hprev, float *h)
{
    int i = blockIdx.x, j = threadIdx.x; // sample, hidden unit
    float a = p.bh[j] + x[i] * p.Wxh[j];
    for (int k = 0; k < H; k++) a += hprev[i * H + k] * p.Whh[k * H + j];
    h[i * H + j] = tanhf(a);
}

__global__ void rnn_output(RNN p, const float *h, const float *target, float *dy, float *loss)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= B) return;
    float y = p.by[0];
    for (int k = 0; k < H; k++) y += h[i * H + k] * p.Why[k];
    float e = y - target[i];
    dy[i] = 2.f * e / B;
    loss[i] = e * e;
}

__global__ void rnn_output_backward(RNN p, RNN g, const float *h, const float *dy, float *dh)
{
    int k = threadIdx.x;
    float s = 0, sb = 0;
    for (int i = 0; i < B; i++) {
        s += dy[i] * h[i * H + k];
        sb += dy[i];
        dh[i * H + k] = dy[i] * p.Why[k];
    }
    g.Why[k] = s;
    if (k == 0) g.by[0] = sb;
}

__global__ void rnn_preact_backward(const float *h, const float *dh, float *da)
{
    int i = blockIdx.x * H + threadIdx.x;
    da[i] = dh[i] * (1.f - h[i] * h[i]);
}

__global__ void rnn_weight_backward(RNN g, const float *x, const float *hprev, const float *da)
{
    int k = blockIdx.x, j = threadIdx.x;
    float s = 0, sx = 0, sb = 0;
    for (int i = 0; i < B; i++) {
        s += hprev[i * H + k] * da[i * H + j];
        sx += x[i] * da[i * H + j];
        sb += da[i * H + j];
    }
    g.Whh[k * H + j] += s;
    if (k == 0) {
        g.Wxh[j] += sx;
        g.bh[j] += sb;
    }
}

__global__ void rnn_hidden_backward(RNN p, const float *da, float *dh)
{
    int i = blockIdx.x, k = threadIdx.x;
    float s = 0;
    for (int j = 0; j < H; j++) s += da[i * H + j] * p.Whh[k * H + j];
    dh[i * H + k] = s;
}

__global__ void adagrad(float *w, float *mem, const float *g, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float gi = fminf(fmaxf(g[i], -5.f), 5.f);
    mem[i] += gi * gi;
    w[i] -= lr * gi / sqrtf(mem[i] + 1e-8f);
}

static const int sizes[5] = { H, H * H, H, H, 1 };

static RNN alloc_rnn()
{
    RNN r;
    float **f[5] = { &r.Wxh, &r.Whh, &r.bh, &r.Why, &r.by };
    for (int i = 0; i < 5; i++) {
        cudaMalloc(f[i], sizes[i] * sizeof(float));
        cudaMemset(*f[i], 0, sizes[i] * sizeof(float));
    }
    return r;
}

static void randomize(float *d, int n, float scale)
{
    float *h = (float *)malloc(n * sizeof(float));
    for (int i = 0; i < n; i++) h[i] = scale * ((float)rand() / RAND_MAX * 2 - 1);
    cudaMemcpy(d, h, n * sizeof(float), cudaMemcpyHostToDevice);
    free(h);
}

int main()
{
    srand(5);
    RNN p = alloc_rnn(), g = alloc_rnn(), mem = alloc_rnn();
    randomize(p.Wxh, H, 0.5f);
    randomize(p.Whh, H * H, 0.15f);
    randomize(p.Why, H, 0.2f);

    float *x, *target, *h, *dh, *da, *dy, *loss;
    cudaMalloc(&x, T * B * sizeof(float));
    cudaMalloc(&target, B * sizeof(float));
    cudaMalloc(&h, (T + 1) * B * H * sizeof(float));
    cudaMalloc(&dh, B * H * sizeof(float));
    cudaMalloc(&da, B * H * sizeof(float));
    cudaMalloc(&dy, B * sizeof(float));
    cudaMalloc(&loss, B * sizeof(float));
    cudaMemset(h, 0, B * H * sizeof(float));

    float hx[T][B], ht[B], hl[B];
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < B; i++) {
            float phase = 6.2831853f * rand() / RAND_MAX, w = 0.3f + 0.4f * rand() / RAND_MAX;
            for (int t = 0; t < T; t++) hx[t][i] = sinf(phase + w * t);
            ht[i] = sinf(phase + w * T);
        }
        cudaMemcpy(x, hx, sizeof(hx), cudaMemcpyHostToDevice);
        cudaMemcpy(target, ht, sizeof(ht), cudaMemcpyHostToDevice);

        for (int t = 0; t < T; t++)
            rnn_forward_step<<<B, H>>>(p, x + t * B, h + t * B * H, h + (t + 1) * B * H);
        rnn_output<<<1, 64>>>(p, h + T * B * H, target, dy, loss);

        cudaMemset(g.Wxh, 0, H * sizeof(float));
        cudaMemset(g.Whh, 0, H * H * sizeof(float));
        cudaMemset(g.bh, 0, H * sizeof(float));
        rnn_output_backward<<<1, H>>>(p, g, h + T * B * H, dy, dh);
        for (int t = T - 1; t >= 0; t--) {
            rnn_preact_backward<<<B, H>>>(h + (t + 1) * B * H, dh, da);
            rnn_weight_backward<<<H, H>>>(g, x + t * B, h + t * B * H, da);
            rnn_hidden_backward<<<B, H>>>(p, da, dh);
        }

        float *ws[5] = { p.Wxh, p.Whh, p.bh, p.Why, p.by };
        float *gs[5] = { g.Wxh, g.Whh, g.bh, g.Why, g.by };
        float *ms[5] = { mem.Wxh, mem.Whh, mem.bh, mem.Why, mem.by };
        for (int i = 0; i < 5; i++)
            adagrad<<<(sizes[i] + 127) / 128, 128>>>(ws[i], ms[i], gs[i], 0.03f, sizes[i]);

        if (step % 10 == 0 || step == STEPS - 1) {
            cudaMemcpy(hl, loss, sizeof(hl), cudaMemcpyDeviceToHost);
            float s = 0;
            for (int i = 0; i < B; i++) s += hl[i];
            printf("step %3d mse %.5f\n", step, s / B);
        }
    }
    return 0;
}
