// One-dimensional convolution over pulses; batches of changing size, each in two passes whose gradients add up.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

#define LEN 40
#define FILTERS 12
#define WIDTH 7
#define OUTLEN (LEN - WIDTH + 1)
#define POOLS 2
#define CLASSES 4
#define SIGNALS 600
#define MOST 24
#define NCONV (FILTERS * WIDTH + FILTERS)
#define NDENSE (FILTERS * POOLS * CLASSES + CLASSES)
#define NALL (NCONV + NDENSE)

static void fail_if(cudaError_t e, int line)
{
    if (e != cudaSuccess) {
        printf("line %d: %s\n", line, cudaGetErrorString(e));
        exit(1);
    }
}
#define C(e) fail_if((e), __LINE__)

__global__ void convolve(const float *x, const float *w, float *act, int n)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= n * FILTERS * OUTLEN) return;
    int i = id / (FILTERS * OUTLEN), f = id / OUTLEN % FILTERS, t = id % OUTLEN;
    float s = w[FILTERS * WIDTH + f];
    for (int k = 0; k < WIDTH; ++k) s += x[i * LEN + t + k] * w[f * WIDTH + k];
    act[id] = s > 0 ? s : 0.1f * s;
}

__global__ void pool(const float *act, float *p, int n)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id >= n * FILTERS * POOLS) return;
    int row = id / POOLS, half = id % POOLS, size = OUTLEN / POOLS;
    float s = 0;
    for (int t = 0; t < size; ++t) s += act[row * OUTLEN + half * size + t];
    p[id] = s / size;
}

__global__ void classify(const float *p, const float *w, const int *label, float *dz, float *loss, int n)
{
    int i = threadIdx.x;
    if (i >= n) return;
    const int in = FILTERS * POOLS;
    float z[CLASSES], s = 0;
    for (int c = 0; c < CLASSES; ++c) {
        z[c] = w[in * CLASSES + c];
        for (int k = 0; k < in; ++k) z[c] += p[i * in + k] * w[k * CLASSES + c];
        s += expf(z[c]);
    }
    for (int c = 0; c < CLASSES; ++c) dz[i * CLASSES + c] = expf(z[c]) / s - (label[i] == c);
    loss[i] = logf(s) - z[label[i]];
}

__global__ void add_dense(const float *p, const float *dz, float *g, int n)
{
    int id = threadIdx.x;
    if (id >= NDENSE) return;
    const int in = FILTERS * POOLS;
    int k = id / CLASSES, c = id % CLASSES;
    float s = 0;
    for (int i = 0; i < n; ++i) s += (k < in ? p[i * in + k] : 1.0f) * dz[i * CLASSES + c];
    g[id] += s;
}

__global__ void add_conv(const float *x, const float *act, const float *dz, const float *dense, float *g, int n)
{
    int id = threadIdx.x;
    if (id >= NCONV) return;
    int f = id < FILTERS * WIDTH ? id / WIDTH : id - FILTERS * WIDTH, size = OUTLEN / POOLS;
    float sum = 0;
    for (int i = 0; i < n; ++i)
        for (int half = 0; half < POOLS; ++half) {
            float d = 0;
            for (int c = 0; c < CLASSES; ++c) d += dz[i * CLASSES + c] * dense[(f * POOLS + half) * CLASSES + c];
            d /= size;
            for (int t = half * size; t < (half + 1) * size; ++t) {
                float slope = act[(i * FILTERS + f) * OUTLEN + t] > 0 ? 1.0f : 0.1f;
                sum += d * slope * (id < FILTERS * WIDTH ? x[i * LEN + t + id % WIDTH] : 1.0f);
            }
        }
    g[id] += sum;
}

__global__ void divide(float *g, float by)
{
    int i = threadIdx.x;
    if (i < NALL) g[i] /= by;
}

__global__ void sgd(float *w, float *v, const float *g)
{
    int i = threadIdx.x;
    if (i < NALL) {
        v[i] = 0.9f * v[i] + g[i];
        w[i] -= 0.1f * v[i];
    }
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    unsigned s = 1u;
    auto rnd = [&s]() { s = s * 22695477u + 1u; return (s >> 8) / 8388608.0f - 1.0f; };
    std::vector<float> signal(SIGNALS * LEN), host(NALL);
    std::vector<int> label(SIGNALS);
    for (int i = 0; i < SIGNALS; ++i) {
        label[i] = i * 3 % CLASSES;
        int at = 4 + (int)((rnd() + 1) * 12);
        for (int t = 0; t < LEN; ++t) {
            float d = (float)(t - at);
            float shape = label[i] == 0 ? expf(-d * d / 4) : label[i] == 1 ? -expf(-d * d / 4) : label[i] == 2 ? d * expf(-d * d / 8) * 0.6f : sinf(2.2f * d) * expf(-d * d / 30);
            signal[i * LEN + t] = 2 * shape + 0.3f * rnd();
        }
    }
    for (float &v : host) v = 0.4f * rnd();
    float *w, *g, *v, *x, *act, *p, *dz, *loss;
    int *lab;
    C(cudaMalloc(&w, NALL * 4)); C(cudaMalloc(&g, NALL * 4)); C(cudaMalloc(&v, NALL * 4));
    C(cudaMalloc(&x, MOST * LEN * 4)); C(cudaMalloc(&act, MOST * FILTERS * OUTLEN * 4));
    C(cudaMalloc(&p, MOST * FILTERS * POOLS * 4)); C(cudaMalloc(&dz, MOST * CLASSES * 4));
    C(cudaMalloc(&loss, MOST * 4)); C(cudaMalloc(&lab, MOST * 4));
    C(cudaMemset(v, 0, NALL * 4));
    C(cudaMemcpy(w, host.data(), NALL * 4, cudaMemcpyHostToDevice));
    DDP_PARAMETER(w, NALL, DDP_FLOAT32);
    DDP_GRADIENT(g, NALL, DDP_FLOAT32);

    size_t cursor = 0;
    for (int step = 0; step < steps; ++step) {
        const size_t pass_size[2] = {(size_t)(13 + step % 4 * 2), (size_t)(7 + step % 3)};
        float own = 0, total = 0, nll = 0;
        C(cudaMemset(g, 0, NALL * 4));
        for (size_t size : pass_size) {
            size_t first, count;
            if (cursor + size > SIGNALS) cursor = 0;
            DDP_SHARD(size, &first, &count);
            DDP_WEIGHT(count, size);
            int n = (int)count;
            C(cudaMemcpy(x, &signal[(cursor + first) * LEN], count * LEN * 4, cudaMemcpyHostToDevice));
            C(cudaMemcpy(lab, &label[cursor + first], count * 4, cudaMemcpyHostToDevice));
            convolve<<<(n * FILTERS * OUTLEN + 127) / 128, 128>>>(x, w, act, n);
            pool<<<(n * FILTERS * POOLS + 127) / 128, 128>>>(act, p, n);
            classify<<<1, MOST>>>(p, w + NCONV, lab, dz, loss, n);
            add_dense<<<1, 128>>>(p, dz, g + NCONV, n);
            add_conv<<<1, 128>>>(x, act, dz, w + NCONV, g, n);
            std::vector<float> l(count);
            C(cudaMemcpy(l.data(), loss, count * 4, cudaMemcpyDeviceToHost));
            for (float e : l) nll += e;
            own += (float)count;
            total += (float)size;
            cursor += size;
        }
        divide<<<1, 256>>>(g, own);
        DDP_STEP(0);
        sgd<<<1, 256>>>(w, v, g);
        nll *= DDP_WORLD_SIZE() / total;
        DDP_MEAN_AS("loss", &nll);
        if (step % 10 == 0 && DDP_RANK() == 0) printf("step %d loss %.4f (%g signals)\n", step, nll, total);
    }
    C(cudaMemcpy(host.data(), w, NALL * 4, cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(host.data(), 4, NALL, f);
        fclose(f);
    }
    return 0;
}
