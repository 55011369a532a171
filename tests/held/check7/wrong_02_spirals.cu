/* Sharpness-aware minimisation of a small tanh network on two spirals. All parameters live in one flat block. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define H 24
#define NPAR (H * 2 + H + H * H + H + H + 1)
#define POINTS 256
#define B 32

static void must(cudaError_t e, int line)
{
    if (e != cudaSuccess) { fprintf(stderr, "line %d: %s\n", line, cudaGetErrorString(e)); exit(1); }
}
#define MUST(c) must((c), __LINE__)

struct view { float *w1, *b1, *w2, *b2, *w3, *b3; };

__host__ __device__ static inline view split(float *p)
{
    view v;
    v.w1 = p; v.b1 = v.w1 + 2 * H; v.w2 = v.b1 + H; v.b2 = v.w2 + H * H; v.w3 = v.b2 + H; v.b3 = v.w3 + H;
    return v;
}

__global__ void fwd_bwd(const float *pts, const float *lab, float *p, float *act1, float *act2, float *d1, float *d2,
                        float *dout, float *loss, int n)
{
    int s = threadIdx.x + blockIdx.x * blockDim.x;
    if (s >= n) return;
    view v = split(p);
    float *a1 = act1 + s * H, *a2 = act2 + s * H;
    for (int j = 0; j < H; ++j) a1[j] = tanhf(v.w1[2 * j] * pts[2 * s] + v.w1[2 * j + 1] * pts[2 * s + 1] + v.b1[j]);
    float z = v.b3[0];
    for (int j = 0; j < H; ++j) {
        float a = v.b2[j];
        for (int k = 0; k < H; ++k) a += v.w2[j * H + k] * a1[k];
        a2[j] = tanhf(a);
        z += v.w3[j] * a2[j];
    }
    float q = 1.0f / (1.0f + expf(-z));
    loss[s] = -(lab[s] * logf(q + 1e-7f) + (1 - lab[s]) * logf(1 - q + 1e-7f));
    float d = (q - lab[s]) / n;
    dout[s] = d;
    for (int j = 0; j < H; ++j) d2[s * H + j] = d * v.w3[j] * (1 - a2[j] * a2[j]);
    for (int k = 0; k < H; ++k) {
        float a = 0;
        for (int j = 0; j < H; ++j) a += v.w2[j * H + k] * d2[s * H + j];
        d1[s * H + k] = a * (1 - a1[k] * a1[k]);
    }
}

__global__ void collect(const float *pts, const float *act1, const float *act2, const float *d1, const float *d2,
                        const float *dout, float *g, int n)
{
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= NPAR) return;
    float a = 0;
    int q = i;
    if (q < 2 * H) { for (int s = 0; s < n; ++s) a += d1[s * H + q / 2] * pts[2 * s + q % 2]; g[i] = a; return; }
    q -= 2 * H;
    if (q < H) { for (int s = 0; s < n; ++s) a += d1[s * H + q]; g[i] = a; return; }
    q -= H;
    if (q < H * H) { for (int s = 0; s < n; ++s) a += d2[s * H + q / H] * act1[s * H + q % H]; g[i] = a; return; }
    q -= H * H;
    if (q < H) { for (int s = 0; s < n; ++s) a += d2[s * H + q]; g[i] = a; return; }
    q -= H;
    if (q < H) { for (int s = 0; s < n; ++s) a += dout[s] * act2[s * H + q]; g[i] = a; return; }
    for (int s = 0; s < n; ++s) a += dout[s];
    g[i] = a;
}

__global__ void square_norm(const float *v, float *out, int n)
{
    __shared__ float part[64];
    float a = 0;
    for (int i = threadIdx.x; i < n; i += 64) a += v[i] * v[i];
    part[threadIdx.x] = a;
    __syncthreads();
    if (threadIdx.x == 0) { a = 0; for (int i = 0; i < 64; ++i) a += part[i]; *out = a; }
}

__global__ void climb(const float *p, const float *g, const float *norm2, float *up, float rho, int n)
{
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) up[i] = p[i] + rho * g[i] / (sqrtf(*norm2) + 1e-12f);
}

__global__ void descend(float *p, const float *g, float *vel, float rate, int n)
{
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n) { vel[i] = 0.9f * vel[i] + g[i]; p[i] -= rate * vel[i]; }
}

static unsigned rs = 12345u;
static float rnd(void) { rs ^= rs << 13; rs ^= rs >> 17; rs ^= rs << 5; return (rs >> 8) / 16777216.0f; }

int main(int argc, char **argv)
{
    static float pts[2 * POINTS], lab[POINTS], init[NPAR];
    for (int i = 0; i < POINTS; ++i) {
        int c = rnd() < 0.5f;
        float t = 0.3f + 2.5f * rnd(), ang = t * 1.6f + (c ? 3.14159f : 0);
        pts[2 * i] = t * cosf(ang) + 0.1f * (rnd() - 0.5f);
        pts[2 * i + 1] = t * sinf(ang) + 0.1f * (rnd() - 0.5f);
        lab[i] = (float)c;
    }
    for (int i = 0; i < NPAR; ++i) init[i] = (rnd() - 0.5f) * (i < 3 * H ? 2.0f : 0.7f);
    float *dp, *dl, *p, *up, *g, *vel, *act1, *act2, *d1, *d2, *dout, *loss, *norm2;
    MUST(cudaMalloc((void **)&dp, sizeof pts)); MUST(cudaMalloc((void **)&dl, sizeof lab));
    MUST(cudaMalloc((void **)&p, sizeof init)); MUST(cudaMalloc((void **)&up, sizeof init));
    MUST(cudaMalloc((void **)&g, sizeof init)); MUST(cudaMalloc((void **)&vel, sizeof init));
    MUST(cudaMalloc((void **)&act1, B * H * 4)); MUST(cudaMalloc((void **)&act2, B * H * 4));
    MUST(cudaMalloc((void **)&d1, B * H * 4)); MUST(cudaMalloc((void **)&d2, B * H * 4));
    MUST(cudaMalloc((void **)&dout, B * 4)); MUST(cudaMalloc((void **)&loss, B * 4)); MUST(cudaMalloc((void **)&norm2, 4));
    MUST(cudaMemcpy(dp, pts, sizeof pts, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(dl, lab, sizeof lab, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy(p, init, sizeof init, cudaMemcpyHostToDevice));
    MUST(cudaMemset(vel, 0, sizeof init));
    DDP_PARAMETER(p, NPAR, DDP_FLOAT32);
    DDP_STATE(vel, NPAR, DDP_FLOAT32);
    DDP_GRADIENT(g, NPAR, DDP_FLOAT32);
    int blocks = (NPAR + 127) / 128;
    for (int it = 0; it < 60; ++it) {
        size_t first, count;
        DDP_SHARD(B, &first, &count);
        size_t at = (size_t)(it * B) % POINTS + first;
        int n = (int)count;
        fwd_bwd<<<1, B>>>(dp + 2 * at, dl + at, p, act1, act2, d1, d2, dout, loss, n);
        collect<<<blocks, 128>>>(dp + 2 * at, act1, act2, d1, d2, dout, g, n);
        if (it % 15 == 0 || it == 59) {
            float h[B], m = 0;
            MUST(cudaMemcpy(h, loss, count * 4, cudaMemcpyDeviceToHost));
            for (int s = 0; s < n; ++s) m += h[s] / n;
            DDP_MEAN(&m);
            if (DDP_RANK() == 0) printf("%3d  loss %.4f\n", it, m);
        }
        square_norm<<<1, 64>>>(g, norm2, NPAR);
        climb<<<blocks, 128>>>(p, g, norm2, up, 0.15f, NPAR);
        fwd_bwd<<<1, B>>>(dp + 2 * at, dl + at, up, act1, act2, d1, d2, dout, loss, n);
        collect<<<blocks, 128>>>(dp + 2 * at, act1, act2, d1, d2, dout, g, n);
        DDP_STEP(0);
        descend<<<blocks, 128>>>(p, g, vel, 0.08f, NPAR);
    }
    MUST(cudaMemcpy(init, p, sizeof init, cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(init, 4, NPAR, f);
        fclose(f);
    }
    return 0;
}
