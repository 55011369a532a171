/*
 * accumulate.cu - gradient accumulation: three backward passes add to the same gradients, one optimizer step uses them.
 */
#include "perceptron.h"

enum { PASSES = 3 };

int
main(int argc, char **argv)
{
    static struct perceptron net;
    options_parse(argc, argv);
    device_open();
    cudaStream_t stream = stream_create();
    perceptron_create(&net, 0, PASSES, true);
    perceptron_annotate_gradients(&net);

    size_t first, count;
    DDP_SHARD(options.batch, &first, &count);
    for (int step = 0; step < options.steps; ++step) {
        for (int l = 0; l < LAYERS; ++l) {
            device_zero(net.layers[l].weight_gradient, WIDTH * WIDTH, stream);
            device_zero(net.layers[l].bias_gradient, WIDTH, stream);
        }
        for (int pass = 0; pass < PASSES; ++pass) {
            size_t first_item = item_of(step, pass, PASSES, first);
            items_load(&net.items, first_item, count, stream);
            perceptron_forward(&net, first_item, (int)count, stream);
            perceptron_backward(&net, first_item, (int)count, 1.0f, 1.0f / PASSES, stream);
        }
        DDP_STEP(stream);
        perceptron_update(&net, 0.2f, stream);
        record_step(step, stream);
    }
    record_save();
    return 0;
}
