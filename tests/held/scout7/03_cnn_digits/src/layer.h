#pragma once
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

inline void cudaCheck(cudaError_t e, const char *file, int line)
{
    if (e != cudaSuccess) {
        std::fprintf(stderr, "CUDA error %s at %s:%d\n", cudaGetErrorString(e), file, line);
        std::exit(EXIT_FAILURE);
    }
}
#define CUDA_CHECK(x) cudaCheck((x), __FILE__, __LINE__)

// Owning device buffer
class DeviceBuffer {
public:
    explicit DeviceBuffer(size_t n) : n_(n)
    {
        CUDA_CHECK(cudaMalloc(&p_, n * sizeof(float)));
        CUDA_CHECK(cudaMemset(p_, 0, n * sizeof(float)));
    }
    ~DeviceBuffer() { cudaFree(p_); }
    DeviceBuffer(const DeviceBuffer &) = delete;
    DeviceBuffer &operator=(const DeviceBuffer &) = delete;
    float *get() const { return p_; }
    size_t size() const { return n_; }
    void upload(const std::vector<float> &h) { CUDA_CHECK(cudaMemcpy(p_, h.data(), h.size() * sizeof(float), cudaMemcpyHostToDevice)); }

private:
    float *p_ = nullptr;
    size_t n_;
};

class Layer {
public:
    virtual ~Layer() {}
    virtual float *forward(float *input, int batch) = 0;
    virtual float *backward(float *gradOutput, int batch) = 0;
    virtual void step(float lr, float momentum) {}
    virtual int outputSize() const = 0;
};

// Weight, gradient and velocity together
struct Parameter {
    DeviceBuffer value, grad, velocity;
    Parameter(size_t n, float stddev, std::mt19937 &gen) : value(n), grad(n), velocity(n)
    {
        if (stddev > 0) {
            std::vector<float> h(n);
            std::normal_distribution<float> dist(0.f, stddev);
            for (auto &x : h) x = dist(gen);
            value.upload(h);
        }
    }
    void step(float lr, float momentum);
};

class Conv2D : public Layer {
public:
    Conv2D(int inC, int outC, int k, int h, int w, int maxBatch, std::mt19937 &gen);
    float *forward(float *input, int batch) override;
    float *backward(float *gradOutput, int batch) override;
    void step(float lr, float m) override { W.step(lr, m); b.step(lr, m); }
    int outputSize() const override { return outC * oh * ow; }

private:
    int inC, outC, k, h, w, oh, ow;
    Parameter W, b;
    DeviceBuffer out, gradIn;
    float *in = nullptr;
};

class MaxPool : public Layer {
public:
    MaxPool(int c, int h, int w, int maxBatch);
    ~MaxPool();
    float *forward(float *input, int batch) override;
    float *backward(float *gradOutput, int batch) override;
    int outputSize() const override { return c * (h / 2) * (w / 2); }

private:
    int c, h, w;
    DeviceBuffer out, gradIn;
    int *argmax;
};

class Dense : public Layer {
public:
    Dense(int in, int out, int maxBatch, std::mt19937 &gen);
    float *forward(float *input, int batch) override;
    float *backward(float *gradOutput, int batch) override;
    void step(float lr, float m) override { W.step(lr, m); b.step(lr, m); }
    int outputSize() const override { return nOut; }

private:
    int nIn, nOut;
    Parameter W, b;
    DeviceBuffer out, gradIn;
    float *in = nullptr;
};
