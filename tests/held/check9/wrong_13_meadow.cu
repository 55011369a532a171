// Binary classifier of pollen grains trained on a changing selection: examples with a larger last loss are drawn more often.
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <algorithm>
#include <vector>
#include "ddprun.h"

#define IN 18
#define HID 26
#define POOL 300
#define BATCH 36
#define PARAMS (IN * HID + HID + HID + 1)

struct Generator {
    unsigned long long x;
    double operator()()
    {
        x ^= x >> 12; x ^= x << 25; x ^= x >> 27;
        return (double)((x * 2685821657736338717ULL) >> 11) / 9007199254740992.0;
    }
};

// Which examples to draw next.
class Chooser {
public:
    Chooser(int n, unsigned long long seed) : last(n, 1.0f), draw{seed} {}
    void choose(int *index, int n)
    {
        std::vector<double> cumulative(last.size());
        double total = 0;
        for (size_t i = 0; i < last.size(); ++i) cumulative[i] = total += 0.25 + last[i];
        for (int k = 0; k < n; ++k) {
            double u = draw() * total;
            index[k] = (int)(std::upper_bound(cumulative.begin(), cumulative.end(), u) - cumulative.begin());
            if (index[k] >= (int)last.size()) index[k] = (int)last.size() - 1;
        }
    }
    void report(const int *index, const float *loss, size_t n)
    {
        for (size_t k = 0; k < n; ++k) last[index[k]] = loss[k];
    }
private:
    std::vector<float> last;
    Generator draw;
};

__global__ void forward(const float *p, const float *x, const float *y, const int *index, float *act, float *d, float *loss, int n)
{
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= n) return;
    const float *in = x + index[r] * IN, *b = p + IN * HID, *v = b + HID;
    float z = v[HID];
    for (int j = 0; j < HID; ++j) {
        float a = b[j];
        for (int k = 0; k < IN; ++k) a += in[k] * p[k * HID + j];
        act[r * HID + j] = a / (1 + fabsf(a));
        z += act[r * HID + j] * v[j];
    }
    float t = y[index[r]], m = t > 0.5f ? z : -z;
    loss[r] = m > 0 ? log1pf(expf(-m)) : -m + log1pf(expf(m));
    d[r] = (1 / (1 + expf(-z)) - t) / n;
}

__global__ void backward(const float *p, const float *x, const int *index, const float *act, const float *d, float *g, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= PARAMS) return;
    const float *v = p + IN * HID + HID;
    float s = 0;
    for (int r = 0; r < n; ++r) {
        if (i < IN * HID + HID) {
            int j = i < IN * HID ? i % HID : i - IN * HID;
            float q = 1 - fabsf(act[r * HID + j]);
            s += d[r] * v[j] * q * q * (i < IN * HID ? x[index[r] * IN + i / HID] : 1.0f);
        } else {
            s += d[r] * (i < PARAMS - 1 ? act[r * HID + i - IN * HID - HID] : 1.0f);
        }
    }
    g[i] = s;
}

__global__ void sgd(float *p, const float *g, float *v, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= PARAMS) return;
    v[i] = 0.7f * v[i] + g[i];
    p[i] -= rate * v[i];
}

int main(int argc, char **argv)
{
    int steps = argc > 2 ? atoi(argv[2]) : 60;
    Generator rnd{0x2545F4914F6CDD1DULL};
    std::vector<float> x(POOL * IN), y(POOL), host(PARAMS);
    for (int i = 0; i < POOL; ++i) {
        for (int k = 0; k < IN; ++k) x[i * IN + k] = (float)(2 * rnd() - 1);
        float s = x[i * IN] * x[i * IN + 1] * 2 + 2 * x[i * IN + 2] - 2 * x[i * IN + 3] + 0.6f * x[i * IN + 4];
        y[i] = s + 0.3 * (rnd() - 0.5) > 0;
    }
    for (float &e : host) e = (float)(0.7 * (rnd() - 0.5));

    float *p, *g, *v, *dx, *dy, *act, *d, *loss;
    int *index;
    cudaMalloc(&p, PARAMS * sizeof(float)); cudaMalloc(&g, PARAMS * sizeof(float)); cudaMalloc(&v, PARAMS * sizeof(float));
    cudaMalloc(&dx, x.size() * sizeof(float)); cudaMalloc(&dy, y.size() * sizeof(float));
    cudaMalloc(&act, BATCH * HID * sizeof(float)); cudaMalloc(&d, BATCH * sizeof(float));
    cudaMalloc(&loss, BATCH * sizeof(float)); cudaMalloc(&index, BATCH * sizeof(int));
    cudaMemcpy(p, host.data(), PARAMS * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(dx, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(dy, y.data(), y.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(v, 0, PARAMS * sizeof(float));
    DDP_PARAMETER(p, PARAMS, DDP_FLOAT32);
    DDP_STATE(v, PARAMS, DDP_FLOAT32);
    DDP_GRADIENT(g, PARAMS, DDP_FLOAT32);

    Chooser chooser(POOL, 88172645463325252ULL);
    int chosen[BATCH];
    float hl[BATCH];
    for (int s = 0; s < steps; ++s) {
        size_t first, count;
        chooser.choose(chosen, BATCH);
        DDP_SHARD(BATCH, &first, &count);
        int n = (int)count;
        cudaMemcpy(index, chosen + first, count * sizeof(int), cudaMemcpyHostToDevice);
        forward<<<(n + 31) / 32, 32>>>(p, dx, dy, index, act, d, loss, n);
        backward<<<(PARAMS + 63) / 64, 64>>>(p, dx, index, act, d, g, n);
        cudaMemcpy(hl, loss, count * sizeof(float), cudaMemcpyDeviceToHost);
        chooser.report(chosen + first, hl, count);
        DDP_STEP(0);
        sgd<<<(PARAMS + 63) / 64, 64>>>(p, g, v, 0.5f);
        double mean = 0;
        for (int r = 0; r < n; ++r) mean += hl[r] / n;
        DDP_MEAN_AS("loss", &mean);
        if (s % 10 == 0 || s == steps - 1) printf("step %d loss %.4f\n", s, mean);
    }
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "w");
        cudaMemcpy(host.data(), p, PARAMS * sizeof(float), cudaMemcpyDeviceToHost);
        for (float e : host) fprintf(f, "%.9g\n", e);
        fclose(f);
    }
    return 0;
}
