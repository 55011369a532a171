#include "dark.h"

__global__ void conv1d_forward(layer l, const float *in, int total)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int x = i % l.out_w, f = i / l.out_w % l.n, b = i / l.outputs;
    float sum = l.biases_gpu[f];
    for (int c = 0; c < l.c; ++c)
        for (int k = 0; k < l.size; ++k)
            sum += in[b * l.inputs + c * l.w + x + k] * l.weights_gpu[(f * l.c + c) * l.size + k];
    l.output_gpu[i] = sum > 0 ? sum : .1f * sum;
}

__global__ void leaky_gradient(const float *output, float *delta, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && output[i] < 0) delta[i] *= .1f;
}

__global__ void conv1d_weight_updates(layer l, const float *in)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= l.nweights) return;
    int k = i % l.size, c = i / l.size % l.c, f = i / (l.size * l.c);
    float sum = 0, bias = 0;
    for (int b = 0; b < l.batch; ++b)
        for (int x = 0; x < l.out_w; ++x) {
            float d = l.delta_gpu[b * l.outputs + f * l.out_w + x];
            sum += d * in[b * l.inputs + c * l.w + x + k];
            bias += d;
        }
    l.weight_updates_gpu[i] += sum;
    if (c == 0 && k == 0) l.bias_updates_gpu[f] += bias;
}

__global__ void conv1d_in_delta(layer l, float *in_delta, int total)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= total) return;
    int x = i % l.w, c = i / l.w % l.c, b = i / l.inputs;
    float sum = 0;
    for (int f = 0; f < l.n; ++f)
        for (int k = 0; k < l.size; ++k)
            if (x - k >= 0 && x - k < l.out_w)
                sum += l.delta_gpu[b * l.outputs + f * l.out_w + x - k] * l.weights_gpu[(f * l.c + c) * l.size + k];
    in_delta[i] = sum;
}

static void forward_conv1d_layer_gpu(layer l, network net)
{
    int total = l.batch * l.outputs;
    conv1d_forward<<<GRID(total)>>>(l, net.in, total);
}

static void backward_conv1d_layer_gpu(layer l, network net)
{
    leaky_gradient<<<GRID(l.batch * l.outputs)>>>(l.output_gpu, l.delta_gpu, l.batch * l.outputs);
    conv1d_weight_updates<<<GRID(l.nweights)>>>(l, net.in);
    if (net.in_delta) conv1d_in_delta<<<GRID(l.batch * l.inputs)>>>(l, net.in_delta, l.batch * l.inputs);
}

layer make_conv1d_layer(int batch, int w, int c, int n, int size)
{
    layer l = {};
    l.forward_gpu = forward_conv1d_layer_gpu;
    l.backward_gpu = backward_conv1d_layer_gpu;
    l.update_gpu = update_weights_gpu;
    l.batch = batch;
    l.w = w, l.c = c, l.n = n, l.size = size;
    l.out_w = w - size + 1;
    l.inputs = w * c;
    l.outputs = l.out_w * n;
    l.nweights = n * c * size;
    l.nbiases = n;
    l.weights_gpu = random_weights(l.nweights, c * size);
    l.biases_gpu = cuda_make_array(0, n);
    l.weight_updates_gpu = cuda_make_array(0, l.nweights);
    l.bias_updates_gpu = cuda_make_array(0, n);
    l.output_gpu = cuda_make_array(0, batch * l.outputs);
    l.delta_gpu = cuda_make_array(0, batch * l.outputs);
    return l;
}
