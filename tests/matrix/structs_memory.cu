/*
 * structs_memory.cu - structs of pointers in device memory: a table of the layers lies there, and the kernels of the
 * last two layers find their gradients in it. The other layers' gradients are written as usual, the optimizer gets
 * pointers.
 */
#include "perceptron.h"

enum { HIDDEN_FROM = LAYERS - 2 }; /* layers from here on are reached through the table */

struct layer_entry {
    int inputs, outputs;
    const float *delta;
    float *weight_gradient, *bias_gradient;
};

static __global__ void
gradients_by_table(const struct layer_entry *table, int which, const float *input, int count)
{
    const struct layer_entry *layer = &table[which];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= layer->inputs * layer->outputs)
        return;
    int row = i / layer->inputs, column = i % layer->inputs;
    float sum = 0.0f, rows = 0.0f;
    for (int b = 0; b < count; ++b) {
        sum += layer->delta[b * layer->outputs + row] * input[b * layer->inputs + column];
        rows += layer->delta[b * layer->outputs + row];
    }
    layer->weight_gradient[i] = sum;
    if (column == 0)
        layer->bias_gradient[row] = rows;
}

static struct layer_entry *
table_create(const struct perceptron *net)
{
    struct layer_entry host[LAYERS];
    memset(host, 0, sizeof(host));
    for (int l = HIDDEN_FROM; l < LAYERS; ++l) {
        const struct dense *layer = &net->layers[l];
        host[l] = (struct layer_entry){WIDTH, WIDTH, layer->delta, layer->weight_gradient, layer->bias_gradient};
    }
    struct layer_entry *table = (struct layer_entry *)device_allocate(sizeof(host));
    device_upload(table, host, sizeof(host), 0);
    device_wait();
    return table;
}

static void
backward(const struct perceptron *net, const struct layer_entry *table, size_t first_item, int count,
         cudaStream_t stream)
{
    for (int l = LAYERS - 1; l >= 0; --l) {
        const float *input = perceptron_input(net, l, first_item);
        if (l >= HIDDEN_FROM)
            LAUNCH(gradients_by_table, WIDTH * WIDTH, stream)(table, l, input, count);
        else
            dense_run_gradients(&net->layers[l], input, count, 0.0f, 1.0f, stream);
        if (l > 0)
            dense_run_delta(&net->layers[l], &net->layers[l - 1], count, stream);
    }
}

int
main(int argc, char **argv)
{
    static struct perceptron net;
    options_parse(argc, argv);
    device_open();
    cudaStream_t stream = stream_create();
    perceptron_create(&net, 0, 1, true);
    perceptron_annotate_gradients(&net);
    struct layer_entry *table = table_create(&net);

    size_t first, count;
    DDP_SHARD(options.batch, &first, &count);
    for (int step = 0; step < options.steps; ++step) {
        size_t first_item = item_of(step, 0, 1, first);
        items_load(&net.items, first_item, count, stream);
        perceptron_forward(&net, first_item, (int)count, stream);
        backward(&net, table, first_item, (int)count, stream);
        DDP_STEP(stream);
        perceptron_update(&net, 0.2f, stream);
        record_step(step, stream);
    }
    record_save();
    return 0;
}
