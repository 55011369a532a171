// Classifier with normalisation over the batch. Statistics are kept as sums and sums of squares; running estimates for
// inference are kept beside them. The last batch of an epoch is a short one.
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#include "ddprun.h"

static const int IN = 14, HID = 26, CLS = 4, BATCH = 40, ROWS = 410;

#define GO(x)                                                              \
    do {                                                                   \
        if ((x) != cudaSuccess) {                                          \
            fprintf(stderr, "%s:%d: failed\n", __FILE__, __LINE__);        \
            exit(1);                                                       \
        }                                                                  \
    } while (0)

__global__ void linear(const float *x, const float *w, float *y, int n, int in, int out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * out)
        return;
    float s = 0;
    for (int k = 0; k < in; ++k)
        s += x[t / out * in + k] * w[k * out + t % out];
    y[t] = s;
}

// pair[c] = sum a, pair[HID + c] = sum a * b, over the rows
__global__ void columnPair(const float *a, const float *b, float *pair, int n)
{
    int c = threadIdx.x;
    float s = 0, q = 0;
    for (int i = 0; i < n; ++i) {
        s += a[i * HID + c];
        q += a[i * HID + c] * b[i * HID + c];
    }
    pair[c] = s;
    pair[HID + c] = q;
}

struct Norm {
    float *scale, *shift, *dscale, *dshift;
    float *pair, *back, *runMean, *runVar, *xhat;
};

__global__ void normalise(Norm b, const float *z, float *h, int n, int total)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * HID)
        return;
    int c = t % HID;
    float mean = b.pair[c] / total, var = b.pair[HID + c] / total - mean * mean;
    b.xhat[t] = (z[t] - mean) * rsqrtf(var + 1e-4f);
    h[t] = fmaxf(b.scale[c] * b.xhat[t] + b.shift[c], 0.0f);
}

__global__ void follow(Norm b, int total)
{
    int c = threadIdx.x;
    float mean = b.pair[c] / total;
    b.runMean[c] += 0.1f * (mean - b.runMean[c]);
    b.runVar[c] += 0.1f * (b.pair[HID + c] / total - mean * mean - b.runVar[c]);
}

__global__ void loss(float *z, const int *label, float *each, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float *r = z + i * CLS, top = -1e30f, sum = 0;
    for (int c = 0; c < CLS; ++c)
        top = fmaxf(top, r[c]);
    for (int c = 0; c < CLS; ++c)
        sum += expf(r[c] - top);
    each[i] = logf(sum) + top - r[label[i]];
    for (int c = 0; c < CLS; ++c)
        r[c] = (expf(r[c] - top) / sum - (c == label[i])) / n;
}

__global__ void hiddenGradient(const float *dz, const float *w, const float *h, float *dh, int n)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * HID)
        return;
    float s = 0;
    for (int c = 0; c < CLS; ++c)
        s += dz[t / HID * CLS + c] * w[t % HID * CLS + c];
    dh[t] = h[t] > 0 ? s : 0;
}

__global__ void normGradient(Norm b)
{
    int c = threadIdx.x;
    b.dshift[c] = b.back[c];
    b.dscale[c] = b.back[HID + c];
}

// dh becomes the gradient of z; back holds means of the row sums, each row being a part of its mean loss
__global__ void throughNorm(Norm b, float *dh, int n, int total)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * HID)
        return;
    int c = t % HID;
    float mean = b.pair[c] / total, var = b.pair[HID + c] / total - mean * mean;
    dh[t] = b.scale[c] * rsqrtf(var + 1e-4f) * (dh[t] - (b.back[c] + b.xhat[t] * b.back[HID + c]) / n);
}

__global__ void weightGradient(const float *x, const float *dy, float *g, int n, int in, int out)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= in * out)
        return;
    float s = 0;
    for (int i = 0; i < n; ++i)
        s += x[i * in + t / out] * dy[i * out + t % out];
    g[t] = s;
}

__global__ void sgd(float *w, const float *g, int n, float lr)
{
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n)
        w[t] -= lr * g[t];
}

static unsigned word = 99;
static float rnd()
{
    word = word * 22695477u + 1u;
    return (word >> 8) / 8388608.0f - 1;
}

static float *fresh(int n, float value, float scale)
{
    float *p;
    std::vector<float> v(n);
    for (float &e : v)
        e = value + (scale != 0 ? scale * rnd() : 0);
    GO(cudaMalloc(&p, n * sizeof(float)));
    GO(cudaMemcpy(p, v.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    return p;
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    std::vector<float> hx(ROWS * IN), centre(CLS * IN);
    std::vector<int> hl(ROWS);
    for (float &c : centre)
        c = 1.5f * rnd();
    for (int i = 0; i < ROWS; ++i) {
        hl[i] = (int)((rnd() + 1) * 0.5f * CLS) % CLS;
        float side = rnd() > 0 ? 1.0f : -1.0f;
        for (int k = 0; k < IN; ++k)
            hx[i * IN + k] = 3 + side * centre[hl[i] * IN + k] + rnd() * (k + 1) * 0.2f;
    }
    float *x = fresh(ROWS * IN, 0, 0), *w1 = fresh(IN * HID, 0, 0.4f), *w2 = fresh(HID * CLS, 0, 0.3f);
    float *g1 = fresh(IN * HID, 0, 0), *g2 = fresh(HID * CLS, 0, 0);
    float *z = fresh(BATCH * HID, 0, 0), *h = fresh(BATCH * HID, 0, 0), *dh = fresh(BATCH * HID, 0, 0);
    float *logits = fresh(BATCH * CLS, 0, 0), *each = fresh(BATCH, 0, 0);
    Norm b;
    b.scale = fresh(HID, 1, 0);
    b.shift = fresh(HID, 0, 0);
    b.dscale = fresh(HID, 0, 0);
    b.dshift = fresh(HID, 0, 0);
    b.pair = fresh(2 * HID, 0, 0);
    b.back = fresh(2 * HID, 0, 0);
    b.runMean = fresh(HID, 0, 0);
    b.runVar = fresh(HID, 1, 0);
    b.xhat = fresh(BATCH * HID, 0, 0);
    int *label;
    GO(cudaMalloc(&label, ROWS * sizeof(int)));
    GO(cudaMemcpy(x, hx.data(), hx.size() * sizeof(float), cudaMemcpyHostToDevice));
    GO(cudaMemcpy(label, hl.data(), ROWS * sizeof(int), cudaMemcpyHostToDevice));

    struct Entry {
        float *w, *g;
        int n;
    } entries[] = {{w1, g1, IN * HID}, {w2, g2, HID * CLS}, {b.scale, b.dscale, HID}, {b.shift, b.dshift, HID}};
    for (const Entry &e : entries) {
        DDP_PARAMETER(e.w, e.n, DDP_FLOAT32);
        DDP_GRADIENT(e.g, e.n, DDP_FLOAT32);
    }

    int row = 0;
    for (int step = 0; step < steps; ++step) {
        int total = ROWS - row < BATCH ? ROWS - row : BATCH;
        size_t first, count;
        DDP_SHARD(total, &first, &count);
        int n = (int)count, wide = (n * HID + 63) / 64;
        const float *in = x + (row + first) * IN;

        linear<<<wide, 64>>>(in, w1, z, n, IN, HID);
        columnPair<<<1, HID>>>(z, z, b.pair, n);
        DDP_REDUCE(b.pair, 2 * HID, DDP_FLOAT32, DDP_OP_SUM, 0);
        normalise<<<wide, 64>>>(b, z, h, n, total);
        follow<<<1, HID>>>(b, total);
        linear<<<(n * CLS + 63) / 64, 64>>>(h, w2, logits, n, HID, CLS);
        loss<<<(n + 31) / 32, 32>>>(logits, label + row + first, each, n);

        weightGradient<<<(HID * CLS + 63) / 64, 64>>>(h, logits, g2, n, HID, CLS);
        hiddenGradient<<<wide, 64>>>(logits, w2, h, dh, n);
        columnPair<<<1, HID>>>(dh, b.xhat, b.back, n);
        normGradient<<<1, HID>>>(b);
        DDP_REDUCE(b.back, 2 * HID, DDP_FLOAT32, DDP_OP_MEAN, 0);
        throughNorm<<<wide, 64>>>(b, dh, n, total);
        weightGradient<<<(IN * HID + 63) / 64, 64>>>(in, dh, g1, n, IN, HID);

        DDP_STEP(0);
        for (const Entry &e : entries)
            sgd<<<(e.n + 63) / 64, 64>>>(e.w, e.g, e.n, 0.25f);
        row = row + total == ROWS ? 0 : row + total;

        if (step % 10 == 0 || step == steps - 1) {
            std::vector<float> l(n);
            GO(cudaMemcpy(l.data(), each, n * sizeof(float), cudaMemcpyDeviceToHost));
            float mean = 0;
            for (float v : l)
                mean += v / n;
            DDP_MEAN_AS("loss", &mean);
            if (DDP_RANK() == 0)
                printf("step %d: loss %.4f\n", step, mean);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        for (const Entry &e : entries) {
            std::vector<float> v(e.n);
            GO(cudaMemcpy(v.data(), e.w, e.n * sizeof(float), cudaMemcpyDeviceToHost));
            fwrite(v.data(), sizeof(float), v.size(), f);
        }
        fclose(f);
    }
    return 0;
}
