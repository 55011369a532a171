#ifndef DARK_H
#define DARK_H
#include <stddef.h>

struct network;

/* One layer; deltas hold the negative gradient of the loss, and updates gather them, with momentum. */
struct layer {
    void (*forward_gpu)(layer, network);
    void (*backward_gpu)(layer, network);
    void (*update_gpu)(layer, int batch, float rate, float momentum, float decay);
    int batch, inputs, outputs, nweights, nbiases;
    int c, w, n, size, out_w; /* conv1d: channels, width, filters, size of a filter, width of the output */
    float *weights_gpu, *biases_gpu, *weight_updates_gpu, *bias_updates_gpu;
    float *output_gpu, *delta_gpu, *loss_gpu;
};

struct network {
    int n, batch, seen;
    layer *layers;
    float learning_rate, momentum, decay;
    float *input_gpu, *truth_gpu; /* of the network */
    float *in, *in_delta;         /* of the layer that works */
    float *input, *truth;         /* on the host */
};

layer make_conv1d_layer(int batch, int w, int c, int n, int size);
layer make_connected_layer(int batch, int inputs, int outputs);
layer make_softmax_layer(int batch, int inputs);
void update_weights_gpu(layer l, int batch, float rate, float momentum, float decay);

network make_network(int n, int batch);
float train_network_datum(network *net);

float *cuda_make_array(const float *x, size_t n);
void cuda_push_array(float *x_gpu, const float *x, size_t n);
void cuda_pull_array(const float *x_gpu, float *x, size_t n);
float *random_weights(int n, int fan_in);
float rand_uniform(float lo, float hi);
void axpy_gpu(int n, float a, const float *x, float *y);
void scal_gpu(int n, float a, float *x);
#define GRID(n) ((n) + 127) / 128, 128
#endif
