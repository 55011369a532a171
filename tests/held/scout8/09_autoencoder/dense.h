#pragma once
#include "common.h"

// Fully connected layer, column major: a batch of n samples is an (in x n) matrix.
class Dense {
public:
    Dense(cublasHandle_t h, int in, int out, int max_batch, bool sigmoid, unsigned seed);
    ~Dense();
    Dense(const Dense &) = delete;

    const float *forward(const float *x, int n, cudaStream_t s);
    // d_out: dLoss/d(output), is overwritten; returns dLoss/d(input)
    float *backward(float *d_out, int n, cudaStream_t s, bool need_dx);
    void step(float lr, float momentum, cudaStream_t s);
    int outputs() const { return out_; }

private:
    cublasHandle_t handle_;
    int in_, out_;
    bool sigmoid_;
    const float *x_ = nullptr;
    float *w_, *b_, *dw_, *db_, *vw_, *vb_;
    float *y_, *dx_, *ones_;
};
