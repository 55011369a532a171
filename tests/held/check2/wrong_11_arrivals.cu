// Poisson regression: how many parcels arrive in an hour, from 10 features of the hour. Several epochs over a small
// table, in batches of 32; what remains at the end of an epoch is a smaller batch.
#include <ddprun.h>
#include <cuda_runtime.h>
#include <algorithm>
#include <new>
#include <cmath>
#include <iostream>
#include <random>
#include <vector>

using std::size_t;
static constexpr size_t COLS = 10, HOURS = 83, BATCH = 32, EPOCHS = 5;

struct Hour {
    float feature[COLS];
    float parcels;
};

__device__ float linear(const Hour &h, const float *w)
{
    float z = 0.0f;
    for (size_t c = 0; c < COLS; ++c)
        z += h.feature[c] * w[c];
    return z;
}

__global__ void expected_rate(const Hour *hours, const float *w, float *excess, float *deviance, unsigned n)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float z = linear(hours[i], w), rate = expf(z);
        excess[i] = rate - hours[i].parcels;
        deviance[i] = rate - hours[i].parcels * z;
    }
}

__global__ void mean_gradient(const Hour *hours, const float *excess, float *dw, unsigned n)
{
    float s = 0.0f;
    for (unsigned i = 0; i < n; ++i)
        s += excess[i] * hours[i].feature[threadIdx.x];
    dw[threadIdx.x] = s / n;
}

__global__ void rmsprop(float *w, float *square, const float *dw, float rate)
{
    unsigned c = threadIdx.x;
    square[c] = 0.9f * square[c] + 0.1f * dw[c] * dw[c];
    w[c] -= rate * dw[c] / (sqrtf(square[c]) + 1e-3f);
}

class Trainer {
public:
    Trainer()
    {
        grab(&w_, COLS), grab(&dw_, COLS), grab(&square_, COLS);
        grab(&hours_, BATCH), grab(&excess_, BATCH), grab(&deviance_, BATCH);
        DDP_PARAMETER(w_, COLS, DDP_FLOAT32);
        DDP_STATE(square_, COLS, DDP_FLOAT32);
        DDP_GRADIENT(dw_, COLS, DDP_FLOAT32);
    }
    ~Trainer()
    {
        for (void *p : memory_)
            cudaFree(p);
    }

    // One update; returns the sum of the deviances of this process's hours.
    float step(const Hour *batch, size_t size, float rate)
    {
        size_t first, count;
        DDP_SHARD(size, &first, &count);
        const unsigned n = static_cast<unsigned>(count);
        cudaMemcpy(hours_, batch + first, count * sizeof(Hour), cudaMemcpyHostToDevice);
        expected_rate<<<1, BATCH>>>(hours_, w_, excess_, deviance_, n);
        mean_gradient<<<1, COLS>>>(hours_, excess_, dw_, n);
        DDP_STEP(0);
        rmsprop<<<1, COLS>>>(w_, square_, dw_, rate);
        std::vector<float> d(count);
        cudaMemcpy(d.data(), deviance_, count * sizeof(float), cudaMemcpyDeviceToHost);
        float sum = 0.0f;
        for (float v : d)
            sum += v;
        return sum;
    }

private:
    template <class T> void grab(T **p, size_t n)
    {
        if (cudaMalloc(p, n * sizeof(T)) != cudaSuccess || cudaMemset(*p, 0, n * sizeof(T)) != cudaSuccess)
            throw std::bad_alloc();
        memory_.push_back(*p);
    }
    std::vector<void *> memory_;
    float *w_, *dw_, *square_, *excess_, *deviance_;
    Hour *hours_;
};

int main()
{
    std::minstd_rand random(7);
    auto unit = [&] { return (random() - 1) / 2147483646.0f; };
    std::vector<Hour> table(HOURS);
    for (Hour &h : table) {
        float z = 0.8f;
        for (size_t c = 0; c < COLS; ++c) {
            h.feature[c] = c == 0 ? 1.0f : unit() - 0.3f;
            z += h.feature[c] * (c % 4 == 1 ? 0.9f : c % 4 == 2 ? -0.6f : 0.0f);
        }
        h.parcels = std::floor(std::exp(z) + 2.0f * unit());
    }

    Trainer trainer;
    for (size_t epoch = 0; epoch < EPOCHS; ++epoch) {
        for (size_t i = HOURS - 1; i > 0; --i)
            std::swap(table[i], table[random() % (i + 1)]);
        float deviance = 0.0f;
        for (size_t at = 0; at < HOURS; at += BATCH)
            deviance += trainer.step(&table[at], std::min(BATCH, HOURS - at), 0.1f);
        DDP_REDUCE(&deviance, 1, DDP_FLOAT32, DDP_OP_SUM, 0);
        if (DDP_RANK() == 0)
            std::cout << "epoch " << epoch << ": " << deviance / HOURS << std::endl;
    }
    return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
