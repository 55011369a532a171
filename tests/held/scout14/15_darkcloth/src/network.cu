#include "dark.h"
#include <stdlib.h>

network make_network(int n, int batch)
{
    network net = {};
    net.n = n;
    net.batch = batch;
    net.layers = (layer *)calloc(n, sizeof(layer));
    return net;
}

static void forward_network_gpu(network net)
{
    net.in = net.input_gpu;
    for (int i = 0; i < net.n; ++i) {
        layer l = net.layers[i];
        l.forward_gpu(l, net);
        net.in = l.output_gpu;
    }
}

static void backward_network_gpu(network net)
{
    for (int i = net.n - 1; i >= 0; --i) {
        layer l = net.layers[i];
        net.in = i == 0 ? net.input_gpu : net.layers[i - 1].output_gpu;
        net.in_delta = i == 0 ? 0 : net.layers[i - 1].delta_gpu;
        l.backward_gpu(l, net);
    }
}

static void update_network_gpu(network net)
{
    for (int i = 0; i < net.n; ++i) {
        layer l = net.layers[i];
        if (l.update_gpu) l.update_gpu(l, net.batch, net.learning_rate, net.momentum, net.decay);
    }
}

static float get_network_cost(network net)
{
    layer l = net.layers[net.n - 1];
    float sum = 0, *loss = (float *)malloc(l.batch * sizeof(float));
    cuda_pull_array(l.loss_gpu, loss, l.batch);
    for (int i = 0; i < l.batch; ++i) sum += loss[i];
    free(loss);
    return sum / l.batch;
}

float train_network_datum(network *net)
{
    layer first = net->layers[0], last = net->layers[net->n - 1];
    cuda_push_array(net->input_gpu, net->input, first.inputs * net->batch);
    cuda_push_array(net->truth_gpu, net->truth, last.outputs * net->batch);
    net->seen += net->batch;
    forward_network_gpu(*net);
    backward_network_gpu(*net);
    float cost = get_network_cost(*net);
    update_network_gpu(*net);
    return cost;
}
