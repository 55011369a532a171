#include "net.h"
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>

#define RUN(n) (((n) + 63) / 64), 64

__global__ void affine(const float *x, const float *w, const float *b, float *y, int n, int in, int out, int leaky)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * out) return;
    float s = b[i % out];
    for (int k = 0; k < in; k++) s += x[i / out * in + k] * w[i % out * in + k];
    y[i] = leaky && s < 0 ? 0.2f * s : s;
}
__global__ void affine_dw(const float *x, const float *d, float *gw, float *gb, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= in * out) return;
    float s = 0, t = 0;
    for (int r = 0; r < n; r++) { s += d[r * out + i / in] * x[r * in + i % in]; t += d[r * out + i / in]; }
    gw[i] += s;
    if (i % in == 0) gb[i / in] += t;
}
__global__ void affine_dx(const float *d, const float *w, const float *x, float *dx, int n, int in, int out, int leaky)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * in) return;
    float s = 0;
    for (int c = 0; c < out; c++) s += d[i / in * out + c] * w[c * in + i % in];
    dx[i] = leaky && x[i] < 0 ? 0.2f * s : s;
}
__global__ void rms(float *w, const float *g, float *v, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    v[i] = 0.95f * v[i] + 0.05f * g[i] * g[i];
    w[i] -= lr * g[i] / (sqrtf(v[i]) + 1e-6f);
}

static void get(float **p, int n, float scale)
{
    float *h = (float *)calloc(n, sizeof(float));
    for (int i = 0; i < n && scale > 0; i++) h[i] = scale * (2.0f * rand() / RAND_MAX - 1);
    cudaMalloc((void **)p, n * sizeof(float));
    cudaMemcpy(*p, h, n * sizeof(float), cudaMemcpyHostToDevice);
    free(h);
}

void net_init(net *n, int in, int hid, int out, int batch)
{
    n->in = in; n->hid = hid; n->out = out; n->batch = batch;
    get(&n->w1, in * hid, sqrtf(3.0f / in)); get(&n->b1, hid, 0.1f); get(&n->w2, hid * out, sqrtf(3.0f / hid)); get(&n->b2, out, 0);
    get(&n->gw1, in * hid, 0); get(&n->gb1, hid, 0); get(&n->gw2, hid * out, 0); get(&n->gb2, out, 0);
    get(&n->vw1, in * hid, 0); get(&n->vb1, hid, 0); get(&n->vw2, hid * out, 0); get(&n->vb2, out, 0);
    get(&n->h, batch * hid, 0); get(&n->y, batch * out, 0); get(&n->dh, batch * hid, 0); get(&n->dx, batch * in, 0);
}

float *net_forward(net *n, const float *x)
{
    affine<<<RUN(n->batch * n->hid)>>>(x, n->w1, n->b1, n->h, n->batch, n->in, n->hid, 1);
    affine<<<RUN(n->batch * n->out)>>>(n->h, n->w2, n->b2, n->y, n->batch, n->hid, n->out, 0);
    return n->y;
}

float *net_backward(net *n, const float *x, const float *dy)
{
    affine_dw<<<RUN(n->hid * n->out)>>>(n->h, dy, n->gw2, n->gb2, n->batch, n->hid, n->out);
    affine_dx<<<RUN(n->batch * n->hid)>>>(dy, n->w2, n->h, n->dh, n->batch, n->hid, n->out, 1);
    affine_dw<<<RUN(n->in * n->hid)>>>(x, n->dh, n->gw1, n->gb1, n->batch, n->in, n->hid);
    affine_dx<<<RUN(n->batch * n->in)>>>(n->dh, n->w1, x, n->dx, n->batch, n->in, n->hid, 0);
    return n->dx;
}

void net_zero(net *n)
{
    cudaMemset(n->gw1, 0, n->in * n->hid * sizeof(float));
    cudaMemset(n->gb1, 0, n->hid * sizeof(float));
    cudaMemset(n->gw2, 0, n->hid * n->out * sizeof(float));
    cudaMemset(n->gb2, 0, n->out * sizeof(float));
}

void net_update(net *n, float lr)
{
    rms<<<RUN(n->in * n->hid)>>>(n->w1, n->gw1, n->vw1, n->in * n->hid, lr);
    rms<<<RUN(n->hid)>>>(n->b1, n->gb1, n->vb1, n->hid, lr);
    rms<<<RUN(n->hid * n->out)>>>(n->w2, n->gw2, n->vw2, n->hid * n->out, lr);
    rms<<<RUN(n->out)>>>(n->b2, n->gb2, n->vb2, n->out, lr);
}

void net_free(net *n)
{
    float *p[] = { n->w1, n->b1, n->w2, n->b2, n->gw1, n->gb1, n->gw2, n->gb2, n->vw1, n->vb1, n->vw2, n->vb2, n->h, n->y, n->dh, n->dx };
    for (unsigned i = 0; i < sizeof(p) / sizeof(*p); i++) cudaFree(p[i]);
}
