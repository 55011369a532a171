#ifndef LAYERS_H
#define LAYERS_H

#include <cstddef>
#include <random>

// Every layer owns its output and the gradient with respect to its input.
class Layer {
public:
    virtual ~Layer() {}
    virtual float *forward(const float *input) = 0;
    virtual float *backward(const float *grad_output) = 0;
    virtual void update(float lr, float momentum) { (void)lr; (void)momentum; }
};

class Conv2D : public Layer {
public:
    Conv2D(int batch, int in_channels, int height, int width, int out_channels, int kernel, std::mt19937 &rng);
    ~Conv2D() override;
    float *forward(const float *input) override;
    float *backward(const float *grad_output) override;
    void update(float lr, float momentum) override;

private:
    int N, C, H, W, K, R, OH, OW;
    const float *input_ = nullptr;
    float *weights, *bias, *d_weights, *d_bias, *v_weights, *v_bias;
    float *output, *d_input;
};

class ReLU : public Layer {
public:
    explicit ReLU(int size);
    ~ReLU() override;
    float *forward(const float *input) override;
    float *backward(const float *grad_output) override;

private:
    int size;
    float *output, *d_input;
};

class MaxPool2D : public Layer {
public:
    MaxPool2D(int batch, int channels, int height, int width);
    ~MaxPool2D() override;
    float *forward(const float *input) override;
    float *backward(const float *grad_output) override;

private:
    int planes, H, W;
    int *argmax;
    float *output, *d_input;
};

class Dense : public Layer {
public:
    Dense(int batch, int in, int out, std::mt19937 &rng);
    ~Dense() override;
    float *forward(const float *input) override;
    float *backward(const float *grad_output) override;
    void update(float lr, float momentum) override;

private:
    int N, in, out;
    const float *input_ = nullptr;
    float *weights, *bias, *d_weights, *d_bias, *v_weights, *v_bias;
    float *output, *d_input;
};

class SoftmaxCrossEntropy {
public:
    SoftmaxCrossEntropy(int batch, int classes);
    ~SoftmaxCrossEntropy();
    float loss(const float *logits, const int *labels);   // mean over the batch
    float *gradient() { return d_logits; }

private:
    int N, classes;
    float *d_logits, *losses;
};

#endif
