// Regression by a two-layer network with cuBLAS. Warm-up, then a cosine over the planned number of samples.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>
#include "ddprun.h"

namespace {

constexpr int kIn = 12, kHidden = 24, kBatch = 32, kData = 640;

void must(bool good, const char *what)
{
    if (!good) {
        std::fprintf(stderr, "error: %s\n", what);
        std::exit(1);
    }
}

__global__ void addBiasTanh(float *h, const float *b, int rows)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id < rows * kHidden)
        h[id] = tanhf(h[id] + b[id % kHidden]);
}

__global__ void residual(const float *y, const float *t, float *dy, int rows)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows)
        dy[i] = (y[i] - t[i]) / rows;
}

__global__ void tanhBack(float *dh, const float *h, int rows)
{
    int id = blockIdx.x * blockDim.x + threadIdx.x;
    if (id < rows * kHidden)
        dh[id] *= 1.0f - h[id] * h[id];
}

__global__ void rowSum(const float *dh, float *db, int rows)
{
    int c = threadIdx.x;
    float s = 0;
    for (int r = 0; r < rows; ++r)
        s += dh[r * kHidden + c];
    db[c] = s;
}

__global__ void update(float *w, const float *g, float *v, int n, float lr)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        v[i] = 0.8f * v[i] - lr * g[i];
        w[i] += v[i];
    }
}

class Schedule {
public:
    Schedule(float peak, long warm, long total) : peak_(peak), warm_(warm), total_(total), seen_(0) {}
    void advance(size_t samples) { seen_ += (long)samples; }
    float rate() const
    {
        if (seen_ < warm_)
            return peak_ * (float)seen_ / (float)warm_;
        float x = (float)(seen_ - warm_) / (float)(total_ - warm_);
        return peak_ * 0.5f * (1.0f + std::cos(3.14159265f * std::fmin(x, 1.0f)));
    }

private:
    float peak_;
    long warm_, total_, seen_;
};

struct DeviceArray {
    float *p = nullptr;
    int n;
    explicit DeviceArray(int count) : n(count)
    {
        must(cudaMalloc(&p, n * sizeof(float)) == cudaSuccess, "malloc");
        must(cudaMemset(p, 0, n * sizeof(float)) == cudaSuccess, "memset");
    }
    ~DeviceArray() { cudaFree(p); }
};

unsigned lcg = 99u;
float symmetric()
{
    lcg = lcg * 1664525u + 1013904223u;
    return (lcg >> 8) / 8388608.0f - 1.0f;
}

} // namespace

int main(int argc, char **argv)
{
    const int steps = argc > 2 ? std::atoi(argv[2]) : 60;
    const int n1 = kIn * kHidden, n = n1 + 2 * kHidden; // W1, b1, w2 in one array
    std::vector<float> x(kData * kIn), t(kData), init(n);
    for (float &v : init)
        v = 0.4f * symmetric();
    for (int i = 0; i < kData; ++i) {
        float s = 0;
        for (int k = 0; k < kIn; ++k) {
            x[i * kIn + k] = symmetric();
            s += x[i * kIn + k] * (k % 3 - 1);
        }
        t[i] = std::sin(s) + 0.5f * x[i * kIn] * x[i * kIn + 1] + 0.05f * symmetric();
    }

    cublasHandle_t blas;
    must(cublasCreate(&blas) == CUBLAS_STATUS_SUCCESS, "cublasCreate");
    DeviceArray w(n), g(n), v(n), dx(kBatch * kIn), dt(kBatch), h(kBatch * kHidden), dh(kBatch * kHidden), y(kBatch), dy(kBatch);
    must(cudaMemcpy(w.p, init.data(), n * sizeof(float), cudaMemcpyHostToDevice) == cudaSuccess, "copy");
    DDP_PARAMETER(w.p, n, DDP_FLOAT32);
    DDP_STATE(v.p, n, DDP_FLOAT32);
    DDP_GRADIENT(g.p, n, DDP_FLOAT32);

    Schedule schedule(0.15f, 8 * kBatch, 60 * kBatch);
    const float one = 1.0f, zero = 0.0f;
    for (int step = 0; step < steps; ++step) {
        size_t first, count;
        DDP_SHARD(kBatch, &first, &count);
        const int rows = (int)count;
        const size_t at = (size_t)step * kBatch % kData + first;
        cudaMemcpy(dx.p, &x[at * kIn], count * kIn * sizeof(float), cudaMemcpyHostToDevice);
        cudaMemcpy(dt.p, &t[at], count * sizeof(float), cudaMemcpyHostToDevice);

        // column-major: h (kHidden x rows) = W1 (kHidden x kIn) * x (kIn x rows)
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, kHidden, rows, kIn, &one, w.p, kHidden, dx.p, kIn, &zero, h.p, kHidden);
        addBiasTanh<<<(rows * kHidden + 127) / 128, 128>>>(h.p, w.p + n1, rows);
        cublasSgemv(blas, CUBLAS_OP_T, kHidden, rows, &one, h.p, kHidden, w.p + n1 + kHidden, 1, &zero, y.p, 1);
        residual<<<1, kBatch>>>(y.p, dt.p, dy.p, rows);

        cublasSgemv(blas, CUBLAS_OP_N, kHidden, rows, &one, h.p, kHidden, dy.p, 1, &zero, g.p + n1 + kHidden, 1);
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, kHidden, rows, 1, &one, w.p + n1 + kHidden, kHidden, dy.p, 1, &zero, dh.p, kHidden);
        tanhBack<<<(rows * kHidden + 127) / 128, 128>>>(dh.p, h.p, rows);
        rowSum<<<1, kHidden>>>(dh.p, g.p + n1, rows);
        cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, kHidden, kIn, rows, &one, dh.p, kHidden, dx.p, kIn, &zero, g.p, kHidden);

        DDP_STEP(0);
        schedule.advance(count);
        update<<<(n + 127) / 128, 128>>>(w.p, g.p, v.p, n, schedule.rate());

        float loss = 0;
        std::vector<float> r(count);
        cudaMemcpy(r.data(), dy.p, count * sizeof(float), cudaMemcpyDeviceToHost);
        for (float e : r)
            loss += 0.5f * e * e * count;
        DDP_MEAN_AS("loss", &loss);
        if (DDP_RANK() == 0 && step % 10 == 0)
            std::printf("step %2d  rate %.4f  loss %.5f\n", step, schedule.rate(), loss);
    }
    must(cudaDeviceSynchronize() == cudaSuccess, "synchronize");
    if (argc > 1 && DDP_RANK() == 0) {
        cudaMemcpy(init.data(), w.p, n * sizeof(float), cudaMemcpyDeviceToHost);
        FILE *f = std::fopen(argv[1], "wb");
        std::fwrite(init.data(), sizeof(float), n, f);
        std::fclose(f);
    }
    cublasDestroy(blas);
    return 0;
}
