#include "fm.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime.h>

static float *floats(int n)
{
    float *p;
    if (cudaMalloc((void **)&p, n * sizeof(float)) != cudaSuccess) {
        fprintf(stderr, "no device memory\n");
        exit(1);
    }
    cudaMemset(p, 0, n * sizeof(float));
    return p;
}

void fm_init(fm_t *fm, int max_batch, unsigned seed)
{
    fm->max_batch = max_batch;
    fm->bias = floats(1);
    fm->linear = floats(NFEAT);
    fm->factor = floats(NFEAT * NFACT);
    fm->g_bias = floats(1);
    fm->g_linear = floats(NFEAT);
    fm->g_factor = floats(NFEAT * NFACT);
    fm->s_bias = floats(1);
    fm->s_linear = floats(NFEAT);
    fm->s_factor = floats(NFEAT * NFACT);
    fm->prob = floats(max_batch);
    fm->mix = floats(max_batch * NFACT);
    fm->loss = floats(1);
    float h[NFEAT * NFACT];
    for (int i = 0; i < NFEAT * NFACT; i++) {
        seed = seed * 69069u + 1u;
        h[i] = 0.1f * ((seed >> 9) / 4194304.0f - 1.0f);
    }
    cudaMemcpy(fm->factor, h, sizeof h, cudaMemcpyHostToDevice);
}

void fm_free(fm_t *fm)
{
    cudaFree(fm->bias); cudaFree(fm->linear); cudaFree(fm->factor);
    cudaFree(fm->g_bias); cudaFree(fm->g_linear); cudaFree(fm->g_factor);
    cudaFree(fm->s_bias); cudaFree(fm->s_linear); cudaFree(fm->s_factor);
    cudaFree(fm->prob); cudaFree(fm->mix); cudaFree(fm->loss);
}

__global__ void score(const float *x, const float *label, int offset, int n, const float *b, const float *w,
                      const float *v, float *prob, float *mix, float *loss)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    const float *row = x + (offset + r) * NFEAT;
    float s = *b;
    for (int i = 0; i < NFEAT; i++) s += w[i] * row[i];
    for (int k = 0; k < NFACT; k++) {
        float a = 0, q = 0;
        for (int i = 0; i < NFEAT; i++) {
            float t = v[i * NFACT + k] * row[i];
            a += t;
            q += t * t;
        }
        mix[r * NFACT + k] = a;
        s += 0.5f * (a * a - q);
    }
    float p = 1 / (1 + expf(-s)), y = label[offset + r];
    prob[r] = p;
    atomicAdd(loss, -(y * logf(p + 1e-7f) + (1 - y) * logf(1 - p + 1e-7f)));
}

__global__ void gradient(const float *x, const float *label, int offset, int n, const float *v, const float *prob,
                         const float *mix, float *gb, float *gw, float *gv)
{
    int i = blockIdx.x, k = threadIdx.x;
    float sv = 0, sw = 0, sb = 0;
    for (int r = 0; r < n; r++) {
        float e = prob[r] - label[offset + r], xi = x[(offset + r) * NFEAT + i];
        sv += e * xi * (mix[r * NFACT + k] - v[i * NFACT + k] * xi);
        sw += e * xi;
        sb += e;
    }
    gv[i * NFACT + k] = sv;
    if (k == 0) gw[i] = sw;
    if (k == 0 && i == 0) *gb = sb;
}

void fm_gradient(fm_t *fm, const float *d_x, const float *d_label, int offset, int n)
{
    score<<<(n + 63) / 64, 64>>>(d_x, d_label, offset, n, fm->bias, fm->linear, fm->factor, fm->prob, fm->mix, fm->loss);
    gradient<<<NFEAT, NFACT>>>(d_x, d_label, offset, n, fm->factor, fm->prob, fm->mix, fm->g_bias, fm->g_linear, fm->g_factor);
}

__global__ void rmsprop(float *p, const float *g, float *s, int n, float rate, float rescale, float l2)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float d = rescale * g[i] + l2 * p[i];
    s[i] = 0.9f * s[i] + 0.1f * d * d;
    p[i] -= rate * d / (sqrtf(s[i]) + 1e-4f);
}

void fm_update(fm_t *fm, float rate, float rescale, float l2)
{
    rmsprop<<<1, 1>>>(fm->bias, fm->g_bias, fm->s_bias, 1, rate, rescale, 0);
    rmsprop<<<1, 32>>>(fm->linear, fm->g_linear, fm->s_linear, NFEAT, rate, rescale, l2);
    rmsprop<<<(NFEAT * NFACT + 31) / 32, 32>>>(fm->factor, fm->g_factor, fm->s_factor, NFEAT * NFACT, rate, rescale, l2);
}

float fm_take_loss(fm_t *fm)
{
    float h;
    cudaMemcpy(&h, fm->loss, sizeof h, cudaMemcpyDeviceToHost);
    cudaMemset(fm->loss, 0, sizeof h);
    return h;
}

float fm_evaluate(fm_t *fm, const table_t *t)
{
    for (int at = 0; at < t->rows; at += fm->max_batch) {
        int n = t->rows - at < fm->max_batch ? t->rows - at : fm->max_batch;
        score<<<(n + 63) / 64, 64>>>(t->d_x, t->d_label, at, n, fm->bias, fm->linear, fm->factor, fm->prob, fm->mix, fm->loss);
    }
    return fm_take_loss(fm) / t->rows;
}
