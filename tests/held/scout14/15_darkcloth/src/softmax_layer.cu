#include "dark.h"

__global__ void softmax_kernel(const float *in, const float *truth, float *out, float *delta, float *loss, int batch, int n)
{
    int b = blockIdx.x * blockDim.x + threadIdx.x;
    if (b >= batch) return;
    float big = in[b * n], sum = 0, l = 0;
    for (int i = 1; i < n; ++i) big = fmaxf(big, in[b * n + i]);
    for (int i = 0; i < n; ++i) sum += expf(in[b * n + i] - big);
    for (int i = 0; i < n; ++i) {
        out[b * n + i] = expf(in[b * n + i] - big) / sum;
        delta[b * n + i] = truth[b * n + i] - out[b * n + i];
        if (truth[b * n + i] > 0) l -= logf(fmaxf(out[b * n + i], 1e-9f));
    }
    loss[b] = l;
}

static void forward_softmax_layer_gpu(layer l, network net)
{
    softmax_kernel<<<GRID(l.batch)>>>(net.in, net.truth_gpu, l.output_gpu, l.delta_gpu, l.loss_gpu, l.batch, l.inputs);
}

__global__ void copy_kernel(const float *from, float *to, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) to[i] = from[i];
}

static void backward_softmax_layer_gpu(layer l, network net)
{
    copy_kernel<<<GRID(l.batch * l.inputs)>>>(l.delta_gpu, net.in_delta, l.batch * l.inputs);
}

layer make_softmax_layer(int batch, int inputs)
{
    layer l = {};
    l.forward_gpu = forward_softmax_layer_gpu;
    l.backward_gpu = backward_softmax_layer_gpu;
    l.batch = batch;
    l.inputs = l.outputs = inputs;
    l.output_gpu = cuda_make_array(0, batch * inputs);
    l.delta_gpu = cuda_make_array(0, batch * inputs);
    l.loss_gpu = cuda_make_array(0, batch);
    return l;
}
