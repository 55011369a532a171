// Differentially private training: each record's gradient is clipped by itself, noise goes into the averaged gradient.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ddprun.h"

#define RUN(x)                                                                     \
    if ((x) != cudaSuccess) {                                                      \
        fprintf(stderr, "line %d: %s\n", __LINE__, cudaGetErrorString(cudaPeekAtLastError())); \
        exit(1);                                                                   \
    }

enum { ATTR = 10, HIDE = 16, KINDS = 3, BATCH = 64, RECORDS = 640, STEPS = 60 };

struct Model {
    float w1[ATTR][HIDE];
    float b1[HIDE];
    float w2[HIDE][KINDS];
    float b2[KINDS];
};
static const int MODEL_N = (int)(sizeof(Model) / sizeof(float));

struct Settings {
    float clip, sigma, rate;
    unsigned key;
};

__host__ __device__ static unsigned hash2(unsigned a, unsigned b)
{
    unsigned x = a * 0x27d4eb2du + b * 0x165667b1u + 0x9e3779b9u;
    x ^= x >> 15;
    x *= 0x85ebca6bu;
    x ^= x >> 13;
    x *= 0xc2b2ae35u;
    return x ^ (x >> 16);
}

__host__ __device__ static float normalish(unsigned a, unsigned b)
{
    float s = 0.0f;
    for (unsigned k = 0; k < 6; ++k)
        s += (hash2(a, 6 * b + k) >> 8) / 16777216.0f;
    return (s - 3.0f) * 1.4142136f;
}

// One thread for each record: its own gradient in a row of `each`, and that gradient's norm.
__global__ void record_gradients(const Model *m, const float *x, const int *kind, Model *each, float *norm, float *loss, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n)
        return;
    float h[HIDE], p[KINDS], sum = 0.0f, top = -1e30f, norm2 = 0.0f;
    for (int j = 0; j < HIDE; ++j) {
        float s = m->b1[j];
        for (int k = 0; k < ATTR; ++k)
            s += x[r * ATTR + k] * m->w1[k][j];
        h[j] = tanhf(s);
    }
    for (int c = 0; c < KINDS; ++c) {
        p[c] = m->b2[c];
        for (int j = 0; j < HIDE; ++j)
            p[c] += h[j] * m->w2[j][c];
        top = fmaxf(top, p[c]);
    }
    for (int c = 0; c < KINDS; ++c)
        sum += expf(p[c] - top);
    loss[r] = top + logf(sum) - p[kind[r]];
    Model *g = each + r;
    for (int c = 0; c < KINDS; ++c) {
        p[c] = expf(p[c] - top) / sum - (c == kind[r] ? 1.0f : 0.0f);
        g->b2[c] = p[c];
        norm2 += p[c] * p[c];
    }
    for (int j = 0; j < HIDE; ++j) {
        float d = 0.0f;
        for (int c = 0; c < KINDS; ++c) {
            float e = h[j] * p[c];
            g->w2[j][c] = e;
            norm2 += e * e;
            d += p[c] * m->w2[j][c];
        }
        d *= 1.0f - h[j] * h[j];
        g->b1[j] = d;
        norm2 += d * d;
        for (int k = 0; k < ATTR; ++k) {
            float e = d * x[r * ATTR + k];
            g->w1[k][j] = e;
            norm2 += e * e;
        }
    }
    norm[r] = sqrtf(norm2);
}

__global__ void clipped_mean(const float *each, const float *norm, float *grad, Settings s, int n, int params)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= params)
        return;
    float sum = 0.0f;
    for (int r = 0; r < n; ++r)
        sum += each[(size_t)r * params + i] * fminf(1.0f, s.clip / (norm[r] + 1e-6f));
    grad[i] = sum / n;
}

__global__ void add_noise(float *grad, Settings s, int step, int params)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < params)
        grad[i] += s.sigma * s.clip / BATCH * normalish(s.key + step, i);
}

__global__ void adam(float *w, const float *g, float *m, float *v, Settings s, float c1, float c2, int params)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= params)
        return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
    w[i] -= s.rate * (m[i] / c1) / (sqrtf(v[i] / c2) + 1e-4f);
}

int main(int argc, char **argv)
{
    const Settings settings = {0.8f, 0.6f, 0.03f, 31415u};
    std::vector<float> x(RECORDS * ATTR), init(MODEL_N);
    std::vector<int> kind(RECORDS);
    for (int r = 0; r < RECORDS; ++r) {
        kind[r] = hash2(1, r) % KINDS;
        // a few outliers have large attributes
        float scale = hash2(2, r) % 9 == 0 ? 4.0f : 1.0f;
        for (int k = 0; k < ATTR; ++k)
            x[r * ATTR + k] = scale * (normalish(3, r * ATTR + k) * 0.8f + (k % KINDS == kind[r] ? 0.9f : 0.0f));
    }
    for (int i = 0; i < MODEL_N; ++i)
        init[i] = 0.3f * normalish(4, i);

    float *dx, *norm, *loss, *m1, *m2;
    int *dk;
    Model *model, *grad, *each;
    RUN(cudaMalloc(&dx, x.size() * sizeof(float)));
    RUN(cudaMalloc(&dk, kind.size() * sizeof(int)));
    RUN(cudaMalloc(&norm, BATCH * sizeof(float)));
    RUN(cudaMalloc(&loss, BATCH * sizeof(float)));
    RUN(cudaMalloc(&m1, sizeof(Model)));
    RUN(cudaMalloc(&m2, sizeof(Model)));
    RUN(cudaMalloc(&model, sizeof(Model)));
    RUN(cudaMalloc(&grad, sizeof(Model)));
    RUN(cudaMalloc(&each, BATCH * sizeof(Model)));
    RUN(cudaMemset(m1, 0, sizeof(Model)));
    RUN(cudaMemset(m2, 0, sizeof(Model)));
    RUN(cudaMemset(grad, 0, sizeof(Model)));
    RUN(cudaMemcpy(dx, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice));
    RUN(cudaMemcpy(dk, kind.data(), kind.size() * sizeof(int), cudaMemcpyHostToDevice));
    RUN(cudaMemcpy(model, init.data(), sizeof(Model), cudaMemcpyHostToDevice));
    DDP_PARAMETER(model, MODEL_N, DDP_FLOAT32);
    DDP_GRADIENT(grad, MODEL_N, DDP_FLOAT32);

    const int blocks = (MODEL_N + 63) / 64;
    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count, at = step * BATCH % RECORDS + (int)first;
        record_gradients<<<(n + 15) / 16, 16>>>(model, dx + at * ATTR, dk + at, each, norm, loss, n);
        clipped_mean<<<blocks, 64>>>((const float *)each, norm, (float *)grad, settings, n, MODEL_N);
        DDP_STEP(0);
        add_noise<<<blocks, 64>>>((float *)grad, settings, step, MODEL_N);
        adam<<<blocks, 64>>>((float *)model, (const float *)grad, m1, m2, settings, 1.0f - powf(0.9f, step + 1),
                             1.0f - powf(0.99f, step + 1), MODEL_N);
        if (step % 12 == 0 || step == STEPS - 1) {
            std::vector<float> l(n), q(n);
            RUN(cudaMemcpy(l.data(), loss, n * sizeof(float), cudaMemcpyDeviceToHost));
            RUN(cudaMemcpy(q.data(), norm, n * sizeof(float), cudaMemcpyDeviceToHost));
            float mean = 0.0f, clipped = 0.0f;
            for (int r = 0; r < n; ++r) {
                mean += l[r] / n;
                clipped += (q[r] > settings.clip) / (float)n;
            }
            DDP_MEAN_AS("loss", &mean);
            DDP_MEAN_AS("clipped", &clipped);
            if (DDP_RANK() == 0)
                printf("step %2d loss %.4f, %.0f %% clipped\n", step, mean, 100.0f * clipped);
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        std::vector<float> out(MODEL_N);
        RUN(cudaMemcpy(out.data(), model, sizeof(Model), cudaMemcpyDeviceToHost));
        FILE *f = fopen(argv[1], "wb");
        fwrite(out.data(), sizeof(float), out.size(), f);
        fclose(f);
    }
    return 0;
}
