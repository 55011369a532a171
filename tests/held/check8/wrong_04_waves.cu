// 1-D convolution, batch normalisation with statistics of the whole batch, ReLU, average pooling, linear classifier.
// Task: tell sine, square and saw-tooth waves of random phase apart.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <cuda_runtime.h>
#include "ddprun.h"

static void check(cudaError_t err, int line)
{
    if (err == cudaSuccess) return;
    fprintf(stderr, "CUDA error at line %d: %s\n", line, cudaGetErrorString(err));
    exit(EXIT_FAILURE);
}
#define CHECK(x) check((x), __LINE__)

constexpr int LEN = 28, TAPS = 5, OUT = LEN - TAPS + 1, CH = 10, CLASSES = 3;
constexpr int BATCH = 48, SAMPLES = 480, STEPS = 60;

struct Params {
    float *kernel, *gamma, *beta, *fc, *fcb;
};
static const int sizes[5] = {CH * TAPS, CH, CH, CH * CLASSES, CLASSES};

__global__ void conv(const float *x, const float *k, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * CH * OUT) return;
    int t = i % OUT, c = i / OUT % CH, b = i / (OUT * CH);
    float s = 0;
    for (int j = 0; j < TAPS; ++j) s += x[b * LEN + t + j] * k[c * TAPS + j];
    y[i] = s;
}

// Mean and variance of each channel over samples and positions.
__global__ void channel_moments(const float *y, float *mean, float *var, int n)
{
    int c = threadIdx.x;
    if (c >= CH) return;
    float s = 0, q = 0;
    for (int b = 0; b < n; ++b)
        for (int t = 0; t < OUT; ++t) s += y[(b * CH + c) * OUT + t];
    s /= n * OUT;
    for (int b = 0; b < n; ++b)
        for (int t = 0; t < OUT; ++t) {
            float d = y[(b * CH + c) * OUT + t] - s;
            q += d * d;
        }
    mean[c] = s;
    var[c] = q / (n * OUT);
}

__global__ void norm_pool(const float *y, const float *mean, const float *var, Params p, float *xhat, float *pool, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * CH) return;
    int c = i % CH;
    float inv = rsqrtf(var[c] + 1e-5f), s = 0;
    for (int t = 0; t < OUT; ++t) {
        float h = (y[i * OUT + t] - mean[c]) * inv;
        xhat[i * OUT + t] = h;
        s += fmaxf(p.gamma[c] * h + p.beta[c], 0.0f);
    }
    pool[i] = s / OUT;
}

__global__ void classify(const float *pool, Params p, const int *label, float *dlogit, float *loss, int n)
{
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= n) return;
    float z[CLASSES], m = -1e9f, s = 0;
    for (int k = 0; k < CLASSES; ++k) {
        z[k] = p.fcb[k];
        for (int c = 0; c < CH; ++c) z[k] += pool[b * CH + c] * p.fc[c * CLASSES + k];
        m = fmaxf(m, z[k]);
    }
    for (int k = 0; k < CLASSES; ++k) s += expf(z[k] - m);
    for (int k = 0; k < CLASSES; ++k)
        dlogit[b * CLASSES + k] = (expf(z[k] - m) / s - (k == label[b])) / n;
    loss[b] = m + logf(s) - z[label[b]];
}

__global__ void classify_grad(const float *pool, const float *dlogit, Params g, int n)
{
    int i = threadIdx.x;
    if (i >= CH * CLASSES) return;
    int c = i / CLASSES, k = i % CLASSES;
    float s = 0, sb = 0;
    for (int b = 0; b < n; ++b) {
        s += pool[b * CH + c] * dlogit[b * CLASSES + k];
        sb += dlogit[b * CLASSES + k];
    }
    g.fc[i] = s;
    if (c == 0) g.fcb[k] = sb;
}

// Gradient at the output of the normalisation (before gamma and beta).
__global__ void pool_back(const float *dlogit, const float *xhat, Params p, float *dz, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * CH * OUT) return;
    int c = i / OUT % CH, b = i / (OUT * CH);
    float d = 0;
    for (int k = 0; k < CLASSES; ++k) d += dlogit[b * CLASSES + k] * p.fc[c * CLASSES + k];
    dz[i] = p.gamma[c] * xhat[i] + p.beta[c] > 0 ? d / OUT : 0;
}

// sums[c] = sum of dz, sums[CH + c] = sum of dz * xhat: gradients of beta and gamma, and terms of the input gradient
__global__ void norm_sums(const float *dz, const float *xhat, float *sums, Params g, int n)
{
    int c = threadIdx.x;
    if (c >= CH) return;
    float s = 0, q = 0;
    for (int b = 0; b < n; ++b)
        for (int t = 0; t < OUT; ++t) {
            int i = (b * CH + c) * OUT + t;
            s += dz[i];
            q += dz[i] * xhat[i];
        }
    g.beta[c] = s;
    g.gamma[c] = q;
    sums[c] = s;
    sums[CH + c] = q;
}

__global__ void norm_conv_back(const float *x, const float *dz, const float *xhat, const float *var, const float *sums,
                               Params p, Params g, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= CH * TAPS) return;
    int c = i / TAPS, j = i % TAPS;
    float m = n * OUT, scale = p.gamma[c] * rsqrtf(var[c] + 1e-5f), acc = 0;
    for (int b = 0; b < n; ++b)
        for (int t = 0; t < OUT; ++t) {
            int e = (b * CH + c) * OUT + t;
            float dy = scale * (dz[e] - sums[c] / m - xhat[e] * sums[CH + c] / m);
            acc += dy * x[b * LEN + t + j];
        }
    g.kernel[i] = acc;
}

__global__ void momentum_sgd(float *w, float *v, const float *g, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    v[i] = 0.9f * v[i] + g[i];
    w[i] -= lr * v[i];
}

static float *zeros(size_t n)
{
    float *p;
    CHECK(cudaMalloc(&p, n * sizeof(float)));
    CHECK(cudaMemset(p, 0, n * sizeof(float)));
    return p;
}

static unsigned state = 4242;
static float rnd()
{
    state = state * 1103515245u + 12345u;
    return ((state >> 9) & 0x3fffff) / 4194304.0f;
}

int main(int argc, char **argv)
{
    std::vector<float> xs(SAMPLES * LEN);
    std::vector<int> ys(SAMPLES);
    for (int i = 0; i < SAMPLES; ++i) {
        ys[i] = (int)(rnd() * 3) % 3;
        float phase = rnd(), loud = 0.3f + 2.0f * rnd() * (i % 48 < 24 ? 1.0f : 0.4f), level = rnd() - 0.5f;
        for (int t = 0; t < LEN; ++t) {
            float u = phase + t / 9.0f;
            u -= floorf(u);
            float v = ys[i] == 0 ? sinf(6.2831853f * u) : ys[i] == 1 ? (u < 0.5f ? 1 : -1) : 2 * u - 1;
            xs[i * LEN + t] = loud * v + level + 0.1f * (rnd() - 0.5f);
        }
    }
    float *x = zeros(xs.size()), *y = zeros(BATCH * CH * OUT), *xhat = zeros(BATCH * CH * OUT);
    float *dz = zeros(BATCH * CH * OUT), *pool = zeros(BATCH * CH), *dlogit = zeros(BATCH * CLASSES);
    float *loss = zeros(BATCH), *mean = zeros(CH), *var = zeros(CH), *sums = zeros(2 * CH);
    int *label;
    CHECK(cudaMalloc(&label, SAMPLES * sizeof(int)));
    CHECK(cudaMemcpy(label, ys.data(), SAMPLES * sizeof(int), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(x, xs.data(), xs.size() * sizeof(float), cudaMemcpyHostToDevice));

    float *w[5], *g[5], *v[5];
    for (int k = 0; k < 5; ++k) {
        std::vector<float> init(sizes[k]);
        for (float &e : init) e = k == 1 ? 1.0f : k == 0 || k == 3 ? rnd() - 0.5f : 0.0f;
        w[k] = zeros(sizes[k]), g[k] = zeros(sizes[k]), v[k] = zeros(sizes[k]);
        CHECK(cudaMemcpy(w[k], init.data(), sizes[k] * sizeof(float), cudaMemcpyHostToDevice));
        DDP_PARAMETER(w[k], sizes[k], DDP_FLOAT32);
        DDP_GRADIENT(g[k], sizes[k], DDP_FLOAT32);
        DDP_STATE(v[k], sizes[k], DDP_FLOAT32);
    }
    Params p = {w[0], w[1], w[2], w[3], w[4]}, gp = {g[0], g[1], g[2], g[3], g[4]};

    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count, at = step * BATCH % SAMPLES + (int)first, cells = n * CH * OUT;
        const float *xb = x + at * LEN;
        conv<<<(cells + 127) / 128, 128>>>(xb, p.kernel, y, n);
        channel_moments<<<1, 32>>>(y, mean, var, n);
        DDP_REDUCE(mean, CH, DDP_FLOAT32, DDP_OP_MEAN, 0);
        DDP_REDUCE(var, CH, DDP_FLOAT32, DDP_OP_MEAN, 0);
        norm_pool<<<(n * CH + 63) / 64, 64>>>(y, mean, var, p, xhat, pool, n);
        classify<<<1, 64>>>(pool, p, label + at, dlogit, loss, n);
        classify_grad<<<1, 32>>>(pool, dlogit, gp, n);
        pool_back<<<(cells + 127) / 128, 128>>>(dlogit, xhat, p, dz, n);
        norm_sums<<<1, 32>>>(dz, xhat, sums, gp, n);
        DDP_REDUCE(sums, 2 * CH, DDP_FLOAT32, DDP_OP_MEAN, 0);
        norm_conv_back<<<1, 64>>>(xb, dz, xhat, var, sums, p, gp, n);
        DDP_STEP(0);
        for (int k = 0; k < 5; ++k) momentum_sgd<<<1, 64>>>(w[k], v[k], g[k], sizes[k], 0.1f);
        if (step % 15 == 0 || step == STEPS - 1) {
            std::vector<float> l(n);
            CHECK(cudaMemcpy(l.data(), loss, n * sizeof(float), cudaMemcpyDeviceToHost));
            float m = 0;
            for (float e : l) m += e / n;
            DDP_MEAN_AS("loss", &m);
            if (DDP_RANK() == 0) printf("step %d: loss %.4f\n", step, m);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        for (int k = 0; k < 5; ++k) {
            std::vector<float> out(sizes[k]);
            CHECK(cudaMemcpy(out.data(), w[k], sizes[k] * sizeof(float), cudaMemcpyDeviceToHost));
            fwrite(out.data(), sizeof(float), out.size(), f);
        }
        fclose(f);
    }
    return 0;
}
