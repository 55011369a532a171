#include "dark.h"

__global__ void connected_forward(const float *in, const float *w, const float *b, float *out, int batch, int inputs, int outputs)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch * outputs) return;
    float sum = b[i % outputs];
    for (int k = 0; k < inputs; ++k) sum += in[i / outputs * inputs + k] * w[i % outputs * inputs + k];
    out[i] = sum;
}

__global__ void connected_weight_updates(const float *in, const float *delta, float *wu, float *bu, int batch, int inputs, int outputs)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= inputs * outputs) return;
    int o = i / inputs, k = i % inputs;
    float sum = 0, bias = 0;
    for (int b = 0; b < batch; ++b) {
        sum += delta[b * outputs + o] * in[b * inputs + k];
        bias += delta[b * outputs + o];
    }
    wu[i] += sum;
    if (k == 0) bu[o] += bias;
}

__global__ void connected_in_delta(const float *delta, const float *w, float *in_delta, int batch, int inputs, int outputs)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= batch * inputs) return;
    float sum = 0;
    for (int o = 0; o < outputs; ++o) sum += delta[i / inputs * outputs + o] * w[o * inputs + i % inputs];
    in_delta[i] = sum;
}

static void forward_connected_layer_gpu(layer l, network net)
{
    connected_forward<<<GRID(l.batch * l.outputs)>>>(net.in, l.weights_gpu, l.biases_gpu, l.output_gpu, l.batch, l.inputs, l.outputs);
}

static void backward_connected_layer_gpu(layer l, network net)
{
    connected_weight_updates<<<GRID(l.nweights)>>>(net.in, l.delta_gpu, l.weight_updates_gpu, l.bias_updates_gpu, l.batch, l.inputs, l.outputs);
    if (net.in_delta)
        connected_in_delta<<<GRID(l.batch * l.inputs)>>>(l.delta_gpu, l.weights_gpu, net.in_delta, l.batch, l.inputs, l.outputs);
}

void update_weights_gpu(layer l, int batch, float rate, float momentum, float decay)
{
    axpy_gpu(l.nbiases, rate / batch, l.bias_updates_gpu, l.biases_gpu);
    scal_gpu(l.nbiases, momentum, l.bias_updates_gpu);

    axpy_gpu(l.nweights, -decay * batch, l.weights_gpu, l.weight_updates_gpu);
    axpy_gpu(l.nweights, rate / batch, l.weight_updates_gpu, l.weights_gpu);
    scal_gpu(l.nweights, momentum, l.weight_updates_gpu);
}

layer make_connected_layer(int batch, int inputs, int outputs)
{
    layer l = {};
    l.forward_gpu = forward_connected_layer_gpu;
    l.backward_gpu = backward_connected_layer_gpu;
    l.update_gpu = update_weights_gpu;
    l.batch = batch;
    l.inputs = inputs;
    l.outputs = outputs;
    l.nweights = inputs * outputs;
    l.nbiases = outputs;
    l.weights_gpu = random_weights(l.nweights, inputs);
    l.biases_gpu = cuda_make_array(0, outputs);
    l.weight_updates_gpu = cuda_make_array(0, l.nweights);
    l.bias_updates_gpu = cuda_make_array(0, outputs);
    l.output_gpu = cuda_make_array(0, batch * outputs);
    l.delta_gpu = cuda_make_array(0, batch * outputs);
    return l;
}
