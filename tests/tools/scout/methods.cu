/*
 * methods.cu - a net whose memory is of classes: `this`, sizeof, and a copy to the device inside of the call that reads
 * it. One weight for each input and output; no annotations. Without SELF members are named as they are.
 */
#include "tests/lib/trainer.h"

#include <vector>

#ifndef SELF
#define SELF
#endif

enum { BATCH = 16, INPUTS = 12, OUTPUTS = 8, STEPS = 30 };

__global__ void
product(float *d, const float *x, const float *w)
{
    int k = (int)threadIdx.x;
    float sum = 0;
    for (int i = 0; i < INPUTS; ++i)
        sum += x[k / OUTPUTS * INPUTS + i] * w[i * OUTPUTS + k % OUTPUTS];
    d[k] = (sum - x[k / OUTPUTS * INPUTS + k % OUTPUTS]) / BATCH;
}

__global__ void
gradient(float *g, const float *x, const float *d)
{
    int k = (int)threadIdx.x;
    float sum = 0;
    for (int r = 0; r < BATCH; ++r)
        sum += x[r * INPUTS + k / OUTPUTS] * d[r * OUTPUTS + k % OUTPUTS];
    g[k] = sum;
}

__global__ void
sgd(float *w, const float *g)
{
    w[threadIdx.x] -= 0.05f * g[threadIdx.x];
}

struct tensor {
    float *gpu_;
    size_t count;
    float *data() const
    {
        return gpu_;
    }
    size_t bytes() const
    {
        return count * sizeof(float);
    }
    void allocate(size_t count);
    void fill(const std::vector<float> &values);
    static tensor of(const std::vector<float> &values);
};

void
tensor::allocate(size_t count)
{
    this->count = count;
    CHECK(cudaMalloc(&SELF gpu_, count * sizeof(float)));
}

void
tensor::fill(const std::vector<float> &values)
{
    CHECK(cudaMemcpy(data(), values.data(), bytes(), cudaMemcpyHostToDevice));
}

tensor
tensor::of(const std::vector<float> &values)
{
    tensor made;
    made.allocate(values.size());
    made.fill(values);
    return made;
}

struct network {
    tensor x, d, w, g;
    network();
    void forward(const std::vector<float> &batch);
};

network::network()
{
    std::vector<float> start(INPUTS * OUTPUTS);
    for (size_t i = 0; i < start.size(); ++i)
        start[i] = 0.1f * (float)(i % 7) - 0.3f;
    x.allocate(BATCH * INPUTS);
    d.allocate(BATCH * OUTPUTS);
    w = tensor::of(start);
    g.allocate(INPUTS * OUTPUTS);
}

void
network::forward(const std::vector<float> &batch)
{
    x.fill(batch);
    product<<<1, BATCH * OUTPUTS>>>(d.gpu_, x.gpu_, w.gpu_);
}

int
main()
{
    network network;
    std::vector<float> batch(BATCH * INPUTS);
    for (int step = 0; step < STEPS; ++step) {
        for (size_t i = 0; i < batch.size(); ++i)
            batch[i] = (float)((i * 37 + (size_t)step * 11) % 101) / 101 - 0.5f;
        network.forward(batch);
        gradient<<<1, INPUTS * OUTPUTS>>>(network.g.gpu_, network.x.gpu_, network.d.gpu_);
        sgd<<<1, INPUTS * OUTPUTS>>>(network.w.gpu_, network.g.gpu_);
    }
    CHECK(cudaDeviceSynchronize());
    return 0;
}
