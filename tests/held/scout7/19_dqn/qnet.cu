#include "qnet.h"
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>

#define CHECK(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) { std::fprintf(stderr, "%s\n", cudaGetErrorString(e_)); std::abort(); } } while (0)

namespace {

// views into one block of memory
struct Weights {
    float *w1, *b1, *w2, *b2;
    __host__ __device__ static Weights of(float *base, int s, int h, int a)
    {
        Weights w;
        w.w1 = base;
        w.b1 = w.w1 + s * h;
        w.w2 = w.b1 + h;
        w.b2 = w.w2 + h * a;
        return w;
    }
};

__global__ void hiddenKernel(const float *x, int stride, Weights w, float *h, int n, int s, int hid)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * hid) return;
    int r = i / hid, c = i % hid;
    float v = w.b1[c];
    for (int k = 0; k < s; k++) v += x[r * stride + k] * w.w1[k * hid + c];
    h[i] = v > 0 ? v : 0;
}

__global__ void valueKernel(const float *h, Weights w, float *q, int n, int hid, int a)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * a) return;
    int r = i / a, c = i % a;
    float v = w.b2[c];
    for (int k = 0; k < hid; k++) v += h[r * hid + k] * w.w2[k * a + c];
    q[i] = v;
}

__global__ void tdKernel(const Transition *t, const float *q, const float *qnext, float *dq, float *loss, float gamma, int n, int a)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float best = qnext[i * a];
    for (int c = 1; c < a; c++) best = fmaxf(best, qnext[i * a + c]);
    float target = t[i].reward + gamma * (1.f - t[i].done) * best;
    float e = q[i * a + t[i].action] - target;
    for (int c = 0; c < a; c++) dq[i * a + c] = 0;
    dq[i * a + t[i].action] = fminf(fmaxf(e, -1.f), 1.f) / n;
    loss[i] = fabsf(e) < 1 ? 0.5f * e * e : fabsf(e) - 0.5f;
}

__global__ void outputGradKernel(const float *h, const float *dq, Weights g, int n, int hid, int a)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= hid * a) return;
    int k = i / a, c = i % a;
    float s = 0, sb = 0;
    for (int r = 0; r < n; r++) {
        s += h[r * hid + k] * dq[r * a + c];
        sb += dq[r * a + c];
    }
    g.w2[i] = s;
    if (!k) g.b2[c] = sb;
}

__global__ void hiddenGradKernel(const float *x, int stride, const float *h, const float *dq, Weights w, Weights g, int n, int s, int hid, int a)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= s * hid) return;
    int k = i / hid, c = i % hid;
    float acc = 0, accb = 0;
    for (int r = 0; r < n; r++) {
        if (h[r * hid + c] <= 0) continue;
        float d = 0;
        for (int o = 0; o < a; o++) d += dq[r * a + o] * w.w2[c * a + o];
        acc += d * x[r * stride + k];
        accb += d;
    }
    g.w1[i] = acc;
    if (!k) g.b1[c] = accb;
}

__global__ void adamKernel(float *p, const float *g, float *m, float *v, float lr, float c1, float c2, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    p[i] -= lr * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-8f);
}

} // namespace

struct QNetImpl {
    int s, h, a, n, t;
    float gamma, lr;
    float *online, *target, *grad, *m, *v; // n floats each
    float *hid, *hid2, *q, *q2, *dq, *loss, *one;
    Transition *batch;
};

static float *dalloc(int n)
{
    float *p;
    CHECK(cudaMalloc(&p, n * sizeof(float)));
    CHECK(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

QNetwork::QNetwork(int s, int h, int a, int maxBatch, float gamma, float lr) : impl(new QNetImpl)
{
    QNetImpl &d = *impl;
    d.s = s;
    d.h = h;
    d.a = a;
    d.n = s * h + h + h * a + a;
    d.t = 0;
    d.gamma = gamma;
    d.lr = lr;
    d.online = dalloc(d.n);
    d.target = dalloc(d.n);
    d.grad = dalloc(d.n);
    d.m = dalloc(d.n);
    d.v = dalloc(d.n);
    d.hid = dalloc(maxBatch * h);
    d.hid2 = dalloc(maxBatch * h);
    d.q = dalloc(maxBatch * a);
    d.q2 = dalloc(maxBatch * a);
    d.dq = dalloc(maxBatch * a);
    d.loss = dalloc(maxBatch);
    d.one = dalloc(s);
    CHECK(cudaMalloc(&d.batch, maxBatch * sizeof(Transition)));
    std::vector<float> init(d.n, 0.f);
    for (int i = 0; i < s * h; i++) init[i] = 1.2f * (rand() / (float)RAND_MAX - 0.5f);
    for (int i = 0; i < h * a; i++) init[s * h + h + i] = 0.4f * (rand() / (float)RAND_MAX - 0.5f);
    CHECK(cudaMemcpy(d.online, init.data(), d.n * sizeof(float), cudaMemcpyHostToDevice));
    syncTarget();
}

QNetwork::~QNetwork()
{
    QNetImpl &d = *impl;
    for (float *p : { d.online, d.target, d.grad, d.m, d.v, d.hid, d.hid2, d.q, d.q2, d.dq, d.loss, d.one }) cudaFree(p);
    cudaFree(d.batch);
    delete impl;
}

void QNetwork::syncTarget() { CHECK(cudaMemcpy(impl->target, impl->online, impl->n * sizeof(float), cudaMemcpyDeviceToDevice)); }

int QNetwork::act(const float *state)
{
    QNetImpl &d = *impl;
    Weights w = Weights::of(d.online, d.s, d.h, d.a);
    CHECK(cudaMemcpy(d.one, state, d.s * sizeof(float), cudaMemcpyHostToDevice));
    hiddenKernel<<<1, d.h>>>(d.one, d.s, w, d.hid, 1, d.s, d.h);
    valueKernel<<<1, d.a>>>(d.hid, w, d.q, 1, d.h, d.a);
    float q[8];
    CHECK(cudaMemcpy(q, d.q, d.a * sizeof(float), cudaMemcpyDeviceToHost));
    int best = 0;
    for (int c = 1; c < d.a; c++)
        if (q[c] > q[best]) best = c;
    return best;
}

float QNetwork::learn(const std::vector<Transition> &batch)
{
    QNetImpl &d = *impl;
    const int n = (int)batch.size(), stride = sizeof(Transition) / sizeof(float);
    Weights w = Weights::of(d.online, d.s, d.h, d.a), wt = Weights::of(d.target, d.s, d.h, d.a), g = Weights::of(d.grad, d.s, d.h, d.a);
    CHECK(cudaMemcpy(d.batch, batch.data(), n * sizeof(Transition), cudaMemcpyHostToDevice));
    const float *state = (const float *)d.batch, *next = state + 6;
    int gh = (n * d.h + 127) / 128, ga = (n * d.a + 127) / 128;
    hiddenKernel<<<gh, 128>>>(next, stride, wt, d.hid2, n, d.s, d.h);
    valueKernel<<<ga, 128>>>(d.hid2, wt, d.q2, n, d.h, d.a);
    hiddenKernel<<<gh, 128>>>(state, stride, w, d.hid, n, d.s, d.h);
    valueKernel<<<ga, 128>>>(d.hid, w, d.q, n, d.h, d.a);
    tdKernel<<<(n + 63) / 64, 64>>>(d.batch, d.q, d.q2, d.dq, d.loss, d.gamma, n, d.a);
    outputGradKernel<<<(d.h * d.a + 127) / 128, 128>>>(d.hid, d.dq, g, n, d.h, d.a);
    hiddenGradKernel<<<(d.s * d.h + 127) / 128, 128>>>(state, stride, d.hid, d.dq, w, g, n, d.s, d.h, d.a);
    d.t++;
    adamKernel<<<(d.n + 127) / 128, 128>>>(d.online, d.grad, d.m, d.v, d.lr, 1 - powf(0.9f, d.t), 1 - powf(0.999f, d.t), d.n);
    std::vector<float> l(n);
    CHECK(cudaMemcpy(l.data(), d.loss, n * sizeof(float), cudaMemcpyDeviceToHost));
    float sum = 0;
    for (float x : l) sum += x;
    return sum / n;
}
