#include "kernels.h"

namespace {

__global__ void bagForwardKernel(const float *emb, const int *word, const int *start, int first, float *bag, int dim)
{
    const int d = blockIdx.x, k = threadIdx.x;
    const int lo = start[d] - first, hi = start[d + 1] - first;
    float s = 0.f;
    for (int i = lo; i < hi; ++i)
        s += emb[word[i] * dim + k];
    bag[d * dim + k] = s / (hi - lo);
}

__global__ void bagBackwardKernel(float *gEmb, const int *word, const int *start, int first, const float *gBag, int dim)
{
    const int d = blockIdx.x, k = threadIdx.x;
    const int lo = start[d] - first, hi = start[d + 1] - first;
    const float g = gBag[d * dim + k] / (hi - lo);
    for (int i = lo; i < hi; ++i)
        atomicAdd(&gEmb[word[i] * dim + k], g);
}

__global__ void outputForwardKernel(const float *bag, const float *w, const float *b, float *prob, int docs, int dim, int classes)
{
    const int d = blockIdx.x * blockDim.x + threadIdx.x;
    if (d >= docs)
        return;
    float *p = prob + d * classes, top = -1e30f, sum = 0.f;
    for (int c = 0; c < classes; ++c) {
        p[c] = b[c];
        for (int k = 0; k < dim; ++k)
            p[c] += bag[d * dim + k] * w[c * dim + k];
        top = fmaxf(top, p[c]);
    }
    for (int c = 0; c < classes; ++c)
        sum += p[c] = expf(p[c] - top);
    for (int c = 0; c < classes; ++c)
        p[c] /= sum;
}

__global__ void lossBackwardKernel(float *prob, const int *label, float *loss, int *hits, int docs, int classes)
{
    const int d = blockIdx.x * blockDim.x + threadIdx.x;
    if (d >= docs)
        return;
    float *p = prob + d * classes;
    const int y = label[d];
    bool hit = true;
    for (int c = 0; c < classes; ++c)
        hit = hit && p[c] <= p[y];
    atomicAdd(loss, -logf(fmaxf(p[y], 1e-8f)));
    if (hit)
        atomicAdd(hits, 1);
    for (int c = 0; c < classes; ++c)
        p[c] = (p[c] - (c == y)) / docs;
}

__global__ void outputWeightsKernel(const float *bag, const float *g, float *gW, float *gB, int docs, int dim, int classes)
{
    const int c = blockIdx.x, k = threadIdx.x;
    float s = 0.f;
    for (int d = 0; d < docs; ++d)
        s += g[d * classes + c] * (k < dim ? bag[d * dim + k] : 1.f);
    if (k < dim)
        gW[c * dim + k] = s;
    else
        gB[c] = s;
}

__global__ void outputInputKernel(const float *w, const float *g, float *gBag, int dim, int classes)
{
    const int d = blockIdx.x, k = threadIdx.x;
    float s = 0.f;
    for (int c = 0; c < classes; ++c)
        s += g[d * classes + c] * w[c * dim + k];
    gBag[d * dim + k] = s;
}

__global__ void adagradKernel(float *w, const float *g, float *acc, int n, float lr)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && g[i] != 0.f) {
        acc[i] += g[i] * g[i];
        w[i] -= lr * g[i] * rsqrtf(acc[i] + 1e-10f);
    }
}

} // namespace

void bagForward(const float *emb, const int *word, const int *start, int first, float *bag, int docs, int dim)
{
    bagForwardKernel<<<docs, dim>>>(emb, word, start, first, bag, dim);
}

void bagBackward(float *gEmb, const int *word, const int *start, int first, const float *gBag, int docs, int dim)
{
    bagBackwardKernel<<<docs, dim>>>(gEmb, word, start, first, gBag, dim);
}

void outputForward(const float *bag, const float *w, const float *b, float *prob, int docs, int dim, int classes)
{
    outputForwardKernel<<<(docs + 63) / 64, 64>>>(bag, w, b, prob, docs, dim, classes);
}

void lossBackward(float *prob, const int *label, float *loss, int *hits, int docs, int classes)
{
    lossBackwardKernel<<<(docs + 63) / 64, 64>>>(prob, label, loss, hits, docs, classes);
}

void outputBackward(const float *bag, const float *w, const float *g, float *gW, float *gB, float *gBag, int docs, int dim, int classes)
{
    outputWeightsKernel<<<classes, dim + 1>>>(bag, g, gW, gB, docs, dim, classes);
    outputInputKernel<<<docs, dim>>>(w, g, gBag, dim, classes);
}

void adagradStep(float *w, const float *g, float *acc, int n, float lr)
{
    adagradKernel<<<(n + 127) / 128, 128>>>(w, g, acc, n, lr);
}
