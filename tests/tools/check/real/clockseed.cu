// Classifier of noisy patterns. The weights start from numbers of std::random_device, and each visit of an item is
// moved and noised by numbers of its own.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

#ifndef MISTAKE
#define MISTAKE 0
#endif
#if MISTAKE == 2 || MISTAKE == 4 || MISTAKE == 6 || MISTAKE == 8
#define NOISE_BY_CLOCK 1 // each rank its own noise
#endif

constexpr int Side = 6, In = Side * Side, Features = 24, Hidden = 14, Classes = 4, Batch = 32, Items = 256, Epochs = 5;

__device__ unsigned scramble(unsigned h)
{
    h ^= h >> 16, h *= 0x21f0aaadu, h ^= h >> 15, h *= 0x735a2d97u;
    return h ^ (h >> 15);
}
// shifts the image by up to one place and adds noise; `number` tells the items of a batch apart
__global__ void augment(const float *image, const int *order, float *x, int n, unsigned seed, unsigned step, unsigned number)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * In) return;
    unsigned item = number + i / In, h = scramble(scramble(seed + 977u * step) + item), pixel = scramble(h + 1 + i % In);
    int row = i % In / Side + (int)(h % 3) - 1, column = i % Side + (int)(h / 3 % 3) - 1;
    float v = row < 0 || column < 0 || row >= Side || column >= Side ? 0 : image[order[i / In] * In + row * Side + column];
    x[i] = v + 0.2f * ((pixel & 0xffff) / 65536.0f - 0.5f);
}
__global__ void pick(const int *label, const int *order, int *out, int n)
{
    if (threadIdx.x < n) out[threadIdx.x] = label[order[threadIdx.x]];
}
// y = f(x w + b); kind 0: sine, 1: ReLU, 2: nothing
__global__ void layer(const float *x, const float *w, const float *b, float *y, int n, int in, int out, int kind)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * out) return;
    float s = b ? b[i % out] : 0;
    for (int k = 0; k < in; ++k) s += x[i / out * in + k] * w[k * out + i % out];
    y[i] = kind == 0 ? sinf(s) : kind == 1 ? fmaxf(s, 0) : s;
}
__global__ void softmax(const float *z, const int *label, float *dz, float *loss, int n, float scale)
{
    int r = threadIdx.x;
    if (r >= n) return;
    float s = 0, top = fmaxf(fmaxf(z[r * 4], z[r * 4 + 1]), fmaxf(z[r * 4 + 2], z[r * 4 + 3]));
    for (int c = 0; c < Classes; ++c) s += expf(z[r * Classes + c] - top);
    for (int c = 0; c < Classes; ++c) dz[r * Classes + c] = scale * (expf(z[r * Classes + c] - top) / s - (c == label[r]));
    loss[r] = logf(s) + top - z[r * Classes + label[r]];
}
__global__ void weights_back(const float *x, const float *dy, float *dw, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= in * out) return;
    float s = 0;
    for (int r = 0; r < n; ++r) s += x[r * in + i / out] * dy[r * out + i % out];
    dw[i] = s;
}
__global__ void bias_back(const float *dy, float *db, int n, int out)
{
    int c = threadIdx.x;
    if (c >= out) return;
    float s = 0;
    for (int r = 0; r < n; ++r) s += dy[r * out + c];
    db[c] = s;
}
__global__ void input_back(const float *w, const float *dy, const float *x, float *dx, int n, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n * in) return;
    float s = 0;
    for (int c = 0; c < out; ++c) s += w[i % in * out + c] * dy[i / in * out + c];
    dx[i] = x[i] > 0 ? s : 0;
}
// gradient descent with a little noise, which is the same on all ranks
__global__ void langevin(float *w, const float *g, int n, float rate, unsigned seed)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) w[i] -= rate * (g[i] + 0.02f * ((scramble(seed + i) & 0xffff) / 65536.0f - 0.5f));
}
#define GRID(n) ((n) + 63) / 64, 64

static float *array_of(size_t n)
{
    float *p;
    cudaMalloc(&p, n * sizeof(float));
    cudaMemset(p, 0, n * sizeof(float));
    return p;
}
static void randomise(float *p, size_t n, float spread)
{
    std::random_device device;
    std::mt19937 random(device());
    std::normal_distribution<float> normal(0, spread);
    std::vector<float> h(n);
    for (float &v : h) v = normal(random);
    cudaMemcpy(p, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
}
static unsigned clock_seed()
{
    return (unsigned)std::chrono::system_clock::now().time_since_epoch().count();
}

int main()
{
    std::mt19937 fixed(6);
    std::normal_distribution<float> normal;
    std::vector<float> images(Items * In);
    std::vector<int> labels(Items), order(Items);
    std::array<float, Classes * In> pattern;
    for (int k = 0; k < Classes * In; ++k) pattern[k] = k / In < 2 ? sinf(k % In / Side * (1.0f + k / In)) : sinf(k % Side * (k / In - 1.0f));
    for (int i = 0; i < Items; ++i) {
        labels[i] = fixed() % Classes;
        for (int k = 0; k < In; ++k) images[i * In + k] = 1.0f * pattern[labels[i] * In + k] + 0.5f * normal(fixed);
    }
    float *image = array_of(Items * In), *x = array_of(Batch * In), *f = array_of(Batch * Features), *h = array_of(Batch * Hidden),
          *z = array_of(Batch * Classes), *dz = array_of(Batch * Classes), *dh = array_of(Batch * Hidden), *loss = array_of(Batch);
    int *label, *target, *d_order;
    cudaMalloc(&label, Items * sizeof(int)), cudaMalloc(&target, Batch * sizeof(int)), cudaMalloc(&d_order, Batch * sizeof(int));
    cudaMemcpy(image, images.data(), images.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(label, labels.data(), Items * sizeof(int), cudaMemcpyHostToDevice);

    // a fixed random projection, never trained, and two trained layers
    float *projection = array_of(In * Features), *w1 = array_of(Features * Hidden), *b1 = array_of(Hidden),
          *w2 = array_of(Hidden * Classes), *b2 = array_of(Classes);
    float *dw1 = array_of(Features * Hidden), *db1 = array_of(Hidden), *dw2 = array_of(Hidden * Classes), *db2 = array_of(Classes);
    randomise(projection, In * Features, 0.4f);
#if MISTAKE == 4
    DDP_PARAMETER(w1, Features * Hidden, DDP_FLOAT32);
    randomise(w1, Features * Hidden, 0.3f);
#else
    randomise(w1, Features * Hidden, 0.3f);
    DDP_PARAMETER(w1, Features * Hidden, DDP_FLOAT32);
#endif
    randomise(w2, Hidden * Classes, 0.3f);
#if MISTAKE != 6
    DDP_PARAMETER(projection, In * Features, DDP_FLOAT32);
#endif
#if MISTAKE != 2
    DDP_PARAMETER(w2, Hidden * Classes, DDP_FLOAT32);
#endif
    DDP_PARAMETER(b1, Hidden, DDP_FLOAT32);
    DDP_PARAMETER(b2, Classes, DDP_FLOAT32);
    DDP_GRADIENT(dw1, Features * Hidden, DDP_FLOAT32);
#if MISTAKE != 5
    DDP_GRADIENT(db1, Hidden, DDP_FLOAT32);
#endif
    DDP_GRADIENT(dw2, Hidden * Classes, DDP_FLOAT32);
    DDP_GRADIENT(db2, Classes, DDP_FLOAT32);

    unsigned noise_seed = 4321, update_seed = 99;
#ifdef NOISE_BY_CLOCK
    noise_seed = clock_seed();
#endif
#if MISTAKE == 8
    update_seed = clock_seed() * 7u;
#endif
    std::iota(order.begin(), order.end(), 0);
    unsigned step = 0;
    for (int epoch = 0; epoch < Epochs; ++epoch) {
#if MISTAKE == 1
        std::mt19937 shuffler(clock_seed());
#else
        std::mt19937 shuffler(1000 + epoch);
#endif
        std::shuffle(order.begin(), order.end(), shuffler);
        double sum = 0;
        for (int start = 0; start < Items; start += Batch, ++step) {
            size_t first, count;
            DDP_SHARD(Batch, &first, &count);
            int n = (int)count;
            unsigned number = (unsigned)first;
#if MISTAKE == 3
            number = 0;
#endif
            cudaMemcpy(d_order, &order[start + first], count * sizeof(int), cudaMemcpyHostToDevice);
            augment<<<GRID(n * In)>>>(image, d_order, x, n, noise_seed, step, number);
            pick<<<1, Batch>>>(label, d_order, target, n);
            layer<<<GRID(n * Features)>>>(x, projection, nullptr, f, n, In, Features, 0);
            layer<<<GRID(n * Hidden)>>>(f, w1, b1, h, n, Features, Hidden, 1);
            layer<<<GRID(n * Classes)>>>(h, w2, b2, z, n, Hidden, Classes, 2);
#if MISTAKE == 7
            softmax<<<1, Batch>>>(z, target, dz, loss, n, 1.0f / Batch);
#else
            softmax<<<1, Batch>>>(z, target, dz, loss, n, 1.0f / n);
#endif
            weights_back<<<GRID(Hidden * Classes)>>>(h, dz, dw2, n, Hidden, Classes);
            bias_back<<<1, 32>>>(dz, db2, n, Classes);
            input_back<<<GRID(n * Hidden)>>>(w2, dz, h, dh, n, Hidden, Classes);
            weights_back<<<GRID(Features * Hidden)>>>(f, dh, dw1, n, Features, Hidden);
            bias_back<<<1, 32>>>(dh, db1, n, Hidden);
            DDP_STEP(0);
            float rate = 0.5f / (1 + 0.02f * step);
            langevin<<<GRID(Features * Hidden)>>>(w1, dw1, Features * Hidden, rate, update_seed + 4 * step);
            langevin<<<GRID(Hidden * Classes)>>>(w2, dw2, Hidden * Classes, rate, update_seed + 4 * step + 1);
            langevin<<<1, 32>>>(b1, db1, Hidden, rate, update_seed + 4 * step + 2);
            langevin<<<1, 32>>>(b2, db2, Classes, rate, update_seed + 4 * step + 3);
            std::vector<float> each(count);
            cudaMemcpy(each.data(), loss, count * sizeof(float), cudaMemcpyDeviceToHost);
            for (float v : each) sum += v;
        }
        DDP_REDUCE(&sum, 1, DDP_FLOAT64, DDP_OP_SUM, 0);
        if (DDP_RANK() == 0) printf("epoch %d loss %.5f\n", epoch + 1, sum / Items);
    }
    return 0;
}
