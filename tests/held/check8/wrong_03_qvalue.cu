/* Q learning from a fixed memory of transitions, replayed by priority. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime.h>

#include "ddprun.h"

#define OBS 6
#define HID 32
#define ACT 4
#define MEM 400
#define BATCH 48
#define STEPS 60
#define GAMMA 0.5f
#define SYNC_EVERY 15

#define GPU(x)                                                                          \
    if ((x) != cudaSuccess) {                                                           \
        fprintf(stderr, "line %d: %s\n", __LINE__, cudaGetErrorString(cudaGetLastError())); \
        exit(1);                                                                        \
    }

static unsigned long long lcg = 88172645463325252ull;
static float frand(void)
{
    lcg ^= lcg << 13;
    lcg ^= lcg >> 7;
    lcg ^= lcg << 17;
    return (float)((lcg >> 11) * (1.0 / 9007199254740992.0));
}

/* One network: weights of both layers behind one another in one allocation. */
#define W1 0
#define B1 (W1 + OBS * HID)
#define W2 (B1 + HID)
#define B2 (W2 + HID * ACT)
#define NPAR (B2 + ACT)

class QNet {
  public:
    float *theta, *grad, *frozen;
    QNet()
    {
        static float init[NPAR];
        for (int i = 0; i < NPAR; ++i)
            init[i] = (i >= B1 && i < W2) || i >= B2 ? 0.0f : (frand() - 0.5f) * (i < B1 ? 1.2f : 0.5f);
        GPU(cudaMalloc((void **)&theta, sizeof(init)));
        GPU(cudaMalloc((void **)&grad, sizeof(init)));
        GPU(cudaMalloc((void **)&frozen, sizeof(init)));
        GPU(cudaMemcpy(theta, init, sizeof(init), cudaMemcpyHostToDevice));
        GPU(cudaMemset(grad, 0, sizeof(init)));
        DDP_PARAMETER(theta, NPAR, DDP_FLOAT32);
        DDP_GRADIENT(grad, NPAR, DDP_FLOAT32);
        freeze();
    }
    void freeze() { GPU(cudaMemcpy(frozen, theta, NPAR * sizeof(float), cudaMemcpyDeviceToDevice)); }
};

/* The replay memory lives on both sides: transitions on the device, priorities on the host. */
struct Memory {
    float *s, *s2, *r;
    int *a;
    float prio[MEM];

    void fill()
    {
        static float hs[MEM * OBS], hs2[MEM * OBS], hr[MEM];
        static int ha[MEM];
        for (int i = 0; i < MEM; ++i) {
            ha[i] = (int)(frand() * ACT) % ACT;
            float bump = i % 10 == 0 ? 1.6f : 0.4f;
            hr[i] = 0.0f;
            for (int k = 0; k < OBS; ++k) {
                hs[i * OBS + k] = 2.0f * frand() - 1.0f;
                hs2[i * OBS + k] = 0.9f * hs[i * OBS + k] + 0.2f * (k % ACT == ha[i] ? 1.0f : -0.3f);
                hr[i] += bump * hs[i * OBS + k] * (k % ACT == ha[i] ? 1.0f : -0.2f);
            }
            prio[i] = 1.0f;
        }
        GPU(cudaMalloc((void **)&s, sizeof(hs)));
        GPU(cudaMalloc((void **)&s2, sizeof(hs2)));
        GPU(cudaMalloc((void **)&r, sizeof(hr)));
        GPU(cudaMalloc((void **)&a, sizeof(ha)));
        GPU(cudaMemcpy(s, hs, sizeof(hs), cudaMemcpyHostToDevice));
        GPU(cudaMemcpy(s2, hs2, sizeof(hs2), cudaMemcpyHostToDevice));
        GPU(cudaMemcpy(r, hr, sizeof(hr), cudaMemcpyHostToDevice));
        GPU(cudaMemcpy(a, ha, sizeof(ha), cudaMemcpyHostToDevice));
    }
    /* Draws a whole batch by priority, with importance weights scaled to a largest of 1. */
    void sample(int *pick, float *iw)
    {
        float total = 0.0f, top = 0.0f;
        for (int i = 0; i < MEM; ++i)
            total += prio[i];
        for (int b = 0; b < BATCH; ++b) {
            float u = frand() * total, run = 0.0f;
            int i = 0;
            while (i < MEM - 1 && (run += prio[i]) < u)
                ++i;
            pick[b] = i;
            iw[b] = sqrtf(total / (MEM * prio[i]));
            top = fmaxf(top, iw[b]);
        }
        for (int b = 0; b < BATCH; ++b)
            iw[b] /= top;
    }
    void renew(const int *pick, const float *error, int n)
    {
        for (int b = 0; b < n; ++b)
            prio[pick[b]] = sqrtf(fabsf(error[b])) + 0.05f;
    }
};

__device__ float q_value(const float *p, const float *h, int a)
{
    float q = p[B2 + a];
    for (int j = 0; j < HID; ++j)
        q += h[j] * p[W2 + j * ACT + a];
    return q;
}

__device__ void hidden(const float *p, const float *s, float *h)
{
    for (int j = 0; j < HID; ++j) {
        float v = p[B1 + j];
        for (int k = 0; k < OBS; ++k)
            v += s[k] * p[W1 + k * HID + j];
        h[j] = fmaxf(v, 0.0f);
    }
}

/* One thread for each sample: temporal difference and the gradient at its own row of scratch. */
__global__ void td_rows(const float *theta, const float *frozen, Memory m, const int *pick, const float *iw,
                        float *error, float *rows, int n)
{
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= n)
        return;
    int i = pick[b];
    float h[HID], h2[HID], best = -1e30f;
    hidden(frozen, m.s2 + i * OBS, h2);
    for (int a = 0; a < ACT; ++a)
        best = fmaxf(best, q_value(frozen, h2, a));
    hidden(theta, m.s + i * OBS, h);
    int a = m.a[i];
    float d = q_value(theta, h, a) - (m.r[i] + GAMMA * best);
    error[b] = d;
    float *g = rows + (size_t)b * NPAR, e = iw[b] * d / n;
    for (int k = 0; k < NPAR; ++k)
        g[k] = 0.0f;
    g[B2 + a] = e;
    for (int j = 0; j < HID; ++j) {
        g[W2 + j * ACT + a] = e * h[j];
        float dh = h[j] > 0.0f ? e * theta[W2 + j * ACT + a] : 0.0f;
        g[B1 + j] = dh;
        for (int k = 0; k < OBS; ++k)
            g[W1 + k * HID + j] = dh * m.s[i * OBS + k];
    }
}

__global__ void fold_rows(const float *rows, float *grad, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= NPAR)
        return;
    float s = 0.0f;
    for (int b = 0; b < n; ++b)
        s += rows[(size_t)b * NPAR + k];
    grad[k] = s;
}

__global__ void apply(float *theta, const float *grad, float rate)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < NPAR)
        theta[k] -= rate * grad[k];
}

int main(int argc, char **argv)
{
    static Memory memory;
    memory.fill();
    QNet net;
    int *pick_d, pick[BATCH];
    float *iw_d, *error_d, *rows, iw[BATCH], error[BATCH];
    GPU(cudaMalloc((void **)&pick_d, sizeof(pick)));
    GPU(cudaMalloc((void **)&iw_d, sizeof(iw)));
    GPU(cudaMalloc((void **)&error_d, sizeof(error)));
    GPU(cudaMalloc((void **)&rows, sizeof(float) * NPAR * BATCH));

    float recent = 0.0f;
    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        memory.sample(pick, iw);
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        GPU(cudaMemcpy(pick_d, pick + first, n * sizeof(int), cudaMemcpyHostToDevice));
        GPU(cudaMemcpy(iw_d, iw + first, n * sizeof(float), cudaMemcpyHostToDevice));
        td_rows<<<(n + 15) / 16, 16>>>(net.theta, net.frozen, memory, pick_d, iw_d, error_d, rows, n);
        fold_rows<<<(NPAR + 63) / 64, 64>>>(rows, net.grad, n);
        DDP_STEP(0);
        apply<<<(NPAR + 63) / 64, 64>>>(net.theta, net.grad, 0.15f);
        GPU(cudaMemcpy(error, error_d, n * sizeof(float), cudaMemcpyDeviceToHost));
        memory.renew(pick + first, error, n);
        if ((step + 1) % SYNC_EVERY == 0)
            net.freeze();
        for (int b = 0; b < n; ++b)
            recent += iw[first + b] * error[b] * error[b] / (n * 10);
        if (step % 10 == 9) {
            DDP_MEAN_AS("td", &recent);
            if (DDP_RANK() == 0)
                printf("%3d  weighted td error %.5f\n", step + 1, recent);
            recent = 0.0f;
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        static float out[NPAR];
        GPU(cudaMemcpy(out, net.theta, sizeof(out), cudaMemcpyDeviceToHost));
        FILE *f = fopen(argv[1], "wb");
        fwrite(out, sizeof(float), NPAR, f);
        fclose(f);
    }
    return 0;
}
