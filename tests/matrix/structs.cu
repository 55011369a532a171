/*
 * structs.cu - kernels that take structs: the gradients of a layer in one struct by value, and an optimizer that gets
 * the pointers of all tensors in one struct of arrays, as fused optimizers do.
 */
#include "perceptron.h"

enum { TENSORS = 2 * LAYERS };

/* What backward writes for one layer; padding and other members stand between the pointers. */
struct layer_gradients {
    int inputs, outputs, count;
    const float *delta, *input;
    char flag;
    float *weight, *bias;
};

struct all_tensors {
    int counts[TENSORS];
    float *weights[TENSORS], *momenta[TENSORS];
    const float *gradients[TENSORS];
};

static __global__ void
gradients_of_layer(struct layer_gradients layer)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= layer.inputs * layer.outputs)
        return;
    int row = i / layer.inputs, column = i % layer.inputs;
    float sum = 0.0f, rows = 0.0f;
    for (int b = 0; b < layer.count; ++b) {
        sum += layer.delta[b * layer.outputs + row] * layer.input[b * layer.inputs + column];
        rows += layer.delta[b * layer.outputs + row];
    }
    layer.weight[i] = sum;
    if (column == 0)
        layer.bias[row] = rows;
}

static __global__ void
fused_sgd(struct all_tensors tensors, float rate)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int t = 0; t < TENSORS; ++t) {
        if (i < tensors.counts[t]) {
            tensors.momenta[t][i] = 0.9f * tensors.momenta[t][i] + tensors.gradients[t][i];
            tensors.weights[t][i] -= rate * tensors.momenta[t][i];
        }
    }
}

static void
backward(const struct perceptron *net, size_t first_item, int count, cudaStream_t stream)
{
    for (int l = LAYERS - 1; l >= 0; --l) {
        const struct dense *layer = &net->layers[l];
        struct layer_gradients arguments = {WIDTH,
                                            WIDTH,
                                            count,
                                            layer->delta,
                                            perceptron_input(net, l, first_item),
                                            'x',
                                            layer->weight_gradient,
                                            layer->bias_gradient};
        LAUNCH(gradients_of_layer, WIDTH * WIDTH, stream)(arguments);
        if (l > 0)
            dense_run_delta(layer, &net->layers[l - 1], count, stream);
    }
}

static struct all_tensors
pointers_to(const struct perceptron *net)
{
    struct all_tensors all;
    int i = 0;
    for (const tensor &t : tensors_of(net->layers, LAYERS)) {
        all.counts[i] = t.count;
        all.weights[i] = t.value;
        all.momenta[i] = t.momentum;
        all.gradients[i++] = t.gradient;
    }
    return all;
}

int
main(int argc, char **argv)
{
    static struct perceptron net;
    cudaStream_t stream = trainer_start(argc, argv);
    perceptron_create(&net, 0, 1, true);
    perceptron_annotate_gradients(&net);
    struct all_tensors all = pointers_to(&net);

    return perceptron_train(&net, stream, [&](int, size_t first_item, int count) {
        backward(&net, first_item, count, stream);
        DDP_STEP(stream);
        LAUNCH(fused_sgd, WIDTH * WIDTH, stream)(all, 0.2f);
    });
}
