// Logistic regression by SVRG: every 15 steps an anchor point, and the gradient of all data there.
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>
#include "ddprun.h"

static const int kFeatures = 200, kData = 480, kBatch = 32, kPeriod = 15;

struct CudaFree {
    void operator()(float *p) const { cudaFree(p); }
};
typedef std::unique_ptr<float, CudaFree> Array;

static Array make(int n)
{
    float *p = nullptr;
    if (cudaMalloc(&p, n * sizeof(float)) != cudaSuccess || cudaMemset(p, 0, n * sizeof(float)) != cudaSuccess) {
        fprintf(stderr, "cannot allocate %d floats\n", n);
        exit(1);
    }
    return Array(p);
}

// slope of the logistic loss, example by example; labels are +1 and -1
__global__ void slopes(const float *x, const float *y, const float *w, float *s, float *loss, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float m = 0;
    for (int k = 0; k < kFeatures; ++k)
        m += x[i * kFeatures + k] * w[k];
    m *= y[i];
    s[i] = -y[i] / (1.0f + expf(m));
    if (loss)
        loss[i] = m > 0 ? log1pf(expf(-m)) : log1pf(expf(m)) - m;
}

__global__ void mean_gradient(const float *x, const float *s, float *g, int n)
{
    int k = threadIdx.x;
    if (k >= kFeatures)
        return;
    float sum = 0;
    for (int i = 0; i < n; ++i)
        sum += s[i] * x[i * kFeatures + k];
    g[k] = sum / n;
}

// gradient minus the same examples' gradient at the anchor
__global__ void subtract(float *g, const float *at_anchor)
{
    int k = threadIdx.x;
    if (k < kFeatures)
        g[k] -= at_anchor[k];
}

__global__ void move(float *w, const float *g, const float *full, float rate)
{
    int k = threadIdx.x;
    if (k < kFeatures)
        w[k] -= rate * (g[k] + full[k] + 1e-3f * w[k]);
}

int main(int argc, char **argv)
{
    const int steps = argc > 2 ? atoi(argv[2]) : 60;
    std::vector<float> x(kData * kFeatures), y(kData), host(kFeatures);
    unsigned state = 271828;
    auto next = [&state]() {
        state = state * 1664525u + 1013904223u;
        return (state >> 8) / 8388608.0f - 1.0f;
    };
    for (float &h : host)
        h = next();
    for (int i = 0; i < kData; ++i) {
        float s = 0.4f * next();
        for (int k = 0; k < kFeatures; ++k) {
            x[i * kFeatures + k] = next();
            s += x[i * kFeatures + k] * host[k];
        }
        y[i] = s > 0 ? 1.0f : -1.0f;
    }

    Array dx = make(kData * kFeatures), dy = make(kData), w = make(kFeatures), anchor = make(kFeatures);
    Array full = make(kFeatures), grad = make(kFeatures), old = make(kFeatures), slope = make(kData), losses = make(kData);
    cudaMemcpy(dx.get(), x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemcpy(dy.get(), y.data(), y.size() * sizeof(float), cudaMemcpyHostToDevice);
    DDP_PARAMETER(w.get(), kFeatures, DDP_FLOAT32);
    DDP_GRADIENT(grad.get(), kFeatures, DDP_FLOAT32);

    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        if (step % kPeriod == 0) {
            DDP_SHARD(kData, &first, &count);
            cudaMemcpy(anchor.get(), w.get(), kFeatures * sizeof(float), cudaMemcpyDeviceToDevice);
            const float *part = dx.get() + first * kFeatures;
            slopes<<<((int)count + 63) / 64, 64>>>(part, dy.get() + first, anchor.get(), slope.get(), losses.get(), (int)count);
            mean_gradient<<<1, 256>>>(part, slope.get(), full.get(), (int)count);
            DDP_REDUCE(full.get(), kFeatures, DDP_FLOAT32, DDP_OP_SUM, 0);
            std::vector<float> l(count);
            cudaMemcpy(l.data(), losses.get(), count * sizeof(float), cudaMemcpyDeviceToHost);
            double sum = 0;
            for (float v : l)
                sum += v;
            double mean = sum / count;
            DDP_MEAN_AS("loss", &mean);
            if (DDP_RANK() == 0)
                printf("step %d: loss of all data %.5f\n", step, mean);
        }
        DDP_SHARD(kBatch, &first, &count);
        const size_t at = ((size_t)step * kBatch * 7) % kData + first;
        const float *rows = dx.get() + at * kFeatures, *labels = dy.get() + at;
        slopes<<<1, kBatch>>>(rows, labels, anchor.get(), slope.get(), nullptr, (int)count);
        mean_gradient<<<1, 256>>>(rows, slope.get(), old.get(), (int)count);
        slopes<<<1, kBatch>>>(rows, labels, w.get(), slope.get(), nullptr, (int)count);
        mean_gradient<<<1, 256>>>(rows, slope.get(), grad.get(), (int)count);
        subtract<<<1, 256>>>(grad.get(), old.get());
        DDP_STEP(0);
        move<<<1, 256>>>(w.get(), grad.get(), full.get(), 0.5f);
    }
    if (cudaMemcpy(host.data(), w.get(), kFeatures * sizeof(float), cudaMemcpyDeviceToHost) != cudaSuccess)
        return 1;
    if (argc > 1 && DDP_RANK() == 0) {
        FILE *f = fopen(argv[1], "wb");
        fwrite(host.data(), sizeof(float), host.size(), f);
        fclose(f);
    }
    return 0;
}
