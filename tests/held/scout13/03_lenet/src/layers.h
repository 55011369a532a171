#pragma once
#include "tensor.h"
#include <memory>
#include <random>

class Layer {
public:
    virtual ~Layer() = default;
    virtual const float *forward(const float *x, int n) = 0;
    virtual const float *backward(const float *dy, int n) = 0; // returns dx
    virtual std::vector<Parameter *> parameters() { return {}; }
};

// 3x3, stride 1, no padding, with ReLU
class Conv3x3 : public Layer {
public:
    Conv3x3(int maxBatch, int cin, int cout, int side, std::mt19937 &rng);
    const float *forward(const float *x, int n) override;
    const float *backward(const float *dy, int n) override;
    std::vector<Parameter *> parameters() override { return {&weight_, &bias_}; }

private:
    int cin_, cout_, side_, oside_;
    Parameter weight_, bias_;
    DeviceTensor out_, dx_, dz_;
    const float *x_ = nullptr;
};

class Linear : public Layer {
public:
    Linear(int maxBatch, int in, int out, std::mt19937 &rng);
    const float *forward(const float *x, int n) override;
    const float *backward(const float *dy, int n) override;
    std::vector<Parameter *> parameters() override { return {&weight_, &bias_}; }

private:
    int in_, out_;
    Parameter weight_, bias_;
    DeviceTensor y_, dx_;
    const float *x_ = nullptr;
};

class CrossEntropy {
public:
    CrossEntropy(int maxBatch, int classes) : classes_(classes), dz_(maxBatch * classes), loss_(maxBatch) {}
    const float *operator()(const float *z, const int *labels, int n);
    float mean(int n) const;

private:
    int classes_;
    DeviceTensor dz_, loss_;
};
