#ifndef LAYER_H
#define LAYER_H

#include <cuda_runtime.h>

static const float dt = 3.0f;
static const int IMG = 12;    // input is IMG x IMG
static const int CONV = 8;    // after a 5x5 convolution
static const int POOL = 4;    // after a trainable 2x2 stride 2 subsampling
static const int MAPS = 6;
static const int CLASSES = 10;

class Layer {
public:
    int M, N, O;

    float *output;
    float *preact;

    float *bias;
    float *weight;

    float *d_output;
    float *d_preact;
    float *d_weight;
    float *d_bias;

    Layer(int M, int N, int O);
    ~Layer();

    void setOutput(float *data);
    void clear();
    void bp_clear();
    void zero_grad();
};

__global__ void apply_step_function(float *input, float *output, int N);
__global__ void makeError(float *err, float *output, unsigned int Y, int N);
__global__ void apply_grad(float *output, float *grad, int N, int count);

__global__ void fp_preact_c1(float *input, float *preact, float *weight, float *bias);
__global__ void fp_preact_s1(float *input, float *preact, float *weight, float *bias);
__global__ void fp_preact_f(float *input, float *preact, float *weight, float *bias);

__global__ void bp_weight_f(float *d_weight, float *d_bias, float *d_preact, float *p_output);
__global__ void bp_output_s1(float *d_output, float *n_weight, float *nd_preact);
__global__ void bp_preact(float *d_preact, float *d_output, float *preact, int N);
__global__ void bp_weight_s1(float *d_weight, float *d_bias, float *d_preact, float *p_output);
__global__ void bp_output_c1(float *d_output, float *n_weight, float *nd_preact);
__global__ void bp_weight_c1(float *d_weight, float *d_bias, float *d_preact, float *p_output);

#endif
