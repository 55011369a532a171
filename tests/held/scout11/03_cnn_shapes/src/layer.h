#pragma once
#include <cuda_runtime.h>

// Static buffers of one layer (weights, activations and their gradients)
class Layer {
public:
    int M, N, O; // weights per neuron, neurons (feature maps), outputs per image

    float *output;
    float *preact;
    float *bias;
    float *weight;

    float *d_preact;
    float *d_output;
    float *d_weight;
    float *d_bias;

    Layer(int M, int N, int O, int batch);
    ~Layer();
};

void conv_forward(const float *in, Layer &l, int n);
void pool_forward(const Layer &in, Layer &l, int n);
void fc_forward(const float *in, int in_size, Layer &l, int n);
void loss_grad(Layer &l, const unsigned int *labels, float *err, int n);
void fc_backward(Layer &l, const float *in, float *d_in, int in_size, int n);
void pool_backward(Layer &l, Layer &in, int n);
void conv_backward(Layer &l, const float *in, int n);
void apply_grad(Layer &l, float dt, int n);
