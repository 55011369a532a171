#ifndef NET_H
#define NET_H

typedef enum { ACT_SIGMOID, ACT_RELU, ACT_SOFTMAX } activation;

typedef struct {
    int inputs, outputs, batch;
    activation act;
    float *weights, *weight_updates;
    float *biases, *bias_updates;
    float *output, *delta;
} layer;

typedef struct {
    int n, batch;
    layer *layers;
    float learning_rate, momentum, decay;
    float *input, *truth;
    int input_size, truth_size;
    float *cost_gpu;
    float cost;
} network;

network *make_network(int n, int batch);
layer make_connected_layer(int batch, int inputs, int outputs, activation a);
void set_input(network *net, int inputs, int classes);
float train_network(network *net, const float *x, const float *y);
float *network_predict(network *net, const float *x);
void update_network(network *net);
void free_network(network *net);

void error_exit(const char *what);
void check_error(int status);
#endif
