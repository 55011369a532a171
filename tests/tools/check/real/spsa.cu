// Trains a small network from losses alone: each step perturbs all weights and compares two losses (SPSA).
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <random>
#include <utility>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

#ifndef MISTAKE
#define MISTAKE 0
#endif

namespace {
constexpr int BATCH = 48, IN = 5, HIDDEN = 9, ITEMS = 480, STEPS = 60, DIRECTIONS = 6;
constexpr int FIRST_LAYER = (IN + 1) * HIDDEN, SECOND_LAYER = HIDDEN + 1, TOTAL = FIRST_LAYER + SECOND_LAYER;
constexpr float REACH = 0.02f;

struct Model {
    float *layer1, *layer2;
};

__device__ uint32_t mix(uint32_t h)
{
    h ^= h >> 16;
    h *= 0x7feb352du;
    h ^= h >> 15;
    h *= 0x846ca68bu;
    return h ^ (h >> 16);
}
__device__ float sign_of(uint32_t seed, int step, int direction, int i)
{
    return mix(mix(mix(seed ^ step * 0x9e3779b9u) + direction * 0x85ebca6bu) + i) & 1 ? 1.0f : -1.0f;
}
__device__ float weight(const Model &m, int i) { return i < FIRST_LAYER ? m.layer1[i] : m.layer2[i - FIRST_LAYER]; }

// block (direction, side): the loss of the items with the weights moved by side * REACH * signs
__global__ void probe(Model m, const float *x, const float *target, int items, float scale, uint32_t seed, int step, double *loss)
{
    __shared__ float w[TOTAL];
    __shared__ double part[64];
    int direction = blockIdx.x, side = blockIdx.y;
    for (int i = threadIdx.x; i < TOTAL; i += blockDim.x)
        w[i] = weight(m, i) + (side == 0 ? REACH : side == 1 ? -REACH : 0) * sign_of(seed, step, direction, i);
    __syncthreads();
    double sum = 0; // small differences count
    for (int r = threadIdx.x; r < items; r += blockDim.x) {
        float out = w[TOTAL - 1];
        for (int j = 0; j < HIDDEN; ++j) {
            float a = w[IN * HIDDEN + j];
            for (int k = 0; k < IN; ++k) a += x[r * IN + k] * w[k * HIDDEN + j];
            out += tanhf(a) * w[FIRST_LAYER + j];
        }
        float z = target[r] > 0 ? -out : out; // logistic loss
        sum += scale * (z > 20 ? z : log1pf(expf(z)));
    }
    part[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        double all = 0;
        for (int i = 0; i < blockDim.x; ++i) all += part[i];
        loss[direction * gridDim.y + side] = all;
    }
}
__global__ void estimate(Model g, const double *loss, uint32_t seed, int step, float most)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= TOTAL) return;
    float sum = 0;
    for (int d = 0; d < DIRECTIONS; ++d) {
        float slope = (loss[d * 2] - loss[d * 2 + 1]) / (2 * REACH);
        slope = fminf(fmaxf(slope, -most), most);
        sum += slope * sign_of(seed, step, d, i);
    }
    (i < FIRST_LAYER ? g.layer1[i] : g.layer2[i - FIRST_LAYER]) = sum / DIRECTIONS;
}
__global__ void bound(float *g, int n, float most)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) g[i] = fminf(fmaxf(g[i], -most), most);
}
__global__ void move(float *w, const float *g, float *v, int n, float rate, float carry)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    v[i] = carry * v[i] + g[i];
    w[i] -= rate * v[i];
}

Model allocate()
{
    Model m;
    cudaMalloc(&m.layer1, FIRST_LAYER * sizeof(float));
    cudaMalloc(&m.layer2, SECOND_LAYER * sizeof(float));
    cudaMemset(m.layer1, 0, FIRST_LAYER * sizeof(float));
    cudaMemset(m.layer2, 0, SECOND_LAYER * sizeof(float));
    return m;
}
void fill(float *p, int n, std::mt19937 &random, float spread)
{
    std::vector<float> h(n);
    std::uniform_real_distribution<float> uniform(-spread, spread);
    for (float &v : h) v = uniform(random);
    cudaMemcpy(p, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
}
} // namespace

int main()
{
    std::mt19937 random(99);
    std::normal_distribution<float> normal;
    std::vector<float> x(ITEMS * IN), y(ITEMS);
    for (int i = 0; i < ITEMS; ++i) {
        for (int k = 0; k < IN; ++k) x[i * IN + k] = normal(random);
        y[i] = x[i * IN] * x[i * IN + 1] + 0.8f * x[i * IN + 2] - 0.3f * x[i * IN + 4] > 0.1f ? 1.0f : -1.0f;
    }
    float *d_x, *d_y;
    double *d_loss, *d_now;
    cudaMalloc(&d_x, x.size() * sizeof(float));
    cudaMalloc(&d_y, y.size() * sizeof(float));
    cudaMalloc(&d_loss, 2 * DIRECTIONS * sizeof(double));
    cudaMalloc(&d_now, 3 * sizeof(double));
    cudaMemcpy(d_x, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(d_y, y.data(), y.size() * sizeof(float), cudaMemcpyHostToDevice);

    Model w = allocate(), g = allocate(), v = allocate();
    fill(w.layer1, FIRST_LAYER, random, 0.6f);
#if MISTAKE == 8
    std::mt19937 clock_random((unsigned)time(nullptr) * 31u + DDP_RANK());
    fill(w.layer2, SECOND_LAYER, clock_random, 0.6f);
#else
    fill(w.layer2, SECOND_LAYER, random, 0.6f);
#endif
    DDP_PARAMETER(w.layer1, FIRST_LAYER, DDP_FLOAT32);
#if MISTAKE != 8
    DDP_PARAMETER(w.layer2, SECOND_LAYER, DDP_FLOAT32);
#endif
#if MISTAKE == 3
    DDP_GRADIENT(g.layer1, IN * HIDDEN, DDP_FLOAT32);
#else
    DDP_GRADIENT(g.layer1, FIRST_LAYER, DDP_FLOAT32);
#endif
    DDP_GRADIENT(g.layer2, SECOND_LAYER, DDP_FLOAT32);

    float rate = 0.08f, previous = 1e9f;
    uint32_t seed = 12345;
#if MISTAKE == 1
    seed += DDP_RANK();
#endif
    for (int step = 0; step < STEPS; ++step) {
        size_t first, count;
        DDP_SHARD(BATCH, &first, &count);
        int start = step * BATCH % ITEMS;
        const float *in = d_x + (start + first) * IN, *target = d_y + start + first;
        float scale = 1.0f / count;
#if MISTAKE == 4
        scale = 1.0f / BATCH;
#endif
#if MISTAKE == 5
        target = d_y + start;
#endif
        double *loss = d_loss;
        float slope_limit = 1e9f;
#if MISTAKE == 2
        slope_limit = 0.05f;
#endif
#if MISTAKE == 2 || MISTAKE == 6
        cudaMalloc(&loss, 2 * DIRECTIONS * sizeof(double)); // of this step only
#endif
        probe<<<dim3(DIRECTIONS, 2), 64>>>(w, in, target, (int)count, scale, seed, step, loss);
        estimate<<<1, 64>>>(g, loss, seed, step, slope_limit);
#if MISTAKE != 7
        DDP_STEP(0);
#endif
        bound<<<1, 64>>>(g.layer1, FIRST_LAYER, 0.12f);
        bound<<<1, 64>>>(g.layer2, SECOND_LAYER, 0.12f);
        move<<<1, 64>>>(w.layer1, g.layer1, v.layer1, FIRST_LAYER, rate, 0.5f);
        move<<<1, 64>>>(w.layer2, g.layer2, v.layer2, SECOND_LAYER, rate, 0.5f);
#if MISTAKE == 7
        DDP_STEP(0);
#endif
#if MISTAKE == 2 || MISTAKE == 6
        cudaFree(loss);
#endif
        // the loss at the weights themselves, as progress; the rate falls where it rises much
        if (step % 5 == 4) {
            double now[3];
            float shown;
            probe<<<dim3(1, 3), 64>>>(w, in, target, (int)count, 1.0f / count, seed, step, d_now);
            cudaMemcpy(now, d_now, sizeof(now), cudaMemcpyDeviceToHost);
            shown = (float)now[2];
#if MISTAKE == 4 || MISTAKE == 8
            // each rank shows the loss of its own items
            printf("rank %d step %d loss of its items %.5f\n", DDP_RANK(), step + 1, shown);
#endif
#if MISTAKE != 6
            DDP_MEAN(&shown);
#endif
            if (shown > previous + 0.02f) rate *= 0.7f;
            previous = shown;
            if (DDP_RANK() == 0) printf("step %d loss %.5f rate %.4f\n", step + 1, shown, rate);
        }
    }
    return 0;
}
