#include "net.h"
#include <cuda_runtime.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCK 128

void error_exit(const char *what)
{
    fprintf(stderr, "error: %s\n", what);
    exit(1);
}

void check_error(int status)
{
    if (status != cudaSuccess) error_exit(cudaGetErrorString((cudaError_t)status));
}

static int blocks(int n) { return (n - 1) / BLOCK + 1; }

static float *cuda_make_array(const float *x, size_t n)
{
    float *x_gpu;
    check_error(cudaMalloc((void **)&x_gpu, n * sizeof(float)));
    if (x)
        check_error(cudaMemcpy(x_gpu, x, n * sizeof(float), cudaMemcpyHostToDevice));
    else
        check_error(cudaMemset(x_gpu, 0, n * sizeof(float)));
    return x_gpu;
}

static void cuda_push_array(float *x_gpu, const float *x, size_t n) { check_error(cudaMemcpy(x_gpu, x, n * sizeof(float), cudaMemcpyHostToDevice)); }
static void cuda_pull_array(float *x_gpu, float *x, size_t n) { check_error(cudaMemcpy(x, x_gpu, n * sizeof(float), cudaMemcpyDeviceToHost)); }

__global__ void connected_kernel(const float *in, const float *w, const float *b, float *out, int batch, int inputs, int outputs, int act)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch * outputs) return;
    int n = i / outputs, o = i % outputs;
    float s = b[o];
    for (int k = 0; k < inputs; ++k) s += in[n * inputs + k] * w[o * inputs + k];
    if (act == ACT_SIGMOID) s = 1.f / (1.f + expf(-s));
    if (act == ACT_RELU) s = s > 0 ? s : 0.1f * s;
    out[i] = s;
}

__global__ void softmax_kernel(float *out, int batch, int n)
{
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= batch) return;
    float largest = -INFINITY, sum = 0;
    for (int i = 0; i < n; ++i) largest = fmaxf(largest, out[b * n + i]);
    for (int i = 0; i < n; ++i) sum += out[b * n + i] = expf(out[b * n + i] - largest);
    for (int i = 0; i < n; ++i) out[b * n + i] /= sum;
}

/* delta is the NEGATIVE gradient: truth - output */
__global__ void softmax_x_ent_kernel(const float *pred, const float *truth, float *delta, float *cost, int batch, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch * n) return;
    delta[i] = truth[i] - pred[i];
    cost[i] = truth[i] ? -logf(pred[i] + 1e-9f) : 0;
}

__global__ void gradient_kernel(const float *out, float *delta, int n, int act)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (act == ACT_SIGMOID) delta[i] *= out[i] * (1 - out[i]);
    if (act == ACT_RELU) delta[i] *= out[i] > 0 ? 1 : 0.1f;
}

__global__ void weight_updates_kernel(const float *in, const float *delta, float *wu, float *bu, int batch, int inputs, int outputs)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= inputs * outputs) return;
    int o = i / inputs, k = i % inputs;
    float s = 0, sb = 0;
    for (int n = 0; n < batch; ++n) {
        s += delta[n * outputs + o] * in[n * inputs + k];
        sb += delta[n * outputs + o];
    }
    wu[i] += s;
    if (k == 0) bu[o] += sb;
}

__global__ void backward_delta_kernel(const float *delta, const float *w, float *prev, int batch, int inputs, int outputs)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch * inputs) return;
    int n = i / inputs, k = i % inputs;
    float s = 0;
    for (int o = 0; o < outputs; ++o) s += delta[n * outputs + o] * w[o * inputs + k];
    prev[i] = s;
}

__global__ void axpy_kernel(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}

__global__ void scal_kernel(int n, float a, float *x)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= a;
}

static void axpy_gpu(int n, float a, const float *x, float *y) { axpy_kernel<<<blocks(n), BLOCK>>>(n, a, x, y); }
static void scal_gpu(int n, float a, float *x) { scal_kernel<<<blocks(n), BLOCK>>>(n, a, x); }

network *make_network(int n, int batch)
{
    network *net = (network *)calloc(1, sizeof(network));
    net->n = n;
    net->batch = batch;
    net->layers = (layer *)calloc(n, sizeof(layer));
    return net;
}

layer make_connected_layer(int batch, int inputs, int outputs, activation a)
{
    layer l = { inputs, outputs, batch, a };
    float *w = (float *)malloc(inputs * outputs * sizeof(float));
    float scale = sqrtf(2.f / inputs);
    for (int i = 0; i < inputs * outputs; ++i) w[i] = scale * (2.f * rand() / RAND_MAX - 1);
    l.weights = cuda_make_array(w, inputs * outputs);
    l.weight_updates = cuda_make_array(0, inputs * outputs);
    l.biases = cuda_make_array(0, outputs);
    l.bias_updates = cuda_make_array(0, outputs);
    l.output = cuda_make_array(0, batch * outputs);
    l.delta = cuda_make_array(0, batch * outputs);
    free(w);
    return l;
}

void set_input(network *net, int inputs, int classes)
{
    net->input_size = inputs;
    net->truth_size = classes;
    net->input = cuda_make_array(0, inputs * net->batch);
    net->truth = cuda_make_array(0, classes * net->batch);
    net->cost_gpu = cuda_make_array(0, classes * net->batch);
}

static void forward_network(network *net)
{
    float *in = net->input;
    for (int i = 0; i < net->n; ++i) {
        layer l = net->layers[i];
        connected_kernel<<<blocks(l.batch * l.outputs), BLOCK>>>(in, l.weights, l.biases, l.output, l.batch, l.inputs, l.outputs, l.act);
        if (l.act == ACT_SOFTMAX) softmax_kernel<<<blocks(l.batch), BLOCK>>>(l.output, l.batch, l.outputs);
        in = l.output;
    }
}

static void backward_network(network *net)
{
    for (int i = net->n - 1; i >= 0; --i) {
        layer l = net->layers[i];
        float *in = i ? net->layers[i - 1].output : net->input;
        gradient_kernel<<<blocks(l.batch * l.outputs), BLOCK>>>(l.output, l.delta, l.batch * l.outputs, l.act);
        weight_updates_kernel<<<blocks(l.inputs * l.outputs), BLOCK>>>(in, l.delta, l.weight_updates, l.bias_updates, l.batch, l.inputs, l.outputs);
        if (i) backward_delta_kernel<<<blocks(l.batch * l.inputs), BLOCK>>>(l.delta, l.weights, net->layers[i - 1].delta, l.batch, l.inputs, l.outputs);
    }
}

/* The updates buffer is the momentum, too: it is scaled after the update and the next gradients are added to it */
void update_network(network *net)
{
    for (int i = 0; i < net->n; ++i) {
        layer l = net->layers[i];
        int n = l.inputs * l.outputs;
        axpy_gpu(l.outputs, net->learning_rate / net->batch, l.bias_updates, l.biases);
        scal_gpu(l.outputs, net->momentum, l.bias_updates);
        axpy_gpu(n, -net->decay * net->batch, l.weights, l.weight_updates);
        axpy_gpu(n, net->learning_rate / net->batch, l.weight_updates, l.weights);
        scal_gpu(n, net->momentum, l.weight_updates);
    }
}

float train_network(network *net, const float *x, const float *y)
{
    cuda_push_array(net->input, x, net->batch * net->input_size);
    cuda_push_array(net->truth, y, net->batch * net->truth_size);
    forward_network(net);
    layer out = net->layers[net->n - 1];
    int n = net->batch * out.outputs;
    softmax_x_ent_kernel<<<blocks(n), BLOCK>>>(out.output, net->truth, out.delta, net->cost_gpu, net->batch, out.outputs);
    backward_network(net);
    float *cost = (float *)malloc(n * sizeof(float));
    cuda_pull_array(net->cost_gpu, cost, n);
    net->cost = 0;
    for (int i = 0; i < n; ++i) net->cost += cost[i];
    free(cost);
    update_network(net);
    return net->cost / net->batch;
}

float *network_predict(network *net, const float *x)
{
    cuda_push_array(net->input, x, net->batch * net->input_size);
    forward_network(net);
    layer out = net->layers[net->n - 1];
    float *p = (float *)malloc(net->batch * out.outputs * sizeof(float));
    cuda_pull_array(out.output, p, net->batch * out.outputs);
    return p;
}

void free_network(network *net)
{
    for (int i = 0; i < net->n; ++i) {
        layer l = net->layers[i];
        cudaFree(l.weights);
        cudaFree(l.weight_updates);
        cudaFree(l.biases);
        cudaFree(l.bias_updates);
        cudaFree(l.output);
        cudaFree(l.delta);
    }
    cudaFree(net->input);
    cudaFree(net->truth);
    cudaFree(net->cost_gpu);
    free(net->layers);
    free(net);
}
