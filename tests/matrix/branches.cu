/*
 * branches.cu - no step like the one before: odd steps make two backward passes, every third leaves a layer out, and
 * every fifth takes the gradients' norm before the boundary. Nothing can be learned from it, so nothing overlaps; it is
 * right.
 */
#include "perceptron.h"

enum { LEFT_OUT = 2 };

/* One pass over the layers that take part. */
static void
pass_run(const struct perceptron *net, size_t first_item, int count, bool all_layers, float keep, cudaStream_t stream)
{
    const struct dense *taking_part[LAYERS];
    int layers = 0;
    for (int l = 0; l < LAYERS; ++l) {
        if (all_layers || l != LEFT_OUT)
            taking_part[layers++] = &net->layers[l];
    }
    const float *input = net->items.device_inputs + first_item * WIDTH;
    for (int l = 0; l < layers; ++l)
        dense_run_forward(taking_part[l], l > 0 ? taking_part[l - 1]->output : input, count, stream);
    const struct dense *last = taking_part[layers - 1];
    LAUNCH(loss_delta, (size_t)(WIDTH * count), stream)
    (last->delta, last->output, net->items.device_targets + first_item * WIDTH, WIDTH, count);
    for (int l = layers - 1; l >= 0; --l) {
        dense_run_gradients(taking_part[l], l > 0 ? taking_part[l - 1]->output : input, count, keep, 1.0f, stream);
        if (l > 0)
            dense_run_delta(taking_part[l], taking_part[l - 1], count, stream);
    }
}

int
main(int argc, char **argv)
{
    static struct perceptron net;
    options_parse(argc, argv);
    device_open();
    cudaStream_t stream = stream_create();
    float *norm = device_floats(1);
    perceptron_create(&net, 0, 2, true);
    perceptron_annotate_gradients(&net);

    size_t first, count;
    DDP_SHARD(options.batch, &first, &count);
    for (int step = 0; step < options.steps; ++step) {
        for (int pass = 0; pass < 1 + step % 2; ++pass) {
            size_t first_item = item_of(step, pass, 2, first);
            items_load(&net.items, first_item, count, stream);
            pass_run(&net, first_item, (int)count, step % 3 != 1, pass > 0 ? 1.0f : 0.0f, stream);
        }
        for (int l = 0; l < LAYERS && step % 5 == 4; ++l)
            LAUNCH(square_sum, 1, stream)(norm, net.layers[l].weight_gradient, WIDTH * WIDTH, 1);
        DDP_STEP(stream);
        perceptron_update(&net, 0.1f, stream);
        record_step(step, stream);
    }
    record_save();
    return 0;
}
