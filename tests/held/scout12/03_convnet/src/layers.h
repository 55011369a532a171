#pragma once
#include <vector>
#include <cuda_runtime.h>

struct Param {
    float *value, *grad, *m, *v;
    int size;
};

class Layer {
public:
    virtual ~Layer() {}
    virtual float *forward(float *in, int n) = 0;
    virtual float *backward(float *dout, int n) = 0;
    virtual void collect(std::vector<Param *> &) {}
};

class Conv : public Layer {
public:
    Conv(int cin, int cout, int size, int maxBatch);   // 3x3, no padding
    ~Conv();
    float *forward(float *in, int n) override;
    float *backward(float *dout, int n) override;
    void collect(std::vector<Param *> &p) override { p.push_back(&w); p.push_back(&b); }
private:
    int cin, cout, size, osize;
    Param w, b;
    float *in, *out, *din;
};

class MaxPool : public Layer {
public:
    MaxPool(int c, int size, int maxBatch);
    ~MaxPool();
    float *forward(float *in, int n) override;
    float *backward(float *dout, int n) override;
private:
    int c, size, osize;
    float *out, *din;
    int *arg;
};

class Relu : public Layer {
public:
    Relu(int width, int maxBatch);
    ~Relu();
    float *forward(float *in, int n) override;
    float *backward(float *dout, int n) override;
private:
    int width;
    float *out, *din;
};

class Dense : public Layer {
public:
    Dense(int in, int out, int maxBatch);
    ~Dense();
    float *forward(float *in, int n) override;
    float *backward(float *dout, int n) override;
    void collect(std::vector<Param *> &p) override { p.push_back(&w); p.push_back(&b); }
private:
    int nin, nout;
    Param w, b;
    float *in, *out, *din;
};

class SoftmaxLoss {
public:
    SoftmaxLoss(int classes, int maxBatch);
    ~SoftmaxLoss();
    float forward(const float *logits, const int *labels, int n);
    float *backward() { return dlogits; }
private:
    int classes;
    float *dlogits, *loss;
};

class Adam {
public:
    explicit Adam(float lr) : lr(lr), t(0) {}
    void add(Param *p);
    void step();
private:
    float lr;
    int t;
    std::vector<Param *> params;
};
