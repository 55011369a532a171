#pragma once
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <vector>

// A weight, its gradient and the two moments of Adam.
struct Variable {
    int size = 0;
    float *value = nullptr, *grad = nullptr, *m1 = nullptr, *m2 = nullptr;
};

// One LSTM layer and a linear read-out of the last hidden state; squared error.
// The input is [batch][steps][inputs]; gates are in the order i, f, g, o.
class LstmRegressor {
public:
    LstmRegressor(int inputs, int hidden, int steps, int batch, unsigned seed);
    ~LstmRegressor();

    void forward(const float *x);
    float loss(const float *target); // mean squared error; also starts the backward pass
    void backward(const float *x);
    float clip(float limit); // returns the norm before clipping
    void adam(float rate);

private:
    Variable variable(int size, float spread, float fill = 0.f);

    int in_, hid_, steps_, batch_, t_ = 0;
    unsigned seed_;
    cublasHandle_t blas_;
    Variable wx_, wh_, b_, wy_, by_;
    std::vector<Variable *> all_;
    float *h_, *c_, *gates_, *y_, *dy_, *dh_, *dc_, *dgates_, *err_;
};
