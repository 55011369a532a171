/*
 * streams.cu - two compute streams: deltas go down on one, weight gradients are computed on the other. DDP_STEP names
 * the first, and the optimizer runs on both, half of the layers on each: what the reduction waits for, and who waits
 * for it, is known from who touched a gradient. The program's own events order the rest, and the host never waits.
 */
#include "perceptron.h"

static cudaStream_t deltas, weights;
static cudaEvent_t event;

static void
backward(const struct perceptron *net, size_t first_item, int count)
{
    for (int l = LAYERS - 1; l >= 0; --l) {
        stream_follow(deltas, weights, event);
        dense_run_gradients(&net->layers[l], perceptron_input(net, l, first_item), count, 0.0f, 1.0f, weights);
        if (l > 0)
            dense_run_delta(&net->layers[l], &net->layers[l - 1], count, deltas);
    }
}

int
main(int argc, char **argv)
{
    static struct perceptron net;
    options_parse(argc, argv);
    device_open();
    deltas = stream_create();
    weights = stream_create();
    event = event_create();
    perceptron_create(&net, 0, 1, true);
    perceptron_annotate_gradients(&net);

    return perceptron_train(&net, deltas, [&](int, size_t first_item, int count) {
        backward(&net, first_item, count);
        stream_follow(deltas, weights, event); /* the last delta has been read before its weights change */
        DDP_STEP(deltas);
        stream_follow(weights, deltas, event);
        for (int l = 0; l < LAYERS; ++l)
            dense_update(&net.layers[l], 0.2f, l % 2 == 0 ? weights : deltas);
        stream_follow(weights, deltas, event);
    });
}
