#pragma once
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#define CUDA_CHECK(expr)                                                                            \
    {                                                                                               \
        cudaError_t e = (expr);                                                                     \
        if (e != cudaSuccess) {                                                                     \
            std::fprintf(stderr, "%s failed: %s (%s:%d)\n", #expr, cudaGetErrorString(e), __FILE__, \
                         __LINE__);                                                                 \
            std::exit(1);                                                                           \
        }                                                                                           \
    }

// A trainable array together with its gradient and the moments of Adam.
struct Param {
    float *value = nullptr;
    float *grad = nullptr;
    float *m = nullptr;
    float *v = nullptr;
    int size = 0;

    void create(const std::vector<float> &init);
    ~Param();
};

class Layer {
public:
    virtual ~Layer() = default;
    virtual float *forward(float *input, int batch) = 0;
    virtual float *backward(float *gradOutput, int batch) = 0;
    virtual std::vector<Param *> params() { return {}; }
};

class Conv : public Layer {
public:
    Conv(int inC, int outC, int size, int kernel, int maxBatch, std::mt19937 &rng);
    ~Conv() override;
    float *forward(float *input, int batch) override;
    float *backward(float *gradOutput, int batch) override;
    std::vector<Param *> params() override { return {&weight, &bias}; }

private:
    int inC, outC, size, k, outSize;
    Param weight, bias;
    float *in = nullptr, *out = nullptr, *gradIn = nullptr;
};

class ReLU : public Layer {
public:
    ReLU(int n, int maxBatch);
    ~ReLU() override;
    float *forward(float *input, int batch) override;
    float *backward(float *gradOutput, int batch) override;

private:
    int n;
    float *out = nullptr, *gradIn = nullptr;
};

class MaxPool : public Layer {
public:
    MaxPool(int channels, int size, int maxBatch);
    ~MaxPool() override;
    float *forward(float *input, int batch) override;
    float *backward(float *gradOutput, int batch) override;

private:
    int c, size, outSize;
    float *out = nullptr, *gradIn = nullptr;
    int *argmax = nullptr;
};

class Dense : public Layer {
public:
    Dense(int in, int out, int maxBatch, std::mt19937 &rng);
    ~Dense() override;
    float *forward(float *input, int batch) override;
    float *backward(float *gradOutput, int batch) override;
    std::vector<Param *> params() override { return {&weight, &bias}; }

private:
    int nin, nout;
    Param weight, bias;
    float *in = nullptr, *out = nullptr, *gradIn = nullptr;
};

inline int divUp(int a, int b) { return (a + b - 1) / b; }
