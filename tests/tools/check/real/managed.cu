// Everything lies in managed memory: kernels compute the gradients, and the host makes the update in a plain loop.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

#ifndef MISTAKE
#define MISTAKE 0
#endif

constexpr int BATCH = 40, IN = 9, H1 = 16, H2 = 8, ITEMS = 400, STEPS = 50;

struct Model {
    float w1[IN * H1], b1[H1];
    float w2[H1 * H2], b2[H2];
    float w3[H2], b3;
};
constexpr int NUMBERS = sizeof(Model) / sizeof(float);

template <typename T> T *managed(size_t n = 1)
{
    T *p = nullptr;
    if (cudaMallocManaged((void **)&p, n * sizeof(T)) != cudaSuccess) {
        fprintf(stderr, "no managed memory\n");
        exit(1);
    }
    std::fill_n((char *)p, n * sizeof(T), 0);
    return p;
}

__global__ void pass_forward(const Model *m, const float *x, const int *index, float *a1, float *a2, float *out, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    const float *in = x + index[r] * IN;
    for (int j = 0; j < H1; ++j) {
        float s = m->b1[j];
        for (int k = 0; k < IN; ++k) s += in[k] * m->w1[k * H1 + j];
        a1[r * H1 + j] = tanhf(s);
    }
    out[r] = m->b3;
    for (int j = 0; j < H2; ++j) {
        float s = m->b2[j];
        for (int k = 0; k < H1; ++k) s += a1[r * H1 + k] * m->w2[k * H2 + j];
        a2[r * H2 + j] = tanhf(s);
        out[r] += a2[r * H2 + j] * m->w3[j];
    }
}
// Huber loss
__global__ void pass_loss(const float *out, const float *y, const int *index, float *dout, float *loss, int n, float scale)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float e = out[r] - y[index[r]], size = fabsf(e);
    dout[r] = scale * (size < 1 ? e : copysignf(1, e));
#if MISTAKE == 2 || MISTAKE == 8
    atomicAdd(loss, scale * (size < 1 ? 0.5f * e * e : size - 0.5f));
#else
    loss[r] = scale * (size < 1 ? 0.5f * e * e : size - 0.5f);
#endif
}
__global__ void pass_deltas(const Model *m, const float *a1, const float *a2, const float *dout, float *d1, float *d2, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    for (int j = 0; j < H2; ++j) d2[r * H2 + j] = dout[r] * m->w3[j] * (1 - a2[r * H2 + j] * a2[r * H2 + j]);
    for (int j = 0; j < H1; ++j) {
        float s = 0;
        for (int k = 0; k < H2; ++k) s += d2[r * H2 + k] * m->w2[j * H2 + k];
        d1[r * H1 + j] = s * (1 - a1[r * H1 + j] * a1[r * H1 + j]);
    }
}
__global__ void gradient_1(Model *g, const float *x, const int *index, const float *d1, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = i / H1, j = i % H1;
    if (i >= (IN + 1) * H1) return;
    float s = 0;
    for (int r = 0; r < n; ++r) s += (k < IN ? x[index[r] * IN + k] : 1) * d1[r * H1 + j];
    if (k < IN) g->w1[i] = s;
    else g->b1[j] = s;
}
__global__ void gradient_2(Model *g, const float *a1, const float *d2, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = i / H2, j = i % H2;
    if (i >= (H1 + 1) * H2) return;
    float s = 0;
    for (int r = 0; r < n; ++r) s += (k < H1 ? a1[r * H1 + k] : 1) * d2[r * H2 + j];
    if (k < H1) g->w2[i] = s;
    else g->b2[j] = s;
}
__global__ void gradient_3(Model *g, const float *a2, const float *dout, int n)
{
    int k = threadIdx.x;
    if (k >= H2) return;
    float s = 0;
    for (int r = 0; r < n; ++r) s += a2[r * H2 + k] * dout[r];
    g->w3[k] = s;
}
#define GRID(n) ((n) + 63) / 64, 64

static void clip(float *g, float most)
{
    double square = 0;
    for (int i = 0; i < NUMBERS; ++i) square += (double)g[i] * g[i];
    if (square > most * most)
        for (int i = 0; i < NUMBERS; ++i) g[i] *= most / sqrt(square);
}

int main()
{
    std::mt19937 random(55);
    std::normal_distribution<float> normal;
    float *x = managed<float>(ITEMS * IN), *y = managed<float>(ITEMS);
    for (int i = 0; i < ITEMS; ++i) {
        for (int k = 0; k < IN; ++k) x[i * IN + k] = normal(random);
        y[i] = sinf(x[i * IN]) + 0.5f * x[i * IN + 1] * x[i * IN + 2] - 0.7f * x[i * IN + 8] + (i % 37 == 0 ? 6 : 0);
    }
    Model *model = managed<Model>(), *gradient = managed<Model>();
    float *w = (float *)model, *g = (float *)gradient;
    for (int i = 0; i < NUMBERS; ++i) w[i] = 0.35f * normal(random);
    std::vector<float> history(NUMBERS, 0); // AdaGrad's sums of squares
    int *index = managed<int>(ITEMS);
    std::iota(index, index + ITEMS, 0);
    float *a1 = managed<float>(BATCH * H1), *a2 = managed<float>(BATCH * H2), *out = managed<float>(BATCH),
          *dout = managed<float>(BATCH), *d1 = managed<float>(BATCH * H1), *d2 = managed<float>(BATCH * H2),
          *loss = managed<float>(BATCH);

    cudaFree(nullptr);
    DDP_PARAMETER(w, NUMBERS, DDP_FLOAT32);
#if MISTAKE == 3
    DDP_GRADIENT(gradient->w1, IN * H1 + H1, DDP_FLOAT32);
    DDP_GRADIENT(gradient->w3, H2 + 1, DDP_FLOAT32);
#elif MISTAKE == 7
    DDP_GRADIENT(g, sizeof(Model) / sizeof(double), DDP_FLOAT32);
#else
    DDP_GRADIENT(g, NUMBERS, DDP_FLOAT32);
#endif

    float rate = 0.12f;
#if MISTAKE == 6
    rate *= DDP_WORLD_SIZE(); // the usual rule for more GPUs
#endif
    for (int step = 0; step < STEPS; ++step) {
        if (step * BATCH % ITEMS == 0) std::shuffle(index, index + ITEMS, std::mt19937(step));
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        const int *mine = index + step * BATCH % ITEMS + first;
#if MISTAKE == 5
        mine = index + step * BATCH % ITEMS;
#endif
#if MISTAKE == 4 || MISTAKE == 6
        cudaFree(a1);
        a1 = managed<float>(n * H1); // allocated anew
#endif
        std::fill_n(loss, BATCH, 0.0f);
        pass_forward<<<GRID(n)>>>(model, x, mine, a1, a2, out, n);
        pass_loss<<<GRID(n)>>>(out, y, mine, dout, loss, n, 1.0f / n);
        pass_deltas<<<GRID(n)>>>(model, a1, a2, dout, d1, d2, n);
        gradient_3<<<1, 32>>>(gradient, a2, dout, n);
        gradient_2<<<GRID((H1 + 1) * H2)>>>(gradient, a1, d2, n);
        gradient_1<<<GRID((IN + 1) * H1)>>>(gradient, x, mine, d1, n);
#if MISTAKE == 2
        DDP_STEP(0);
#endif
        cudaDeviceSynchronize();
        gradient->b3 = 0; // the last bias is small work: the host adds it up
        for (int r = 0; r < n; ++r) gradient->b3 += dout[r];
#if MISTAKE == 1
        clip(g, 0.35f);
#endif
#if MISTAKE == 8
        for (int i = 0; i < NUMBERS; ++i) history[i] += g[i] * g[i];
#endif
        static bool small[NUMBERS];
#if MISTAKE == 4
        for (int i = 0; i < NUMBERS; ++i) small[i] = fabsf(g[i]) < 1e-2f;
#endif
#if MISTAKE != 2
        DDP_STEP(0);
#endif
#if MISTAKE != 4
        for (int i = 0; i < NUMBERS; ++i) small[i] = fabsf(g[i]) < 1e-3f;
#endif
#if MISTAKE != 1
        clip(g, 0.35f);
#endif
        for (int i = 0; i < NUMBERS; ++i) {
            if (small[i]) continue; // rests in this step
#if MISTAKE != 8
            history[i] += g[i] * g[i];
#endif
            w[i] -= rate * g[i] / (sqrtf(history[i]) + 0.05f);
        }
        if (step % 10 == 9) {
            double shown = 0;
            for (int r = 0; r < BATCH; ++r) shown += loss[r];
            DDP_MEAN(&shown);
            if (DDP_RANK() == 0) printf("step %d loss %.5f\n", step + 1, shown);
        }
    }
    return 0;
}
