// Sharpness-aware minimisation of a small tanh network on two spirals.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

static const int H = 32, F = 6, B = 32, N = 320, P = F * H + H + H + 1; // W1, b1, w2, b2
static const float RHO = 0.15f, LR = 0.3f;

static void cuda(cudaError_t e, const char *where)
{
    if (e == cudaSuccess) return;
    fprintf(stderr, "%s: %s\n", where, cudaGetErrorString(e));
    exit(1);
}

__global__ void forward(const float *w, const float *x, const float *t, float *h, float *e, float *loss, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float z = w[P - 1];
    for (int j = 0; j < H; ++j) {
        float s = w[F * H + j];
        for (int k = 0; k < F; ++k) s += x[r * F + k] * w[k * H + j];
        h[r * H + j] = tanhf(s);
        z += h[r * H + j] * w[F * H + H + j];
    }
    float p = 1.0f / (1.0f + expf(-z));
    e[r] = (p - t[r]) / rows;
    loss[r] = -logf(t[r] > 0.5f ? p + 1e-7f : 1 - p + 1e-7f);
}

__global__ void backward(const float *w, const float *x, const float *h, const float *e, float *g, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= P) return;
    float s = 0;
    for (int r = 0; r < rows; ++r) {
        if (i == P - 1) { s += e[r]; continue; }
        int j = i < F * H ? i % H : i < F * H + H ? i - F * H : i - F * H - H;
        float a = h[r * H + j];
        if (i >= F * H + H) s += e[r] * a;
        else s += e[r] * w[F * H + H + j] * (1 - a * a) * (i < F * H ? x[r * F + i / H] : 1.0f);
    }
    g[i] = s;
}

__global__ void norm(const float *g, float *out)
{
    __shared__ float part[64];
    float s = 0;
    for (int i = threadIdx.x; i < P; i += 64) s += g[i] * g[i];
    part[threadIdx.x] = s;
    __syncthreads();
    for (int k = 32; k > 0; k /= 2) {
        if (threadIdx.x < k) part[threadIdx.x] += part[threadIdx.x + k];
        __syncthreads();
    }
    if (threadIdx.x == 0) *out = sqrtf(part[0]);
}

__global__ void climb(const float *w, const float *g, const float *len, float *up)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < P) up[i] = w[i] + RHO * g[i] / (*len + 1e-12f);
}

__global__ void descend(float *w, const float *g, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < P) w[i] -= lr * g[i];
}

struct Trainer {
    float *w, *g, *up, *gup, *len, *x, *t, *h, *e, *loss;

    Trainer(const std::vector<float> &init)
    {
        float **small[] = {&w, &g, &up, &gup};
        for (float **p : small) cuda(cudaMalloc(p, P * 4), "parameters");
        cuda(cudaMalloc(&len, 4), "length");
        cuda(cudaMalloc(&x, B * F * 4), "inputs");
        cuda(cudaMalloc(&h, B * H * 4), "hidden");
        float **rows[] = {&t, &e, &loss};
        for (float **p : rows) cuda(cudaMalloc(p, B * 4), "rows");
        cuda(cudaMemcpy(w, init.data(), P * 4, cudaMemcpyHostToDevice), "init");
        DDP_PARAMETER(w, P, DDP_FLOAT32);
        DDP_GRADIENT(gup, P, DDP_FLOAT32);
    }

    void gradient(const float *at, float *into, int rows)
    {
        forward<<<1, B>>>(at, x, t, h, e, loss, rows);
        backward<<<(P + 63) / 64, 64>>>(at, x, h, e, into, rows);
    }

    float step(const float *hx, const float *ht, int rows)
    {
        std::vector<float> l(rows);
        cuda(cudaMemcpy(x, hx, rows * F * 4, cudaMemcpyHostToDevice), "x");
        cuda(cudaMemcpy(t, ht, rows * 4, cudaMemcpyHostToDevice), "t");
        gradient(w, g, rows);
        cuda(cudaMemcpy(l.data(), loss, rows * 4, cudaMemcpyDeviceToHost), "loss");
        norm<<<1, 64>>>(g, len);
        climb<<<(P + 63) / 64, 64>>>(w, g, len, up);
        gradient(up, gup, rows);
        DDP_STEP(0);
        descend<<<(P + 63) / 64, 64>>>(w, gup, LR);
        float mean = 0;
        for (float v : l) mean += v / rows;
        return mean;
    }
};

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 80;
    unsigned s = 0xabcdef01u;
    auto rnd = [&s]() { s ^= s << 13; s ^= s >> 17; s ^= s << 5; return (s >> 8) / 8388608.0f - 1; };
    std::vector<float> x(N * F), t(N), init(P);
    for (int i = 0; i < N; ++i) {
        float r = 0.2f + 0.8f * fabsf(rnd()), a = 4.0f * r + (i % 2) * 3.14159265f + 0.15f * rnd();
        float px = r * cosf(a), py = r * sinf(a);
        float f[F] = {2 * px, 2 * py, 4 * px * py, px * px - py * py, sinf(3 * px), sinf(3 * py)};
        for (int k = 0; k < F; ++k) x[i * F + k] = f[k];
        t[i] = (float)(i % 2);
    }
    for (float &v : init) v = 0.6f * rnd();
    Trainer trainer(init);
    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(B, &first, &count);
        size_t at = (size_t)step * B % N + first;
        float loss = trainer.step(&x[at * F], &t[at], (int)count);
        DDP_MEAN(&loss);
        if (step % 10 == 0 && DDP_RANK() == 0) printf("step %d: %.4f\n", step, loss);
    }
    cuda(cudaMemcpy(init.data(), trainer.w, P * 4, cudaMemcpyDeviceToHost), "result");
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(init.data(), 4, P, f);
        fclose(f);
    }
    return 0;
}
