/*
 * managed.cu - parameters and gradients in managed memory, which the host uses as its own: it adds weight decay to
 * weights' gradients after backward, without a call; to those of biases in a host function, on a stream that DDP_STEP
 * does not name; and after DDP_STEP it updates the first layer itself, from averages that it reads at once.
 */
#include "perceptron.h"

static float *
managed_floats(size_t count)
{
    float *memory = (float *)managed_allocate(count * sizeof(float));
    memset(memory, 0, count * sizeof(float));
    return memory;
}

static void
layer_create(struct dense *dense, int number)
{
    size_t rows = (size_t)(options.batch * WIDTH);
    *dense = (struct dense){WIDTH, WIDTH};
    dense->weight = managed_floats(WIDTH * WIDTH);
    dense->bias = managed_floats(WIDTH);
    dense->weight_gradient = managed_floats(WIDTH * WIDTH);
    dense->bias_gradient = managed_floats(WIDTH);
    dense->weight_momentum = device_floats(WIDTH * WIDTH);
    dense->bias_momentum = device_floats(WIDTH);
    dense->output = device_floats(rows);
    dense->delta = device_floats(rows);
    for (int i = 0; i < WIDTH * WIDTH; ++i)
        dense->weight[i] = 2.0f * noise(1000 + (unsigned)number, (unsigned)i) / sqrtf((float)WIDTH);
    DDP_PARAMETER(dense->weight, WIDTH * WIDTH, DDP_FLOAT32);
    DDP_PARAMETER(dense->bias, WIDTH, DDP_FLOAT32);
    record_add("w", number, dense->weight, WIDTH * WIDTH);
    record_add("b", number, dense->bias, WIDTH);
}

static void
add_decay(float *gradient, const float *values, int count)
{
    for (int i = 0; i < count; ++i)
        gradient[i] += 0.01f * values[i];
}

static void
decay_bias(void *data)
{
    const struct dense *dense = (const struct dense *)data;
    add_decay(dense->bias_gradient, dense->bias, WIDTH);
}

int
main(int argc, char **argv)
{
    static struct perceptron net;
    cudaStream_t stream = trainer_start(argc, argv), side = stream_create();
    cudaEvent_t event = event_create();
    items_create(&net.items, (size_t)(options.steps * options.batch), WIDTH, WIDTH);
    for (int l = 0; l < LAYERS; ++l)
        layer_create(&net.layers[l], l);
    perceptron_annotate_gradients(&net);

    return perceptron_train(&net, stream, [&](int, size_t first_item, int count) {
        perceptron_backward(&net, first_item, count, 0.0f, 1.0f, stream);
        stream_follow(stream, side, event);
        for (int l = 0; l < LAYERS; ++l)
            stream_call(side, decay_bias, &net.layers[l]);
        stream_wait(stream);
        for (int l = 0; l < LAYERS; ++l)
            add_decay(net.layers[l].weight_gradient, net.layers[l].weight, WIDTH * WIDTH);
        DDP_STEP(stream);
        for (int i = 0; i < WIDTH * WIDTH; ++i)
            net.layers[0].weight[i] -= 0.2f * net.layers[0].weight_gradient[i];
        stream_follow(side, stream, event);
        for (int l = 0; l < LAYERS; ++l) {
            const struct dense *dense = &net.layers[l];
            LAUNCH(sgd, WIDTH, stream)(dense->bias, dense->bias_momentum, dense->bias_gradient, WIDTH, 0.2f);
            if (l == 0)
                continue;
            LAUNCH(sgd, WIDTH * WIDTH, stream)
            (dense->weight, dense->weight_momentum, dense->weight_gradient, WIDTH * WIDTH, 0.2f);
        }
    });
}
