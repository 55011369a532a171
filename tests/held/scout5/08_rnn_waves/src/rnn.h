#pragma once
#include <vector>

// A parameter with its gradient and the optimizer's accumulator.
struct Parameter {
    float *data = nullptr, *grad = nullptr, *cache = nullptr;
    int size = 0;
    void init(int n, float scale, unsigned &seed);
    void release();
};

// h_t = tanh(x_t Wx + h_{t-1} Wh + b),  y = h_T Wy + by (one output: the next value)
class RNN {
public:
    RNN(int hidden, int seq_len, int max_batch, unsigned seed);
    ~RNN();
    // x: seq_len x batch on the device, target: batch
    void forward(const float *x, int batch);
    float loss(const float *target, int batch); // fills the gradient of y
    void backward(const float *x, int batch);
    void zero_grad();
    std::vector<Parameter *> parameters() { return {&Wx, &Wh, &b, &Wy, &by}; }

private:
    Parameter Wx, Wh, b, Wy, by;
    int H, T, maxB;
    float *h;            // (T + 1) x batch x H, h[0] = 0
    float *dh, *dz;      // batch x H
    float *y, *dy, *sq;  // batch
};
