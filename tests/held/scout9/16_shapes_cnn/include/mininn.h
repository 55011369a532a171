#ifndef MININN_H
#define MININN_H

#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#define NN_CHECK(e) ::nn::check((e), __FILE__, __LINE__)

namespace nn {

inline void check(cudaError_t e, const char *file, int line)
{
    if (e != cudaSuccess) {
        std::fprintf(stderr, "%s:%d: %s\n", file, line, cudaGetErrorString(e));
        std::abort();
    }
}

struct Dim {
    int c, h, w;
    int size() const { return c * h * w; }
};

// a trainable array and its gradient
struct Parameter {
    float *data = nullptr;
    float *grad = nullptr;
    int count = 0;
    void allocate(int n, float stddev, std::mt19937 &rng);
    void release();
};

class Layer {
public:
    virtual ~Layer() {}
    virtual Dim setup(Dim in, int maxBatch, std::mt19937 &rng) = 0;
    virtual const float *forward(const float *x, int n, cudaStream_t s) = 0;
    virtual float *backward(float *dy, int n, cudaStream_t s) = 0;
    virtual void parameters(std::vector<Parameter *> &) {}
};

class Conv3x3 : public Layer {   // no padding, followed by ReLU
public:
    explicit Conv3x3(int filters) : filters_(filters) {}
    ~Conv3x3() override;
    Dim setup(Dim in, int maxBatch, std::mt19937 &rng) override;
    const float *forward(const float *x, int n, cudaStream_t s) override;
    float *backward(float *dy, int n, cudaStream_t s) override;
    void parameters(std::vector<Parameter *> &p) override { p.push_back(&kernel_); p.push_back(&bias_); }

private:
    int filters_;
    Dim in_, out_;
    Parameter kernel_, bias_;
    const float *x_ = nullptr;
    float *y_ = nullptr, *dx_ = nullptr;
};

class MaxPool2 : public Layer {
public:
    ~MaxPool2() override;
    Dim setup(Dim in, int maxBatch, std::mt19937 &rng) override;
    const float *forward(const float *x, int n, cudaStream_t s) override;
    float *backward(float *dy, int n, cudaStream_t s) override;

private:
    Dim in_, out_;
    float *y_ = nullptr, *dx_ = nullptr;
    unsigned char *arg_ = nullptr;
};

class Dense : public Layer {
public:
    explicit Dense(int units) : units_(units) {}
    ~Dense() override;
    Dim setup(Dim in, int maxBatch, std::mt19937 &rng) override;
    const float *forward(const float *x, int n, cudaStream_t s) override;
    float *backward(float *dy, int n, cudaStream_t s) override;
    void parameters(std::vector<Parameter *> &p) override { p.push_back(&weight_); p.push_back(&bias_); }

private:
    int units_, in_ = 0;
    Parameter weight_, bias_;
    const float *x_ = nullptr;
    float *y_ = nullptr, *dx_ = nullptr;
};

class SoftmaxLoss {
public:
    SoftmaxLoss(int classes, int maxBatch);
    ~SoftmaxLoss();
    // gradient of the mean loss with respect to the logits
    float *compute(const float *logits, const int *labels, int n, cudaStream_t s);
    float loss(int n, cudaStream_t s);   // mean of the last batch; waits
    float accuracy(int n, cudaStream_t s);

private:
    int classes_;
    float *grad_, *stats_;   // stats: loss and hit of each sample
    std::vector<float> host_;
};

class Sequential {
public:
    Sequential(Dim input, int maxBatch, unsigned seed) : dim_(input), maxBatch_(maxBatch), rng_(seed) {}
    template <class L, class... Args> Sequential &add(Args... args)
    {
        layers_.emplace_back(new L(args...));
        dim_ = layers_.back()->setup(dim_, maxBatch_, rng_);
        return *this;
    }
    const float *forward(const float *x, int n, cudaStream_t s);
    void backward(float *dy, int n, cudaStream_t s);
    std::vector<Parameter *> parameters();

private:
    Dim dim_;
    int maxBatch_;
    std::mt19937 rng_;
    std::vector<std::unique_ptr<Layer>> layers_;
};

class Nesterov {
public:
    Nesterov(const std::vector<Parameter *> &params, float lr, float momentum, float decay);
    ~Nesterov();
    void setRate(float lr) { lr_ = lr; }
    void step(cudaStream_t s);

private:
    std::vector<Parameter *> params_;
    std::vector<float *> velocity_;
    float lr_, momentum_, decay_;
};

} // namespace nn
#endif
