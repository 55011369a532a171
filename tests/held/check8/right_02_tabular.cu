// Classifier of tabular rows with batch normalisation over groups of eight rows; running statistics for evaluation.
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <vector>
#include <string>
#include <cuda_runtime.h>
#include "ddprun.h"

namespace net {

static const int Columns = 8, Width = 24, Classes = 3, Batch = 64, Group = 8, Train = 640, Test = 128, Steps = 60;

inline void check(cudaError_t e, const std::string &where)
{
    if (e != cudaSuccess) {
        std::fprintf(stderr, "%s: %s\n", where.c_str(), cudaGetErrorString(e));
        std::exit(4);
    }
}

template <typename T> class Buffer {
    T *data_ = nullptr;
    size_t size_;

  public:
    explicit Buffer(size_t n, T fill = T()) : size_(n)
    {
        check(cudaMalloc(&data_, n * sizeof(T)), "malloc");
        put(std::vector<T>(n, fill));
    }
    explicit Buffer(const std::vector<T> &v) : Buffer(v.size()) { put(v); }
    void put(const std::vector<T> &v) { check(cudaMemcpy(data_, v.data(), v.size() * sizeof(T), cudaMemcpyHostToDevice), "put"); }
    std::vector<T> take(size_t n) const
    {
        std::vector<T> v(n);
        check(cudaMemcpy(v.data(), data_, n * sizeof(T), cudaMemcpyDeviceToHost), "take");
        return v;
    }
    std::vector<T> take() const { return take(size_); }
    T *operator()() const { return data_; }
    int size() const { return (int)size_; }
};

__global__ void affine(const float *x, const float *w, float *y, int rows, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * out)
        return;
    float s = 0;
    for (int k = 0; k < in; ++k)
        s += x[i / out * in + k] * w[k * out + i % out];
    y[i] = s;
}

// One block for each group of rows, one thread for each unit. The moments go into the running averages.
__global__ void normalise(const float *a, const float *gamma, const float *beta, float *hat, float *inv, float *y)
{
    int g = blockIdx.x, j = threadIdx.x, base = g * Group * Width + j;
    float m = 0, v = 0;
    for (int r = 0; r < Group; ++r)
        m += a[base + r * Width] / Group;
    for (int r = 0; r < Group; ++r)
        v += (a[base + r * Width] - m) * (a[base + r * Width] - m) / Group;
    float s = rsqrtf(v + 1e-3f);
    inv[g * Width + j] = s;
    for (int r = 0; r < Group; ++r) {
        float h = (a[base + r * Width] - m) * s;
        hat[base + r * Width] = h;
        y[base + r * Width] = fmaxf(gamma[j] * h + beta[j], 0.0f);
    }
}

__global__ void track(const float *a, float *running, int rows, float keep)
{
    int j = threadIdx.x;
    float m = 0, q = 0;
    for (int r = 0; r < rows; ++r) {
        m += a[r * Width + j];
        q += a[r * Width + j] * a[r * Width + j];
    }
    m /= rows;
    running[j] = keep * running[j] + (1 - keep) * m;
    running[Width + j] = keep * running[Width + j] + (1 - keep) * (q / rows - m * m);
}

__global__ void normalise_running(const float *a, const float *gamma, const float *beta, const float *running, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = i % Width;
    if (i < n)
        y[i] = fmaxf(gamma[j] * (a[i] - running[j]) * rsqrtf(fmaxf(running[Width + j], 0.0f) + 1e-3f) + beta[j], 0.0f);
}

__global__ void classify(const float *y, const float *w, const int *label, float *dz, float *loss, int rows)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows)
        return;
    float z[Classes], top = -1e30f, sum = 0;
    for (int c = 0; c < Classes; ++c) {
        z[c] = 0;
        for (int j = 0; j < Width; ++j)
            z[c] += y[r * Width + j] * w[j * Classes + c];
        top = fmaxf(top, z[c]);
    }
    for (int c = 0; c < Classes; ++c)
        sum += expf(z[c] - top);
    loss[r] = top + logf(sum) - z[label[r]];
    for (int c = 0; c < Classes; ++c)
        dz[r * Classes + c] = (expf(z[c] - top) / sum - (c == label[r])) / rows;
}

// Back through the classifier and the normalisation of one group.
__global__ void normalise_back(const float *dz, const float *w, const float *y, const float *hat, const float *inv,
                               const float *gamma, float *dy, float *da)
{
    int g = blockIdx.x, j = threadIdx.x;
    float s = 0, q = 0;
    for (int r = g * Group; r < (g + 1) * Group; ++r) {
        float d = 0;
        for (int c = 0; c < Classes; ++c)
            d += dz[r * Classes + c] * w[j * Classes + c];
        d = y[r * Width + j] > 0 ? d : 0;
        dy[r * Width + j] = d;
        s += d / Group;
        q += d * hat[r * Width + j] / Group;
    }
    for (int r = g * Group; r < (g + 1) * Group; ++r)
        da[r * Width + j] = gamma[j] * inv[g * Width + j] * (dy[r * Width + j] - s - hat[r * Width + j] * q);
}

__global__ void outer(const float *x, const float *d, float *g, int rows, int in, int out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= in * out)
        return;
    float s = 0;
    for (int r = 0; r < rows; ++r)
        s += x[r * in + i / out] * d[r * out + i % out];
    g[i] = s;
}

__global__ void scale_shift(const float *dy, const float *hat, float *g_gamma, float *g_beta, int rows)
{
    int j = threadIdx.x;
    float s = 0, q = 0;
    for (int r = 0; r < rows; ++r) {
        s += dy[r * Width + j];
        q += dy[r * Width + j] * hat[r * Width + j];
    }
    g_beta[j] = s;
    g_gamma[j] = q;
}

__global__ void sgd(float *w, const float *g, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        w[i] -= lr * g[i];
}

struct Weight {
    Buffer<float> w, g;
    explicit Weight(const std::vector<float> &v) : w(v), g(v.size())
    {
        DDP_PARAMETER(w(), w.size(), DDP_TYPE_OF(w()));
        DDP_GRADIENT(g(), g.size(), DDP_TYPE_OF(g()));
    }
};

} // namespace net

int main(int argc, char **argv)
{
    using namespace net;
    unsigned s = 606;
    auto u = [&s]() { s = s * 1664525u + 1013904223u; return (s >> 8) / 16777216.0f - 0.5f; };
    std::vector<float> x((Train + Test) * Columns), i1(Columns * Width), i2(Width * Classes);
    std::vector<int> label(Train + Test);
    for (int r = 0; r < Train + Test; ++r) {
        float *row = &x[r * Columns];
        for (int k = 0; k < Columns; ++k)
            row[k] = (4 * u() + 1.5f) * (1 + k);
        float a = row[0] + 0.3f * row[2] - 2.5f, b = row[1] / 2 - row[4] / 5 * row[0] / 3;
        label[r] = a * a + u() < 1.2f ? 0 : b > 0 ? 1 : 2;
    }
    for (float &v : i1) v = u();
    for (float &v : i2) v = u();

    Weight w1(i1), gamma(std::vector<float>(Width, 1.0f)), beta(std::vector<float>(Width, 0.0f)), w2(i2);
    Weight *all[4] = {&w1, &gamma, &beta, &w2};
    Buffer<float> dx(x), a(Test * Width), hat(Batch * Width), y(Test * Width), inv(Batch / Group * Width), dz(Test * Classes);
    Buffer<float> loss(Test), dy(Batch * Width), da(Batch * Width), running(2 * Width);
    Buffer<int> dl(label);

    for (int step = 0; step < Steps; ++step) {
        size_t first, count;
        DDP_SHARD(Batch / Group, &first, &count);
        int groups = (int)count, n = groups * Group, at = step * Batch % Train + (int)first * Group;
        const float *xb = dx() + at * Columns;
        affine<<<(n * Width + 63) / 64, 64>>>(xb, w1.w(), a(), n, Columns, Width);
        normalise<<<groups, Width>>>(a(), gamma.w(), beta.w(), hat(), inv(), y());
        track<<<1, Width>>>(a(), running(), n, step == 0 ? 0.0f : 0.9f);
        classify<<<(n + 31) / 32, 32>>>(y(), w2.w(), dl() + at, dz(), loss(), n);
        outer<<<(Width * Classes + 63) / 64, 64>>>(y(), dz(), w2.g(), n, Width, Classes);
        normalise_back<<<groups, Width>>>(dz(), w2.w(), y(), hat(), inv(), gamma.w(), dy(), da());
        scale_shift<<<1, Width>>>(dy(), hat(), gamma.g(), beta.g(), n);
        outer<<<(Columns * Width + 63) / 64, 64>>>(xb, da(), w1.g(), n, Columns, Width);
        DDP_STEP(0);
        for (Weight *w : all)
            sgd<<<(w->w.size() + 63) / 64, 64>>>(w->w(), w->g(), w->w.size(), 0.4f);
        if (step % 15 == 14 || step == 0) {
            float mean = 0;
            for (float l : loss.take(n)) mean += l / n;
            DDP_MEAN_AS("loss", &mean);
            if (DDP_RANK() == 0) {
                affine<<<(Test * Width + 63) / 64, 64>>>(dx() + Train * Columns, w1.w(), a(), Test, Columns, Width);
                normalise_running<<<(Test * Width + 63) / 64, 64>>>(a(), gamma.w(), beta.w(), running(), y(), Test * Width);
                classify<<<(Test + 31) / 32, 32>>>(y(), w2.w(), dl() + Train, dz(), loss(), Test);
                float test = 0;
                for (float l : loss.take(Test)) test += l / Test;
                std::printf("step %2d  train %.4f  test %.4f\n", step + 1, mean, test);
            }
        }
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        for (Weight *w : all) {
            std::vector<float> v = w->w.take();
            std::fwrite(v.data(), sizeof(float), v.size(), f);
        }
        std::fclose(f);
    }
    return 0;
}
