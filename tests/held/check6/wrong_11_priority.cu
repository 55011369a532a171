// Regression by a small network; rows are sampled in proportion to the loss that they had when they were last used.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>
#include "ddprun.h"

#define CHECK(x)                                                                   \
    do {                                                                           \
        cudaError_t r_ = (x);                                                      \
        if (r_ != cudaSuccess) {                                                   \
            std::fprintf(stderr, "%d: %s\n", __LINE__, cudaGetErrorString(r_));    \
            std::exit(1);                                                          \
        }                                                                          \
    } while (0)

constexpr int kRows = 320, kIn = 4, kHidden = 48, kBatch = 40;
constexpr int kParams = kHidden * (kIn + 2) + 1; // w1 [hidden][in], b1, w2, b2

class Generator {
  public:
    explicit Generator(uint64_t s) : state(s) {}
    double operator()()
    {
        uint64_t z = (state += 0x9E3779B97F4A7C15ull);
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
        return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
    }

  private:
    uint64_t state;
};

class PrioritySampler {
  public:
    PrioritySampler(int rows, double initial, uint64_t seed) : priority(rows, initial), random(seed) {}
    std::vector<int> sample(int n)
    {
        std::vector<double> sums(priority.size());
        std::partial_sum(priority.begin(), priority.end(), sums.begin());
        std::vector<int> chosen(n);
        for (int i = 0; i < n; ++i) {
            double at = random() * sums.back();
            int low = 0, high = (int)sums.size() - 1;
            while (low < high) {
                int middle = (low + high) / 2;
                if (sums[middle] > at) high = middle; else low = middle + 1;
            }
            chosen[i] = low;
        }
        return chosen;
    }
    void update(int row, double loss) { priority[row] = std::pow(loss + 1e-3, 0.6); }

  private:
    std::vector<double> priority;
    Generator random;
};

struct Batch {
    float *x, *y;
    int n;
};

__global__ void forward(Batch b, const float *p, float *h, float *d, float *loss)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= b.n) return;
    float s = p[kParams - 1];
    for (int j = 0; j < kHidden; ++j) {
        float a = p[kHidden * kIn + j];
        for (int k = 0; k < kIn; ++k) a += p[j * kIn + k] * b.x[r * kIn + k];
        a = a / (1.f + fabsf(a)); // softsign
        h[r * kHidden + j] = a;
        s += a * p[kHidden * (kIn + 1) + j];
    }
    float e = s - b.y[r];
    loss[r] = logf(coshf(e));
    d[r] = tanhf(e) / b.n;
}

__global__ void backward(Batch b, const float *p, const float *h, const float *d, float *g)
{
    int j = threadIdx.x;
    float gw[kIn] = {}, gb = 0, gv = 0, g0 = 0;
    for (int r = 0; r < b.n; ++r) {
        float a = h[r * kHidden + j], q = 1.f - fabsf(a);
        float e = d[r] * p[kHidden * (kIn + 1) + j] * q * q;
        for (int k = 0; k < kIn; ++k) gw[k] += e * b.x[r * kIn + k];
        gb += e;
        gv += d[r] * a;
        g0 += d[r];
    }
    for (int k = 0; k < kIn; ++k) g[j * kIn + k] = gw[k];
    g[kHidden * kIn + j] = gb;
    g[kHidden * (kIn + 1) + j] = gv;
    if (j == 0) g[kParams - 1] = g0;
}

__global__ void rmsprop(float *p, float *square, const float *g, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= kParams) return;
    square[i] = 0.95f * square[i] + 0.05f * g[i] * g[i];
    p[i] -= rate * g[i] * rsqrtf(square[i] + 1e-5f);
}

int main(int argc, char **argv)
{
    const int steps = argc > 2 ? std::atoi(argv[2]) : 60;
    Generator data(11);
    std::vector<float> X(kRows * kIn), Y(kRows), start(kParams);
    for (int i = 0; i < kRows; ++i) {
        float *x = &X[i * kIn];
        for (int k = 0; k < kIn; ++k) x[k] = (float)(2 * data() - 1);
        Y[i] = 2 * std::sin(3 * x[0]) * x[1] + x[2] * x[2] - (x[3] > 0.5f ? 1.f : 0.f);
    }
    for (float &v : start) v = (float)(data() - 0.5);

    float *params, *grads, *square, *h, *d, *loss;
    Batch batch;
    CHECK(cudaMalloc(&params, kParams * sizeof(float)));
    CHECK(cudaMalloc(&grads, kParams * sizeof(float)));
    CHECK(cudaMalloc(&square, kParams * sizeof(float)));
    CHECK(cudaMalloc(&h, kBatch * kHidden * sizeof(float)));
    CHECK(cudaMalloc(&d, kBatch * sizeof(float)));
    CHECK(cudaMalloc(&loss, kBatch * sizeof(float)));
    CHECK(cudaMalloc(&batch.x, kBatch * kIn * sizeof(float)));
    CHECK(cudaMalloc(&batch.y, kBatch * sizeof(float)));
    CHECK(cudaMemcpy(params, start.data(), kParams * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(square, 0, kParams * sizeof(float)));
    DDP_PARAMETER(params, kParams, DDP_TYPE_OF(params));
    DDP_STATE(square, kParams, DDP_TYPE_OF(square));
    DDP_GRADIENT(grads, kParams, DDP_TYPE_OF(grads));

    PrioritySampler sampler(kRows, 1.0, 2024);
    for (int step = 0; step < steps; ++step) {
        std::vector<int> rows = sampler.sample(kBatch);
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        std::vector<float> x(count * kIn), y(count), l(count);
        for (size_t i = 0; i < count; ++i) {
            int row = rows[first + i];
            for (int k = 0; k < kIn; ++k) x[i * kIn + k] = X[row * kIn + k];
            y[i] = Y[row];
        }
        batch.n = (int)count;
        CHECK(cudaMemcpy(batch.x, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice));
        CHECK(cudaMemcpy(batch.y, y.data(), y.size() * sizeof(float), cudaMemcpyHostToDevice));
        forward<<<2, 32>>>(batch, params, h, d, loss);
        backward<<<1, kHidden>>>(batch, params, h, d, grads);
        DDP_STEP(0);
        rmsprop<<<(kParams + 63) / 64, 64>>>(params, square, grads, 0.01f);
        CHECK(cudaMemcpy(l.data(), loss, count * sizeof(float), cudaMemcpyDeviceToHost));
        double mean = 0;
        for (size_t i = 0; i < count; ++i) {
            sampler.update(rows[first + i], l[i]);
            mean += l[i] / count;
        }
        DDP_MEAN_AS("loss of the batch", &mean);
        if (DDP_RANK() == 0 && (step % 10 == 0 || step == steps - 1)) std::printf("%3d %.5f\n", step, mean);
    }
    CHECK(cudaMemcpy(start.data(), params, kParams * sizeof(float), cudaMemcpyDeviceToHost));
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = std::fopen(argv[1], "wb");
        std::fwrite(start.data(), sizeof(float), kParams, f);
        std::fclose(f);
    }
    return 0;
}
