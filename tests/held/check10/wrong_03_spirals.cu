/* Sharpness-aware minimisation of a two-layer classifier on three spirals. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ddprun.h"

#define POINTS 360
#define BATCH 60
#define HID 32
#define CLS 3

typedef struct {
    float *w, *g, *saved;
    int n;
} Param;

typedef struct {
    Param w1, b1, w2, b2;
    float *h, *prob, *dh, *loss, *norm;
} Net;

static unsigned lcg = 4242;
static float rnd(void)
{
    lcg = lcg * 1103515245u + 12345u;
    return (float)((lcg >> 9) & 0x3fffff) / 4194304.0f;
}

static float *device_floats(int n)
{
    float *p = NULL;
    if (cudaMalloc((void **)&p, n * sizeof(float)) != cudaSuccess) { fprintf(stderr, "out of memory\n"); exit(2); }
    cudaMemset(p, 0, n * sizeof(float));
    return p;
}

static void param_init(Param *p, int n, float range)
{
    float *host = (float *)malloc(n * sizeof(float));
    for (int i = 0; i < n; ++i) host[i] = (2 * rnd() - 1) * range;
    p->n = n;
    p->w = device_floats(n);
    p->g = device_floats(n);
    p->saved = device_floats(n);
    cudaMemcpy(p->w, host, n * sizeof(float), cudaMemcpyHostToDevice);
    free(host);
    DDP_PARAMETER(p->w, n, DDP_FLOAT32);
    DDP_GRADIENT(p->g, n, DDP_FLOAT32);
}

__global__ void k_forward(const float *x, const int *label, const float *w1, const float *b1, const float *w2,
                          const float *b2, float *h, float *prob, float *loss, int n)
{
    int i = threadIdx.x;
    if (i >= n) return;
    float z[CLS], top = -1e30f, sum = 0;
    for (int k = 0; k < HID; ++k) h[i * HID + k] = tanhf(x[2 * i] * w1[k] + x[2 * i + 1] * w1[HID + k] + b1[k]);
    for (int c = 0; c < CLS; ++c) {
        z[c] = b2[c];
        for (int k = 0; k < HID; ++k) z[c] += h[i * HID + k] * w2[k * CLS + c];
        top = fmaxf(top, z[c]);
    }
    for (int c = 0; c < CLS; ++c) sum += expf(z[c] - top);
    for (int c = 0; c < CLS; ++c) prob[i * CLS + c] = expf(z[c] - top) / sum;
    loss[i] = -logf(prob[i * CLS + label[i]] + 1e-12f);
}
__global__ void k_back_out(float *prob, const int *label, const float *h, float *gw2, float *gb2, int n)
{
    int t = threadIdx.x, k = t / CLS, c = t % CLS;
    float s = 0;
    for (int i = 0; i < n; ++i) {
        float d = (prob[i * CLS + c] - (label[i] == c ? 1.0f : 0.0f)) / n;
        s += k < HID ? d * h[i * HID + k] : d;
    }
    if (k < HID) gw2[t] = s;
    else gb2[c] = s;
}
__global__ void k_back_hidden(const float *prob, const int *label, const float *w2, const float *h, float *dh, int n)
{
    int i = blockIdx.x, k = threadIdx.x;
    float s = 0;
    for (int c = 0; c < CLS; ++c)
        s += (prob[i * CLS + c] - (label[i] == c ? 1.0f : 0.0f)) / n * w2[k * CLS + c];
    dh[i * HID + k] = s * (1 - h[i * HID + k] * h[i * HID + k]);
}
__global__ void k_back_in(const float *x, const float *dh, float *gw1, float *gb1, int n)
{
    int k = threadIdx.x;
    float a = 0, b = 0, c = 0;
    for (int i = 0; i < n; ++i) {
        a += dh[i * HID + k] * x[2 * i];
        b += dh[i * HID + k] * x[2 * i + 1];
        c += dh[i * HID + k];
    }
    gw1[k] = a;
    gw1[HID + k] = b;
    gb1[k] = c;
}
__global__ void k_add_square(const float *g, int n, float *out)
{
    float s = 0;
    for (int i = 0; i < n; ++i) s += g[i] * g[i];
    out[0] += s;
}
__global__ void k_climb(float *w, float *saved, const float *g, const float *norm2, float rho, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    saved[i] = w[i];
    w[i] += rho * g[i] / (sqrtf(norm2[0]) + 1e-12f);
}
__global__ void k_descend(float *w, const float *g, float lr, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= lr * g[i];
}

static void pass(Net *m, const float *x, const int *label, int n)
{
    k_forward<<<1, BATCH>>>(x, label, m->w1.w, m->b1.w, m->w2.w, m->b2.w, m->h, m->prob, m->loss, n);
    k_back_out<<<1, HID * CLS + CLS>>>(m->prob, label, m->h, m->w2.g, m->b2.g, n);
    k_back_hidden<<<n, HID>>>(m->prob, label, m->w2.w, m->h, m->dh, n);
    k_back_in<<<1, HID>>>(x, m->dh, m->w1.g, m->b1.g, n);
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    static float pts[POINTS * 2];
    static int lab[POINTS];
    for (int i = 0; i < POINTS; ++i) {
        float r = 0.1f + rnd(), c = (float)(int)(rnd() * CLS), a = 3.2f * r + c * 2.0944f + 0.2f * rnd();
        pts[2 * i] = 2 * r * cosf(a);
        pts[2 * i + 1] = 2 * r * sinf(a);
        lab[i] = (int)c;
    }
    float *x = device_floats(POINTS * 2);
    int *label = (int *)device_floats(POINTS);
    cudaMemcpy(x, pts, sizeof pts, cudaMemcpyHostToDevice);
    cudaMemcpy(label, lab, sizeof lab, cudaMemcpyHostToDevice);
    Net net;
    param_init(&net.w1, 2 * HID, 1.0f);
    param_init(&net.b1, HID, 0.5f);
    param_init(&net.w2, HID * CLS, 0.4f);
    param_init(&net.b2, CLS, 0.01f);
    net.h = device_floats(BATCH * HID);
    net.dh = device_floats(BATCH * HID);
    net.prob = device_floats(BATCH * CLS);
    net.loss = device_floats(BATCH);
    net.norm = device_floats(1);
    Param *all[4] = {&net.w1, &net.b1, &net.w2, &net.b2};

    for (int s = 0; s < steps; ++s) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        size_t o = (size_t)(s % (POINTS / BATCH)) * BATCH + first;
        pass(&net, x + 2 * o, label + o, (int)count);
        cudaMemset(net.norm, 0, sizeof(float));
        for (int p = 0; p < 4; ++p) k_add_square<<<1, 1>>>(all[p]->g, all[p]->n, net.norm);
        for (int p = 0; p < 4; ++p)
            k_climb<<<(all[p]->n + 31) / 32, 32>>>(all[p]->w, all[p]->saved, all[p]->g, net.norm, 0.15f, all[p]->n);
        pass(&net, x + 2 * o, label + o, (int)count);
        for (int p = 0; p < 4; ++p)
            cudaMemcpyAsync(all[p]->w, all[p]->saved, all[p]->n * sizeof(float), cudaMemcpyDeviceToDevice, 0);
        DDP_STEP(0);
        for (int p = 0; p < 4; ++p) k_descend<<<(all[p]->n + 31) / 32, 32>>>(all[p]->w, all[p]->g, 0.4f, all[p]->n);
        if (s % 12 == 11) {
            float l[BATCH], mean = 0;
            cudaMemcpy(l, net.loss, count * sizeof(float), cudaMemcpyDeviceToHost);
            for (size_t i = 0; i < count; ++i) mean += l[i] / count;
            DDP_MEAN(&mean);
            printf("step %d loss %.4f\n", s + 1, mean);
        }
    }
    cudaDeviceSynchronize();
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        for (int p = 0; p < 4; ++p) {
            float buf[HID * CLS + 64];
            cudaMemcpy(buf, all[p]->w, all[p]->n * sizeof(float), cudaMemcpyDeviceToHost);
            fwrite(buf, sizeof(float), all[p]->n, f);
        }
        fclose(f);
    }
    return 0;
}
