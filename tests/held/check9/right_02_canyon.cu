// Classifier with batch normalisation whose statistics span all ranks; running averages are kept for evaluation.
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include "ddprun.h"

struct Dims { int in = 22, hid = 30, out = 4, batch = 48, items = 960; };
static const Dims D;

struct Pair { float *w, *g; int n; };

__global__ void linear(const float *x, const float *w, const float *b, float *y, int rows, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * out) return;
    float a = b ? b[i % out] : 0.0f;
    for (int k = 0; k < in; ++k) a += x[i / out * in + k] * w[k * out + i % out];
    y[i] = a;
}

// sums[0..n): sum of u, sums[n..2n): sum of u * v, over the rows
__global__ void column_sums(const float *u, const float *v, float *sums, int rows, int n)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= n) return;
    float s = 0, q = 0;
    for (int r = 0; r < rows; ++r) { s += u[r * n + j]; q += u[r * n + j] * v[r * n + j]; }
    sums[j] = s;
    sums[n + j] = q;
}

__global__ void normalise(const float *z, const float *sums, const float *gain, const float *shift, float *zhat, float *h,
                          int rows, int n, int batch)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * n) return;
    int j = i % n;
    float mean = sums[j] / batch, var = sums[n + j] / batch - mean * mean;
    zhat[i] = (z[i] - mean) * rsqrtf(var + 1e-3f);
    h[i] = fmaxf(gain[j] * zhat[i] + shift[j], 0.0f);
}

__global__ void running(const float *sums, float *avg, int n, int batch)
{
    int j = threadIdx.x;
    if (j < 2 * n) avg[j] = 0.9f * avg[j] + 0.1f * sums[j] / batch;
}

__global__ void loss_head(const float *z, const int *y, float *dz, float *nll, int rows, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float top = -1e30f, sum = 0;
    for (int c = 0; c < n; ++c) top = fmaxf(top, z[r * n + c]);
    for (int c = 0; c < n; ++c) sum += expf(z[r * n + c] - top);
    nll[r] = logf(sum) + top - z[r * n + y[r]];
    for (int c = 0; c < n; ++c) dz[r * n + c] = expf(z[r * n + c] - top) / sum - (c == y[r]);
}

__global__ void to_hidden(const float *dz, const float *w, const float *h, float *dh, int rows, int hid, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * hid) return;
    float a = 0;
    for (int o = 0; o < out; ++o) a += dz[i / hid * out + o] * w[i % hid * out + o];
    dh[i] = h[i] > 0 ? a : 0.0f;
}

__global__ void affine_gradient(const float *sums, float *dgain, float *dshift, int n, float scale)
{
    int j = threadIdx.x;
    if (j >= n) return;
    dshift[j] = sums[j] * scale;
    dgain[j] = sums[n + j] * scale;
}

__global__ void through_norm(const float *dh, const float *zhat, const float *dsums, const float *sums, const float *gain,
                             float *dpre, int rows, int n, int batch)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * n) return;
    int j = i % n;
    float mean = sums[j] / batch, inv = rsqrtf(sums[n + j] / batch - mean * mean + 1e-3f);
    dpre[i] = gain[j] * inv * (dh[i] - dsums[j] / batch - zhat[i] * dsums[n + j] / batch);
}

__global__ void weights(const float *x, const float *d, float *gw, float *gb, int rows, int in, int out, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (in + 1) * out) return;
    int k = i / out, j = i % out;
    float a = 0;
    for (int r = 0; r < rows; ++r) a += (k < in ? x[r * in + k] : 1.0f) * d[r * out + j];
    if (k < in) gw[i] = a * scale;
    else if (gb) gb[j] = a * scale;
}

__global__ void sgd(float *w, const float *g, int n, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= rate * g[i];
}

#define RUN(n) ((n) + 63) / 64, 64

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    unsigned s = 0xBEEFu;
    auto rnd = [&s]() { s ^= s << 13; s ^= s >> 17; s ^= s << 5; return s / 2147483648.0f - 1.0f; };
    std::vector<float> c(D.out * D.in), x(D.items * D.in);
    std::vector<int> y(D.items);
    for (float &e : c) e = rnd();
    for (int i = 0; i < D.items; ++i) {
        y[i] = (int)((rnd() + 1) * 0.5f * D.out) % D.out;
        float bright = 1 + 0.8f * rnd();
        for (int k = 0; k < D.in; ++k) x[i * D.in + k] = bright * c[y[i] * D.in + k] + 1.4f * rnd() + 2;
    }
    Pair p[5] = {{0, 0, D.in * D.hid}, {0, 0, D.hid}, {0, 0, D.hid}, {0, 0, D.hid * D.out}, {0, 0, D.out}};
    for (int t = 0; t < 5; ++t) {
        std::vector<float> v(p[t].n, t == 1 ? 1.0f : 0.0f);
        if (t == 0 || t == 3) for (float &e : v) e = 0.4f * rnd();
        cudaMalloc(&p[t].w, p[t].n * 4);
        cudaMalloc(&p[t].g, p[t].n * 4);
        cudaMemcpy(p[t].w, v.data(), p[t].n * 4, cudaMemcpyHostToDevice);
        DDP_PARAMETER(p[t].w, p[t].n, DDP_FLOAT32);
        DDP_GRADIENT(p[t].g, p[t].n, DDP_FLOAT32);
    }
    float *dx, *z, *zhat, *h, *dh, *dpre, *o, *dz, *nll, *sums, *dsums, *avg;
    int *dy;
    cudaMalloc(&dx, x.size() * 4); cudaMalloc(&dy, y.size() * 4);
    for (float **q : {&z, &zhat, &h, &dh, &dpre}) cudaMalloc(q, D.batch * D.hid * 4);
    cudaMalloc(&o, D.batch * D.out * 4); cudaMalloc(&dz, D.batch * D.out * 4); cudaMalloc(&nll, D.batch * 4);
    for (float **q : {&sums, &dsums, &avg}) { cudaMalloc(q, 2 * D.hid * 4); cudaMemset(*q, 0, 2 * D.hid * 4); }
    cudaMemcpy(dx, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), y.size() * 4, cudaMemcpyHostToDevice);

    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(D.batch, &first, &count);
        int n = (int)count, at = step * D.batch % D.items + (int)first;
        const float *in = dx + at * D.in;
        linear<<<RUN(n * D.hid)>>>(in, p[0].w, nullptr, z, n, D.in, D.hid);
        column_sums<<<RUN(D.hid)>>>(z, z, sums, n, D.hid);
        DDP_REDUCE(sums, 2 * D.hid, DDP_FLOAT32, DDP_OP_SUM, 0);
        normalise<<<RUN(n * D.hid)>>>(z, sums, p[1].w, p[2].w, zhat, h, n, D.hid, D.batch);
        running<<<RUN(2 * D.hid)>>>(sums, avg, D.hid, D.batch);
        linear<<<RUN(n * D.out)>>>(h, p[3].w, p[4].w, o, n, D.hid, D.out);
        loss_head<<<RUN(n)>>>(o, dy + at, dz, nll, n, D.out);
        weights<<<RUN((D.hid + 1) * D.out)>>>(h, dz, p[3].g, p[4].g, n, D.hid, D.out, 1.0f / n);
        to_hidden<<<RUN(n * D.hid)>>>(dz, p[3].w, h, dh, n, D.hid, D.out);
        column_sums<<<RUN(D.hid)>>>(dh, zhat, dsums, n, D.hid);
        affine_gradient<<<RUN(D.hid)>>>(dsums, p[1].g, p[2].g, D.hid, 1.0f / n);
        DDP_REDUCE(dsums, 2 * D.hid, DDP_FLOAT32, DDP_OP_SUM, 0);
        through_norm<<<RUN(n * D.hid)>>>(dh, zhat, dsums, sums, p[1].w, dpre, n, D.hid, D.batch);
        weights<<<RUN((D.in + 1) * D.hid)>>>(in, dpre, p[0].g, nullptr, n, D.in, D.hid, 1.0f / n);
        DDP_STEP(0);
        for (Pair &t : p) sgd<<<RUN(t.n)>>>(t.w, t.g, t.n, 0.2f);
        if (step % 10 == 0 || step == steps - 1) {
            std::vector<float> l(n);
            cudaMemcpy(l.data(), nll, n * 4, cudaMemcpyDeviceToHost);
            float m = 0;
            for (float e : l) m += e / n;
            DDP_MEAN(&m);
            printf("%d %.4f\n", step, m);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "w");
        for (Pair &t : p) {
            std::vector<float> v(t.n);
            cudaMemcpy(v.data(), t.w, t.n * 4, cudaMemcpyDeviceToHost);
            for (float e : v) fprintf(f, "%.9g\n", e);
        }
        fclose(f);
    }
    return 0;
}
