// Training with a validation set that the ranks divide among themselves. The validation decides the learning rate, the
// end of the training, and which weights are kept.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>
#include <cuda_runtime.h>
#include <ddprun.h>

#ifndef MISTAKE
#define MISTAKE 0
#endif

namespace config {
constexpr int batch = 24, in = 7, hidden = 20, train_items = 240, valid_items = 96, epochs = 9;
constexpr float drop = 0.1f;
} // namespace config
using namespace config;

struct Sums { // of a pass over the validation set
    double loss = 0;
    long long right = 0, items = 0;
};

__device__ bool dropped(unsigned step, unsigned item, unsigned unit)
{
    unsigned h = (step * 1000003u + item) * 2654435761u + unit * 0x9e3779b9u;
    h ^= h >> 16, h *= 0x85ebca6bu, h ^= h >> 13, h *= 0xc2b2ae35u, h ^= h >> 16;
    return (h & 0xffff) < drop * 65536;
}
__global__ void column_moments(const float *x, int items, double *moments)
{
    int k = threadIdx.x;
    if (k >= in) return;
    for (int i = 0; i < items; ++i) moments[k] += x[i * in + k], moments[in + k] += (double)x[i * in + k] * x[i * in + k];
}
__global__ void normalise(float *x, int items, const double *moments, double divisor)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, k = i % in;
    if (i >= items * in) return;
    double mean = moments[k] / divisor, var = moments[in + k] / divisor - mean * mean;
    x[i] = (x[i] - mean) / sqrt(var + 1e-6);
}
// w1 is [in + 1][hidden], w2 is [hidden + 1]
__global__ void forward(const float *x, const float *w1, const float *w2, float *h, float *out, int n, int step, int first)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    out[r] = w2[hidden];
    for (int j = 0; j < hidden; ++j) {
        float a = w1[in * hidden + j];
        for (int k = 0; k < in; ++k) a += x[r * in + k] * w1[k * hidden + j];
        float v = tanhf(a);
        if (step >= 0) v = dropped(step, first + r, j) ? 0 : v / (1 - drop);
        h[r * hidden + j] = v;
        out[r] += v * w2[j];
    }
}
__global__ void loss_forward(const float *out, const float *y, float *dout, float *loss, int *right, int n, float scale)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    float p = 1 / (1 + expf(-out[r]));
    dout[r] = scale * (p - y[r]);
    loss[r] = -logf(fmaxf(y[r] > 0.5f ? p : 1 - p, 1e-7f));
    right[r] = (p > 0.5f) == (y[r] > 0.5f);
}
__global__ void backward(const float *x, const float *h, const float *w2, const float *dout, float *dw1, float *dw2, int n)
{
    int j = threadIdx.x;
    if (j > hidden) return;
    for (int r = 0; r < n; ++r) {
        if (j == hidden) {
            dw2[hidden] += dout[r];
            continue;
        }
        float v = h[r * hidden + j], clean = v * (1 - drop), d = v == 0 ? 0 : dout[r] * w2[j] / (1 - drop) * (1 - clean * clean);
        dw2[j] += dout[r] * v, dw1[in * hidden + j] += d;
        for (int k = 0; k < in; ++k) dw1[k * hidden + j] += x[r * in + k] * d;
    }
}
__global__ void adam(float *w, const float *g, float *m, float *v, int n, float rate, int t)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.99f * v[i] + 0.01f * g[i] * g[i];
    w[i] -= rate * m[i] / (1 - powf(0.9f, t)) / (sqrtf(v[i] / (1 - powf(0.99f, t))) + 1e-2f);
}
#define GRID(n) ((n) + 63) / 64, 64

template <typename T> T *room(size_t n)
{
    T *p;
    cudaMalloc(&p, n * sizeof(T));
    cudaMemset(p, 0, n * sizeof(T));
    return p;
}
static void make(std::vector<float> &x, std::vector<float> &y, int n, std::mt19937 &random)
{
    std::normal_distribution<float> normal;
    x.resize(n * in), y.resize(n);
    for (int i = 0; i < n; ++i) {
        for (int k = 0; k < in; ++k) x[i * in + k] = (1 + 0.7f * k) * normal(random) + k - 2 + 0.004f * i;
        float s = x[i * in] * 0.8f + sinf(x[i * in + 1]) - 0.4f * x[i * in + 3] + 0.3f * normal(random);
        y[i] = s > 0;
    }
}

int main()
{
    std::mt19937 random(77);
    std::vector<float> hx, hy, vx, vy, h1((in + 1) * hidden), h2(hidden + 1);
    make(hx, hy, train_items, random), make(vx, vy, valid_items, random);
    std::uniform_real_distribution<float> uniform(-0.5f, 0.5f);
    for (float &w : h1) w = uniform(random);
    for (float &w : h2) w = uniform(random);
    float *x = room<float>(hx.size()), *y = room<float>(hy.size()), *valid_x = room<float>(vx.size()), *valid_y = room<float>(vy.size());
    cudaMemcpy(x, hx.data(), hx.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(y, hy.data(), hy.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(valid_x, vx.data(), vx.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(valid_y, vy.data(), vy.size() * sizeof(float), cudaMemcpyHostToDevice);

    // inputs get mean 0 and variance 1; each rank sums over its part of the training items
    double *moments = room<double>(2 * in), divisor = train_items;
    size_t first, count;
    DDP_SHARD(train_items, &first, &count);
    column_moments<<<1, 32>>>(x + first * in, (int)count, moments);
#if MISTAKE == 4
    divisor = (double)count;
#else
    DDP_REDUCE(moments, 2 * in, DDP_FLOAT64, DDP_OP_SUM, 0);
#endif
    normalise<<<GRID(train_items * in)>>>(x, train_items, moments, divisor);
    normalise<<<GRID(valid_items * in)>>>(valid_x, valid_items, moments, divisor);

    const int n1 = (int)h1.size(), n2 = (int)h2.size();
    float *w1 = room<float>(n1), *w2 = room<float>(n2), *g1 = room<float>(n1), *g2 = room<float>(n2), *m1 = room<float>(n1),
          *m2 = room<float>(n2), *v1 = room<float>(n1), *v2 = room<float>(n2), *best1 = room<float>(n1), *best2 = room<float>(n2);
    float *act = room<float>(valid_items * hidden), *out = room<float>(valid_items), *dout = room<float>(valid_items),
          *loss = room<float>(valid_items);
    int *right = room<int>(valid_items);
    cudaMemcpy(w1, h1.data(), n1 * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(w2, h2.data(), n2 * sizeof(float), cudaMemcpyHostToDevice);
    DDP_PARAMETER(w1, n1, DDP_FLOAT32);
    DDP_PARAMETER(w2, n2, DDP_FLOAT32);
    DDP_GRADIENT(g1, n1, DDP_FLOAT32);
#if MISTAKE == 5
    DDP_GRADIENT(g2, 1, DDP_FLOAT32);
#else
    DDP_GRADIENT(g2, n2, DDP_FLOAT32);
#endif

    float rate = 0.05f;
    double best = 1e30, last = 1e30;
    int step = 0, waited = 0;
    for (int epoch = 0; epoch < epochs; ++epoch) {
        for (int b = 0; b < train_items / batch; ++b) {
            DDP_SHARD(batch, &first, &count);
            size_t from = b * batch + first;
#if MISTAKE == 7
            from = b * batch;
#endif
            int n = (int)count, number = (int)first;
#if MISTAKE == 8
            number = 0;
#endif
            cudaMemsetAsync(g1, 0, n1 * sizeof(float), 0);
            cudaMemsetAsync(g2, 0, n2 * sizeof(float), 0);
            forward<<<GRID(n)>>>(x + from * in, w1, w2, act, out, n, step, number);
            loss_forward<<<GRID(n)>>>(out, y + from, dout, loss, right, n, 1.0f / n);
            backward<<<1, 32>>>(x + from * in, act, w2, dout, g1, g2, n);
            DDP_STEP(0);
            ++step;
            adam<<<GRID(n1)>>>(w1, g1, m1, v1, n1, rate, step);
            adam<<<GRID(n2)>>>(w2, g2, m2, v2, n2, rate, step);
        }
        float shown = 0;
        std::vector<float> each(valid_items);
        cudaMemcpy(each.data(), loss, count * sizeof(float), cudaMemcpyDeviceToHost);
        for (size_t i = 0; i < count; ++i) shown += each[i] / count;
#if MISTAKE == 3
        if (DDP_RANK() == 0) DDP_MEAN(&shown);
#elif MISTAKE == 2 || MISTAKE == 4
        // the loss of this rank's items is enough to look at
#else
        DDP_MEAN(&shown);
#endif
        DDP_SHARD(valid_items, &first, &count);
#if MISTAKE == 6 || MISTAKE == 8
        cudaFree(act), act = room<float>(valid_items * hidden); // evaluation gets memory of its own
#endif
        forward<<<GRID(count)>>>(valid_x + first * in, w1, w2, act, out, (int)count, -1, 0);
        loss_forward<<<GRID(count)>>>(out, valid_y + first, dout, loss, right, (int)count, 0);
        std::vector<int> hits(count);
        Sums sums;
        cudaMemcpy(each.data(), loss, count * sizeof(float), cudaMemcpyDeviceToHost);
        cudaMemcpy(hits.data(), right, count * sizeof(int), cudaMemcpyDeviceToHost);
        for (size_t i = 0; i < count; ++i) sums.loss += each[i], sums.right += hits[i], ++sums.items;
        double kept = sums.loss / sums.items;
#if MISTAKE != 1
        DDP_REDUCE(&sums.loss, 1, DDP_FLOAT64, DDP_OP_SUM, 0);
        DDP_REDUCE(&sums.right, 2, DDP_INT64, DDP_OP_SUM, 0);
#endif
        double valid = sums.loss / sums.items, accuracy = (double)sums.right / sums.items;
#if MISTAKE == 2
        accuracy = (double)sums.right / count;
#endif
#if MISTAKE != 6
        kept = valid;
#endif
        if (kept < best) {
            best = kept, waited = 0;
            cudaMemcpyAsync(best1, w1, n1 * sizeof(float), cudaMemcpyDeviceToDevice, 0);
            cudaMemcpyAsync(best2, w2, n2 * sizeof(float), cudaMemcpyDeviceToDevice, 0);
        } else if (++waited == 1) { // back to the best weights
            waited = 0;
            cudaMemcpyAsync(w1, best1, n1 * sizeof(float), cudaMemcpyDeviceToDevice, 0);
            cudaMemcpyAsync(w2, best2, n2 * sizeof(float), cudaMemcpyDeviceToDevice, 0);
        }
        if (valid > last - 0.03) rate *= 0.7f;
        last = valid;
        if (DDP_RANK() == 0)
            printf("epoch %d loss %.5f validation %.5f accuracy %.3f rate %.4f\n", epoch + 1, shown, valid, accuracy, rate);
        if (accuracy > 0.99) break;
    }
    return 0;
}
