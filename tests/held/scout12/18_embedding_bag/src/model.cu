#include "common.h"
#include <cmath>
#include <cuda_runtime.h>

__global__ void pool(const int *tokens, const int *offset, const float *emb, float *pooled, int dim)
{
    int d = blockIdx.x, k = threadIdx.x;
    int a = offset[d], b = offset[d + 1];
    float s = 0;
    for (int i = a; i < b; i++) s += emb[tokens[i] * dim + k];
    pooled[d * dim + k] = s / (b - a);
}

__global__ void classify(const float *pooled, const float *w, const float *bias, const float *label, float *err, float *loss, int n, int dim)
{
    int d = blockIdx.x * blockDim.x + threadIdx.x;
    if (d >= n) return;
    float z = *bias;
    for (int k = 0; k < dim; k++) z += pooled[d * dim + k] * w[k];
    float p = 1 / (1 + expf(-z));
    err[d] = p - label[d];
    loss[d] = label[d] > 0.5f ? -logf(p + 1e-7f) : -logf(1 - p + 1e-7f);
}

__global__ void scatter(const int *tokens, const int *offset, const float *err, const float *w, float *g_emb, int dim)
{
    int d = blockIdx.x, k = threadIdx.x;
    int a = offset[d], b = offset[d + 1];
    float g = err[d] * w[k] / (b - a);
    for (int i = a; i < b; i++) atomicAdd(&g_emb[tokens[i] * dim + k], g);
}

__global__ void head(const float *pooled, const float *err, float *g_w, float *g_bias, int n, int dim)
{
    int k = threadIdx.x;
    float s = 0;
    for (int d = 0; d < n; d++) s += k < dim ? err[d] * pooled[d * dim + k] : err[d];
    if (k < dim) g_w[k] = s; else *g_bias = s;
}

__global__ void adagrad(float *p, float *g, float *acc, int n, float lr, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float d = g[i] * scale;
    if (d == 0.f) return;               // words that did not occur
    acc[i] += d * d;
    p[i] -= lr * d * rsqrtf(acc[i] + 1e-10f);
    g[i] = 0;
}

static float *zeros(int n)
{
    float *p;
    cudaMalloc(&p, n * sizeof(float));
    cudaMemset(p, 0, n * sizeof(float));
    return p;
}

void model_create(BagModel &m, int vocab, int dim, int max_batch)
{
    m.vocab = vocab; m.dim = dim;
    m.emb = zeros(vocab * dim); m.w = zeros(dim); m.bias = zeros(1);
    m.g_emb = zeros(vocab * dim); m.g_w = zeros(dim); m.g_bias = zeros(1);
    m.a_emb = zeros(vocab * dim); m.a_w = zeros(dim); m.a_bias = zeros(1);
    m.pooled = zeros(max_batch * dim); m.err = zeros(max_batch); m.loss = zeros(max_batch);
    std::vector<float> h(vocab * dim);
    unsigned s = 12345;
    auto next = [&]() { s = s * 1664525u + 1013904223u; return (s >> 8) / 16777216.0f - 0.5f; };
    for (auto &x : h) x = 0.2f * next();
    cudaMemcpy(m.emb, h.data(), vocab * dim * sizeof(float), cudaMemcpyHostToDevice);
    for (int k = 0; k < dim; k++) h[k] = next();
    cudaMemcpy(m.w, h.data(), dim * sizeof(float), cudaMemcpyHostToDevice);
}

void model_destroy(BagModel &m)
{
    float *all[] = { m.emb, m.w, m.bias, m.g_emb, m.g_w, m.g_bias, m.a_emb, m.a_w, m.a_bias, m.pooled, m.err, m.loss };
    for (float *p : all) cudaFree(p);
}

static float forward(BagModel &m, const int *tokens, const int *offset, const float *label, int n)
{
    pool<<<n, m.dim>>>(tokens, offset, m.emb, m.pooled, m.dim);
    classify<<<(n + 63) / 64, 64>>>(m.pooled, m.w, m.bias, label, m.err, m.loss, n, m.dim);
    std::vector<float> l(n);
    cudaMemcpy(l.data(), m.loss, n * sizeof(float), cudaMemcpyDeviceToHost);
    float s = 0;
    for (float x : l) s += x;
    return s;
}

float model_train(BagModel &m, const int *tokens, const int *offset, const float *label, int first, int n, float lr)
{
    float l = forward(m, tokens, offset + first, label + first, n);
    scatter<<<n, m.dim>>>(tokens, offset + first, m.err, m.w, m.g_emb, m.dim);
    head<<<1, m.dim + 1>>>(m.pooled, m.err, m.g_w, m.g_bias, n, m.dim);
    const float scale = 1.0f / n;
    adagrad<<<(m.vocab * m.dim + 127) / 128, 128>>>(m.emb, m.g_emb, m.a_emb, m.vocab * m.dim, lr, scale);
    adagrad<<<1, 128>>>(m.w, m.g_w, m.a_w, m.dim, lr, scale);
    adagrad<<<1, 128>>>(m.bias, m.g_bias, m.a_bias, 1, lr, scale);
    return l / n;
}

float model_accuracy(BagModel &m, const int *tokens, const int *offset, const float *label, int docs, int chunk)
{
    int right = 0;
    std::vector<float> e(chunk);
    for (int f = 0; f < docs; f += chunk) {
        int n = docs - f < chunk ? docs - f : chunk;
        forward(m, tokens, offset + f, label + f, n);
        cudaMemcpy(e.data(), m.err, n * sizeof(float), cudaMemcpyDeviceToHost);
        for (int i = 0; i < n; i++) right += std::fabs(e[i]) < 0.5f;
    }
    return (float)right / docs;
}
