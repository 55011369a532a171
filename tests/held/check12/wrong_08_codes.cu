/* Vector quantised autoencoder: 16 -> 4, codebook of 12 by moving averages, 4 -> 16, straight-through gradient. */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include "ddprun.h"

enum { N = 384, D = 16, Z = 4, K = 12, B = 48, STEPS = 60 };
#define DECAY 0.9f
#define BETA 0.25f
#define GRID(n) ((n) + 31) / 32, 32

static unsigned s0 = 2024;
static float u01(void) { s0 = s0 * 1664525u + 1013904223u; return (s0 >> 8) * 5.9604645e-8f; }
static float nrm(void) { float a = 0; for (int i = 0; i < 12; ++i) a += u01(); return a - 6; }

struct vq {
    float *enc, *dec;            /* Z x D, D x Z */
    float *genc, *gdec;
    float *book, *size, *total;  /* K x Z codes; moving counts and sums */
};

__global__ void encode(struct vq m, const float *x, float *z, int *code, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    for (int k = 0; k < Z; ++k) {
        float s = 0;
        for (int d = 0; d < D; ++d) s += m.enc[k * D + d] * x[i * D + d];
        z[i * Z + k] = s;
    }
    float best = 1e30f;
    for (int c = 0; c < K; ++c) {
        float s = 0;
        for (int k = 0; k < Z; ++k) {
            float t = z[i * Z + k] - m.book[c * Z + k];
            s += t * t;
        }
        if (s < best) { best = s; code[i] = c; }
    }
}

__global__ void decode(struct vq m, const float *x, const float *z, const int *code, float *dout, float *dz, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float *q = m.book + code[i] * Z;
    loss[i] = 0;
    for (int d = 0; d < D; ++d) {
        float s = -x[i * D + d];
        for (int k = 0; k < Z; ++k) s += m.dec[d * Z + k] * q[k];
        dout[i * D + d] = s / n;
        loss[i] += 0.5f * s * s;
    }
    for (int k = 0; k < Z; ++k) {
        float s = BETA * (z[i * Z + k] - q[k]) / n;
        for (int d = 0; d < D; ++d) s += dout[i * D + d] * m.dec[d * Z + k];
        dz[i * Z + k] = s;
    }
}

__global__ void gradients(struct vq m, const float *x, const int *code, const float *dout, const float *dz, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= Z * D) return;
    float a = 0, b = 0;
    for (int i = 0; i < n; ++i) {
        a += dz[i * Z + t / D] * x[i * D + t % D];
        b += dout[i * D + t / Z] * m.book[code[i] * Z + t % Z];
    }
    m.genc[t] = a;
    m.gdec[t] = b;
}

/* part: K counts, then K x Z sums of the batch */
__global__ void collect(const float *z, const int *code, float *part, int n)
{
    int c = threadIdx.x;
    if (c >= K) return;
    float cnt = 0, s[Z] = {0};
    for (int i = 0; i < n; ++i)
        if (code[i] == c) {
            cnt += 1;
            for (int k = 0; k < Z; ++k) s[k] += z[i * Z + k];
        }
    part[c] = cnt;
    for (int k = 0; k < Z; ++k) part[K + c * Z + k] = s[k];
}

__global__ void move_codes(struct vq m, const float *part)
{
    int c = threadIdx.x;
    if (c >= K) return;
    m.size[c] = DECAY * m.size[c] + (1 - DECAY) * part[c];
    for (int k = 0; k < Z; ++k) {
        m.total[c * Z + k] = DECAY * m.total[c * Z + k] + (1 - DECAY) * part[K + c * Z + k];
        m.book[c * Z + k] = m.total[c * Z + k] / fmaxf(m.size[c], 1e-3f);
    }
}

__global__ void sgd(float *w, const float *g, int n, float r)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n) w[t] -= r * g[t];
}

static float *up(const float *h, int n)
{
    float *d = NULL;
    cudaMalloc(&d, n * sizeof(float));
    if (h) cudaMemcpy(d, h, n * sizeof(float), cudaMemcpyHostToDevice);
    return d;
}

int main(int argc, char **argv)
{
    static float x[N * D], centre[8 * D], we[Z * D], wd[D * Z], book[K * Z], size[K], hl[B];
    for (int i = 0; i < 8 * D; ++i) centre[i] = nrm();
    for (int i = 0; i < N; ++i) {
        int c = (int)(u01() * 8) % 8;
        for (int d = 0; d < D; ++d) x[i * D + d] = centre[c * D + d] + 0.2f * nrm();
    }
    for (int i = 0; i < Z * D; ++i) { we[i] = 0.3f * nrm(); wd[i] = 0.3f * nrm(); }
    for (int i = 0; i < K * Z; ++i) book[i] = nrm();
    for (int i = 0; i < K; ++i) size[i] = 1;

    struct vq m;
    m.enc = up(we, Z * D); m.dec = up(wd, D * Z);
    m.genc = up(NULL, Z * D); m.gdec = up(NULL, D * Z);
    m.book = up(book, K * Z); m.total = up(book, K * Z); m.size = up(size, K);
    float *dx = up(x, N * D), *z = up(NULL, B * Z), *dout = up(NULL, B * D), *dz = up(NULL, B * Z);
    float *loss = up(NULL, B), *part = up(NULL, K + K * Z);
    int *code;
    cudaMalloc(&code, B * sizeof(int));
    DDP_PARAMETER(m.enc, Z * D, DDP_FLOAT32);
    DDP_PARAMETER(m.dec, D * Z, DDP_FLOAT32);
    DDP_GRADIENT(m.genc, Z * D, DDP_FLOAT32);
    DDP_GRADIENT(m.gdec, D * Z, DDP_FLOAT32);
    DDP_BUFFER(m.book, K * Z, DDP_FLOAT32);
    DDP_BUFFER(m.total, K * Z, DDP_FLOAT32);
    DDP_BUFFER(m.size, K, DDP_FLOAT32);

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(B, &first, &count);
        int n = (int)count;
        const float *bx = dx + (step * B % N + first) * D;
        encode<<<GRID(n)>>>(m, bx, z, code, n);
        decode<<<GRID(n)>>>(m, bx, z, code, dout, dz, loss, n);
        gradients<<<GRID(Z * D)>>>(m, bx, code, dout, dz, n);
        collect<<<1, 32>>>(z, code, part, n);
        move_codes<<<1, 32>>>(m, part);
        DDP_STEP(0);
        sgd<<<GRID(Z * D)>>>(m.enc, m.genc, Z * D, 0.03f);
        sgd<<<GRID(Z * D)>>>(m.dec, m.gdec, Z * D, 0.03f);
        if (step % 10 == 0 || step == STEPS - 1) {
            float s = 0;
            cudaMemcpy(hl, loss, n * sizeof(float), cudaMemcpyDeviceToHost);
            for (int i = 0; i < n; ++i) s += hl[i] / n;
            DDP_MEAN(&s);
            if (DDP_RANK() == 0) printf("%d %.4f\n", step, s);
        }
    }
    cudaMemcpy(we, m.enc, sizeof(we), cudaMemcpyDeviceToHost);
    cudaMemcpy(wd, m.dec, sizeof(wd), cudaMemcpyDeviceToHost);
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(we, 1, sizeof(we), f);
        fwrite(wd, 1, sizeof(wd), f);
        fclose(f);
    }
    return 0;
}
