// Looks for a flat minimum (SAM): each step first climbs to w + radius * g / |g|, takes the gradient there, comes back
// and descends by that gradient. The model is a single hidden layer for two interleaved spirals.
#include <cuda_runtime.h>
#include <ddprun.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace flatmin {

constexpr int H = 16;

// All weights in one struct, so that the optimizer sees one flat array.
struct Weights {
    float in[H][2], bias[H], out[H], offset;
};
constexpr int COUNT = sizeof(Weights) / sizeof(float);

struct Sample { float x, y, sign; };

__global__ void forward(const Weights *w, const Sample *s, float (*hidden)[H], float *slope, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float z = w->offset;
    for (int h = 0; h < H; ++h) {
        float a = sinf(w->in[h][0] * s[i].x + w->in[h][1] * s[i].y + w->bias[h]);
        hidden[i][h] = a;
        z += a * w->out[h];
    }
    float margin = s[i].sign * z;
    loss[i] = log1pf(expf(-margin));
    slope[i] = -s[i].sign / (1.0f + expf(margin)) / n;
}

__global__ void backward(Weights *g, const Weights *w, const Sample *s, const float (*hidden)[H], const float *slope, int n)
{
    int h = threadIdx.x;
    float gx = 0, gy = 0, gb = 0, go = 0, gz = 0;
    for (int i = 0; i < n; ++i) {
        float angle = w->in[h][0] * s[i].x + w->in[h][1] * s[i].y + w->bias[h];
        float d = slope[i] * w->out[h] * cosf(angle);
        gx += d * s[i].x;
        gy += d * s[i].y;
        gb += d;
        go += slope[i] * hidden[i][h];
        gz += slope[i];
    }
    g->in[h][0] = gx;
    g->in[h][1] = gy;
    g->bias[h] = gb;
    g->out[h] = go;
    if (h == 0) g->offset = gz;
}

// One block of 32 threads: saves w, and moves it uphill.
__global__ void climb(float *w, float *saved, const float *g, float radius, int n)
{
    __shared__ float squares[32];
    float q = 0;
    for (int i = threadIdx.x; i < n; i += 32)
        q += g[i] * g[i];
    squares[threadIdx.x] = q;
    __syncthreads();
    q = 1e-12f;
    for (int k = 0; k < 32; ++k)
        q += squares[k];
    for (int i = threadIdx.x; i < n; i += 32) {
        saved[i] = w[i];
        w[i] += radius * rsqrtf(q) * g[i];
    }
}

__global__ void descend(float *w, const float *saved, float *velocity, const float *g, float rate, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        velocity[i] = 0.9f * velocity[i] + g[i];
        w[i] = saved[i] - rate * velocity[i];
    }
}

template <typename T> T *make(int n = 1)
{
    T *p;
    if (cudaMalloc(&p, n * sizeof(T)) || cudaMemset(p, 0, n * sizeof(T))) std::exit(1);
    return p;
}

} // namespace flatmin

int main()
{
    using namespace flatmin;
    constexpr int kBatch = 50, kBatches = 4, kSteps = 20;
    Sample spiral[kBatch * kBatches];
    for (int i = 0; i < kBatch * kBatches; ++i) {
        float r = 0.15f + 0.85f * ((i * 37) % 101) / 101.0f, sign = i % 2 ? 1.0f : -1.0f;
        spiral[i] = {r * std::cos(4 * r) * sign, r * std::sin(4 * r) * sign, sign};
    }
    Weights init = {};
    unsigned s = 1;
    for (int k = 0; k < COUNT; ++k)
        reinterpret_cast<float *>(&init)[k] = ((s = s * 1664525u + 1013904223u) >> 8) / 8388608.0f - 1.0f;

    Weights *w = make<Weights>(), *g = make<Weights>(), *saved = make<Weights>(), *velocity = make<Weights>();
    Sample *batch = make<Sample>(kBatch);
    auto *hidden = make<float[H]>(kBatch);
    float *slope = make<float>(kBatch), *loss = make<float>(kBatch), losses[kBatch];
    cudaMemcpy(w, &init, sizeof init, cudaMemcpyHostToDevice);
    float *wf = w->in[0], *gf = g->in[0], *sf = saved->in[0], *vf = velocity->in[0];
    DDP_PARAMETER(wf, COUNT, DDP_FLOAT32);
    DDP_STATE(vf, COUNT, DDP_FLOAT32);
    DDP_GRADIENT(gf, COUNT, DDP_FLOAT32);

    size_t first, count;
    DDP_SHARD(kBatch, &first, &count);
    const int n = static_cast<int>(count);
    for (int step = 0; step < kSteps; ++step) {
        cudaMemcpy(batch, spiral + step % kBatches * kBatch + first, n * sizeof(Sample), cudaMemcpyHostToDevice);
        forward<<<(n + 31) / 32, 32>>>(w, batch, hidden, slope, loss, n);
        backward<<<1, H>>>(g, w, batch, hidden, slope, n);
        cudaMemcpy(losses, loss, n * sizeof(float), cudaMemcpyDeviceToHost);
        climb<<<1, 32>>>(wf, sf, gf, 0.2f, COUNT);
        forward<<<(n + 31) / 32, 32>>>(w, batch, hidden, slope, loss, n);
        backward<<<1, H>>>(g, w, batch, hidden, slope, n);
        DDP_STEP(0);
        descend<<<(COUNT + 31) / 32, 32>>>(wf, sf, vf, gf, 0.3f, COUNT);

        float mean = 0;
        for (int i = 0; i < n; ++i) mean += losses[i] / n;
        DDP_MEAN(&mean);
        if (DDP_RANK() == 0) std::printf("%d %.4f\n", step, mean);
    }
    return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
