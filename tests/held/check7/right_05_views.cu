// Contrastive pretraining: two encoders learn to match two views of an object against all others of the batch.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

static void T(cudaError_t e) { if (e != cudaSuccess) { fprintf(stderr, "%s\n", cudaGetErrorString(e)); exit(1); } }

static const int XD = 20, ED = 8, BATCH = 24, OBJECTS = 240;

__global__ void encode(const float *x, const float *w, float *e, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * ED) return;
    float a = 0;
    for (int k = 0; k < XD; ++k) a += w[i % ED * XD + k] * x[i / ED * XD + k];
    e[i] = tanhf(a);
}

__global__ void match(const float *u, const float *v, float *p, float *loss)
{
    int i = threadIdx.x;
    float top = -1e30f, sum = 0, own = 0;
    for (int j = 0; j < BATCH; ++j) {
        float a = 0;
        for (int k = 0; k < ED; ++k) a += u[i * ED + k] * v[j * ED + k];
        p[i * BATCH + j] = a;
        if (j == i) own = a;
        top = fmaxf(top, a);
    }
    for (int j = 0; j < BATCH; ++j) sum += expf(p[i * BATCH + j] - top);
    for (int j = 0; j < BATCH; ++j) p[i * BATCH + j] = expf(p[i * BATCH + j] - top) / sum - (j == i);
    loss[i] = top + logf(sum) - own;
}

// derivatives for the rows from `first` on: by row (of the first view) or by column (of the second)
__global__ void embedding_slope(const float *p, const float *mine, const float *other, float *d, int first, int n, int column)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * ED) return;
    int r = first + i / ED, k = i % ED;
    float a = 0;
    for (int j = 0; j < BATCH; ++j) a += (column ? p[j * BATCH + r] : p[r * BATCH + j]) * other[j * ED + k];
    float m = mine[r * ED + k];
    d[i] = a * (1 - m * m) / n;
}

__global__ void weight_slope(const float *x, const float *d, float *g, int n)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= ED * XD) return;
    float a = 0;
    for (int i = 0; i < n; ++i) a += d[i * ED + k / XD] * x[i * XD + k % XD];
    g[k] = a;
}

__global__ void step_with(float *w, float *vel, const float *g, float lr)
{
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k < ED * XD) { vel[k] = 0.8f * vel[k] + g[k]; w[k] -= lr * vel[k]; }
}

struct Encoder {
    float *w, *g, *vel, *data, *emb, *d;
    Encoder(const std::vector<float> &views, const std::vector<float> &init)
    {
        T(cudaMalloc(&w, ED * XD * 4)); T(cudaMalloc(&g, ED * XD * 4)); T(cudaMalloc(&vel, ED * XD * 4));
        T(cudaMalloc(&data, views.size() * 4)); T(cudaMalloc(&emb, BATCH * ED * 4)); T(cudaMalloc(&d, BATCH * ED * 4));
        T(cudaMemset(vel, 0, ED * XD * 4));
        T(cudaMemcpy(data, views.data(), views.size() * 4, cudaMemcpyHostToDevice));
        T(cudaMemcpy(w, init.data(), ED * XD * 4, cudaMemcpyHostToDevice));
        DDP_PARAMETER(w, ED * XD, DDP_FLOAT32);
        DDP_STATE(vel, ED * XD, DDP_FLOAT32);
        DDP_GRADIENT(g, ED * XD, DDP_FLOAT32);
    }
    void embed(size_t base, size_t first, size_t count)
    {
        T(cudaMemsetAsync(emb, 0, BATCH * ED * 4, 0));
        encode<<<((int)count * ED + 63) / 64, 64>>>(data + (base + first) * XD, w, emb + first * ED, (int)count);
        DDP_REDUCE(emb, BATCH * ED, DDP_FLOAT32, DDP_OP_SUM, 0);
    }
    void slope(const float *p, const Encoder &other, size_t base, size_t first, size_t count, int column)
    {
        embedding_slope<<<((int)count * ED + 63) / 64, 64>>>(p, emb, other.emb, d, (int)first, (int)count, column);
        weight_slope<<<(ED * XD + 63) / 64, 64>>>(data + (base + first) * XD, d, g, (int)count);
    }
    void update(float lr) { step_with<<<(ED * XD + 63) / 64, 64>>>(w, vel, g, lr); }
};

int main(int argc, char **argv)
{
    unsigned s = 606;
    auto rnd = [&s] { s = s * 747796405u + 2891336453u; unsigned q = ((s >> ((s >> 28) + 4)) ^ s) * 277803737u; return (q >> 8) / 16777216.0f - 0.5f; };
    std::vector<float> a(OBJECTS * XD), b(OBJECTS * XD), ma(XD * 6), mb(XD * 6), wa(ED * XD), wb(ED * XD);
    for (auto &f : ma) f = 2 * rnd();
    for (auto &f : mb) f = 2 * rnd();
    for (int o = 0; o < OBJECTS; ++o) {
        float t[6];
        for (float &f : t) f = 2 * rnd();
        for (int k = 0; k < XD; ++k) {
            a[o * XD + k] = 0.2f * rnd();
            b[o * XD + k] = 0.2f * rnd();
            for (int q = 0; q < 6; ++q) { a[o * XD + k] += ma[k * 6 + q] * t[q]; b[o * XD + k] += mb[k * 6 + q] * t[q]; }
        }
    }
    for (auto &f : wa) f = 0.5f * rnd();
    for (auto &f : wb) f = 0.5f * rnd();
    Encoder one(a, wa), two(b, wb);
    float *p, *loss, hl[BATCH];
    T(cudaMalloc(&p, BATCH * BATCH * 4));
    T(cudaMalloc(&loss, BATCH * 4));
    for (int it = 0; it < 60; ++it) {
        size_t first, count, base = (size_t)it * BATCH % OBJECTS;
        DDP_SHARD(BATCH, &first, &count);
        one.embed(base, first, count);
        two.embed(base, first, count);
        match<<<1, BATCH>>>(one.emb, two.emb, p, loss);
        one.slope(p, two, base, first, count, 0);
        two.slope(p, one, base, first, count, 1);
        DDP_STEP(0);
        one.update(0.1f);
        two.update(0.1f);
        if (it % 15 == 0 || it == 59) {
            T(cudaMemcpy(hl, loss, sizeof hl, cudaMemcpyDeviceToHost));
            float m = 0;
            for (float l : hl) m += l / BATCH;
            if (DDP_RANK() == 0) printf("%d: %.4f\n", it, m);
        }
    }
    T(cudaMemcpy(wa.data(), one.w, wa.size() * 4, cudaMemcpyDeviceToHost));
    T(cudaMemcpy(wb.data(), two.w, wb.size() * 4, cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(wa.data(), 4, wa.size(), f);
        fwrite(wb.data(), 4, wb.size(), f);
        fclose(f);
    }
    return 0;
}
