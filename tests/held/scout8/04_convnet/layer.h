#ifndef LAYER_H
#define LAYER_H
#include <cuda_runtime.h>

const static int BATCH = 32;
const static float dt = 5.0E-01f;

class Layer {
public:
    int M, N, O;        // kernel size, number of filters, outputs of one image
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
    void bp_clear();
};

__global__ void apply_step_function(float *input, float *output, const int N);
__global__ void makeError(float *err, float *output, const unsigned int *Y, const int N);
__global__ void apply_grad(float *p, float *grad, const int N);

__global__ void fp_c1(const float *image, float *preact, const float *weight, const float *bias);
__global__ void fp_s1(const float *input, float *preact, const float *weight, const float *bias);
__global__ void fp_f(const float *input, float *preact, const float *weight, const float *bias);

__global__ void bp_f(float *d_weight, float *d_bias, const float *d_preact, const float *p_output);
__global__ void bp_output_s1(float *d_output, const float *n_weight, const float *nd_preact);
__global__ void bp_preact(float *d_preact, const float *d_output, const float *preact, const int N);
__global__ void bp_weight_s1(float *d_weight, float *d_bias, const float *d_preact, const float *p_output);
__global__ void bp_output_c1(float *d_output, const float *n_weight, const float *nd_preact);
__global__ void bp_weight_c1(float *d_weight, float *d_bias, const float *d_preact, const float *image);
#endif
