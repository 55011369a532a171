/* Two 1-D convolutions, mean pooling and a linear layer tell sine, square and saw-tooth waves apart. Adam. */
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "ddprun.h"

#define LEN 28
#define K 5
#define CLASSES 3
#define BATCH 24
#define WAVES 480

struct conv {
    int in, out, len; /* channels and input length */
    float *w, *b, *dw, *db, *y, *dy;
    float *mw, *vw, *mb, *vb;
};

static unsigned prng = 20240607u;
static float draw(void)
{
    prng = prng * 747796405u + 2891336453u;
    unsigned w = ((prng >> ((prng >> 28) + 4)) ^ prng) * 277803737u;
    return (float)((w >> 22 ^ w) & 0xffffff) / 16777216.f;
}

static void must(cudaError_t e)
{
    if (e != cudaSuccess) {
        fprintf(stderr, "cuda: %s\n", cudaGetErrorString(e));
        exit(1);
    }
}
static float *zeros(int n)
{
    float *p;
    must(cudaMalloc((void **)&p, sizeof(float) * n));
    must(cudaMemset(p, 0, sizeof(float) * n));
    return p;
}
static float *randoms(int n, float scale)
{
    float *p = zeros(n), *h = (float *)malloc(sizeof(float) * n);
    for (int i = 0; i < n; ++i)
        h[i] = scale * (2.f * draw() - 1.f);
    must(cudaMemcpy(p, h, sizeof(float) * n, cudaMemcpyHostToDevice));
    free(h);
    return p;
}

static void conv_create(struct conv *c, int in, int out, int len)
{
    int filters = out * K, weights = in * filters, cells = BATCH * out * (len - K + 1);
    c->in = in;
    c->out = out;
    c->len = len;
    c->w = randoms(weights, sqrtf(3.f / (in * K)));
    c->b = zeros(out);
    c->dw = zeros(weights);
    c->db = zeros(out);
    c->mw = zeros(weights);
    c->vw = zeros(weights);
    c->mb = zeros(out);
    c->vb = zeros(out);
    c->y = zeros(cells);
    c->dy = zeros(cells);
    DDP_PARAMETER(c->w, weights, DDP_FLOAT32);
    DDP_PARAMETER(c->b, out, DDP_FLOAT32);
    DDP_GRADIENT(c->dw, filters, DDP_FLOAT32);
    DDP_GRADIENT(c->db, out, DDP_FLOAT32);
}

__global__ void conv_forward(const float *x, const float *w, const float *b, float *y, int rows, int in, int out, int len)
{
    int olen = len - K + 1, t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= rows * out * olen)
        return;
    int p = t % olen, o = t / olen % out, r = t / olen / out;
    float s = b[o];
    for (int i = 0; i < in; ++i)
        for (int k = 0; k < K; ++k)
            s += w[(o * in + i) * K + k] * x[(r * in + i) * len + p + k];
    y[t] = s > 0.f ? s : 0.1f * s;
}
__global__ void leaky_back(float *dy, const float *y, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n && y[t] < 0.f)
        dy[t] *= 0.1f;
}
__global__ void conv_weights(const float *x, const float *dy, float *dw, float *db, int rows, int in, int out, int len)
{
    int olen = len - K + 1, t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= out * in * K)
        return;
    int k = t % K, i = t / K % in, o = t / K / in;
    float g = 0.f, gb = 0.f;
    for (int r = 0; r < rows; ++r)
        for (int p = 0; p < olen; ++p) {
            float d = dy[(r * out + o) * olen + p];
            g += d * x[(r * in + i) * len + p + k];
            gb += d;
        }
    dw[t] = g;
    if (i == 0 && k == 0)
        db[o] = gb;
}
__global__ void conv_inputs(const float *dy, const float *w, float *dx, int rows, int in, int out, int len)
{
    int olen = len - K + 1, t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= rows * in * len)
        return;
    int p = t % len, i = t / len % in, r = t / len / in;
    float g = 0.f;
    for (int o = 0; o < out; ++o)
        for (int k = 0; k < K; ++k)
            if (p - k >= 0 && p - k < olen)
                g += w[(o * in + i) * K + k] * dy[(r * out + o) * olen + p - k];
    dx[t] = g;
}
__global__ void pool_classify(const float *y, const float *w, const int *label, float *pooled, float *dz, float *dy,
                              float *loss, int rows, int ch, int len)
{
    int r = threadIdx.x;
    if (r >= rows)
        return;
    float z[CLASSES] = {0.f}, sum = 0.f;
    for (int c = 0; c < ch; ++c) {
        float s = 0.f;
        for (int p = 0; p < len; ++p)
            s += y[(r * ch + c) * len + p];
        pooled[r * ch + c] = s / len;
        for (int k = 0; k < CLASSES; ++k)
            z[k] += w[k * ch + c] * s / len;
    }
    for (int k = 0; k < CLASSES; ++k)
        sum += expf(z[k]);
    loss[r] = logf(sum) - z[label[r]];
    for (int k = 0; k < CLASSES; ++k)
        dz[r * CLASSES + k] = (expf(z[k]) / sum - (k == label[r] ? 1.f : 0.f)) / rows;
    for (int c = 0; c < ch; ++c) {
        float g = 0.f;
        for (int k = 0; k < CLASSES; ++k)
            g += dz[r * CLASSES + k] * w[k * ch + c] / len;
        for (int p = 0; p < len; ++p)
            dy[(r * ch + c) * len + p] = g;
    }
}
__global__ void classifier_weights(const float *pooled, const float *dz, float *dw, int rows, int ch)
{
    int t = threadIdx.x;
    float g = 0.f;
    for (int r = 0; r < rows; ++r)
        g += dz[r * CLASSES + t / ch] * pooled[r * ch + t % ch];
    dw[t] = g;
}
__global__ void adam(float *w, const float *g, float *m, float *v, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    m[i] += 0.1f * (g[i] - m[i]);
    v[i] += 0.02f * (g[i] * g[i] - v[i]);
    w[i] -= rate * m[i] / (sqrtf(v[i]) + 1e-4f);
}
static void conv_update(struct conv *c, float rate)
{
    int n = c->in * c->out * K;
    adam<<<(n + 63) / 64, 64>>>(c->w, c->dw, c->mw, c->vw, rate, n);
    adam<<<1, 64>>>(c->b, c->db, c->mb, c->vb, rate, c->out);
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60, s, i, p;
    static float data[WAVES][LEN], h[4096];
    static int labels[WAVES];
    struct conv c1, c2;
    for (i = 0; i < WAVES; ++i) {
        float f = 0.08f + 0.08f * draw(), phase = draw();
        labels[i] = (int)(3.f * draw()) % 3;
        for (p = 0; p < LEN; ++p) {
            float t = f * p + phase;
            t -= floorf(t);
            data[i][p] = (labels[i] == 0 ? sinf(6.2832f * t) : labels[i] == 1 ? (t < 0.5f ? 1.f : -1.f) : 2.f * t - 1.f) + 0.4f * (draw() - 0.5f);
        }
    }
    conv_create(&c1, 1, 6, LEN);
    conv_create(&c2, 6, 8, LEN - K + 1);
    const int len2 = LEN - 2 * K + 2, nw = CLASSES * 8;
    float *w = randoms(nw, 0.5f), *dw = zeros(nw), *m = zeros(nw), *v = zeros(nw), *x = zeros(BATCH * LEN),
          *pooled = zeros(BATCH * 8), *dz = zeros(BATCH * CLASSES), *loss = zeros(BATCH);
    int *y;
    must(cudaMalloc((void **)&y, BATCH * sizeof(int)));
    DDP_PARAMETER(w, nw, DDP_FLOAT32);
    DDP_GRADIENT(dw, nw, DDP_FLOAT32);
    for (s = 0; s < steps; ++s) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count, at = s * BATCH % WAVES + (int)first, n1 = n * 6 * c2.len, n2 = n * 8 * len2;
        must(cudaMemcpy(x, data[at], n * sizeof data[0], cudaMemcpyHostToDevice));
        must(cudaMemcpy(y, labels + at, n * sizeof(int), cudaMemcpyHostToDevice));
        conv_forward<<<(n1 + 127) / 128, 128>>>(x, c1.w, c1.b, c1.y, n, 1, 6, LEN);
        conv_forward<<<(n2 + 127) / 128, 128>>>(c1.y, c2.w, c2.b, c2.y, n, 6, 8, c2.len);
        pool_classify<<<1, 32>>>(c2.y, w, y, pooled, dz, c2.dy, loss, n, 8, len2);
        classifier_weights<<<1, nw>>>(pooled, dz, dw, n, 8);
        leaky_back<<<(n2 + 127) / 128, 128>>>(c2.dy, c2.y, n2);
        conv_weights<<<2, 128>>>(c1.y, c2.dy, c2.dw, c2.db, n, 6, 8, c2.len);
        conv_inputs<<<(n1 + 127) / 128, 128>>>(c2.dy, c2.w, c1.dy, n, 6, 8, c2.len);
        leaky_back<<<(n1 + 127) / 128, 128>>>(c1.dy, c1.y, n1);
        conv_weights<<<1, 128>>>(x, c1.dy, c1.dw, c1.db, n, 1, 6, LEN);
        DDP_STEP(0);
        conv_update(&c1, 0.02f);
        conv_update(&c2, 0.02f);
        adam<<<1, 64>>>(w, dw, m, v, 0.02f, nw);
        float mean = 0.f;
        must(cudaMemcpy(h, loss, n * sizeof(float), cudaMemcpyDeviceToHost));
        for (i = 0; i < n; ++i)
            mean += h[i] / n;
        DDP_MEAN_AS("loss", &mean);
        if (DDP_RANK() == 0 && s % 10 == 0)
            printf("%d: %.4f\n", s, mean);
    }
    must(cudaMemcpy(h, c1.w, 6 * K * 4, cudaMemcpyDeviceToHost));
    must(cudaMemcpy(h + 6 * K, c1.b, 6 * 4, cudaMemcpyDeviceToHost));
    must(cudaMemcpy(h + 6 * K + 6, c2.w, 48 * K * 4, cudaMemcpyDeviceToHost));
    must(cudaMemcpy(h + 54 * K + 6, c2.b, 8 * 4, cudaMemcpyDeviceToHost));
    must(cudaMemcpy(h + 54 * K + 14, w, nw * 4, cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(h, 4, 54 * K + 14 + nw, f);
        fclose(f);
    }
    return 0;
}
