/*
 * late_read.cu - a kernel that looks at a gradient now and then, after its bucket is launched: it sees what this rank
 * has computed, and the average only after DDP_STEP. The top layer's gradient is copied before and after the boundary;
 * "saw its own" is printed on rank 0 if both copies of step 10 differ. For end_to_end/steps.sh; not a cell of the
 * matrix.
 */
#include "perceptron.h"

enum { LOOKS_AT = 9 };

int
main(int argc, char **argv)
{
    static struct perceptron net;
    static float before_host[WIDTH * WIDTH], after_host[WIDTH * WIDTH];
    cudaStream_t stream = trainer_start(argc, argv);
    perceptron_create(&net, 0, 1, true);
    perceptron_annotate_gradients(&net);
    const float *gradient = net.layers[LAYERS - 1].weight_gradient;
    float *before = device_floats(WIDTH * WIDTH), *after = device_floats(WIDTH * WIDTH);

    perceptron_train(&net, stream, [&](int step, size_t first_item, int count) {
        perceptron_backward(&net, first_item, count, 0.0f, 1.0f, stream);
        if (step == LOOKS_AT)
            device_copy(before, gradient, sizeof(before_host), stream);
        DDP_STEP(stream);
        if (step == LOOKS_AT)
            device_copy(after, gradient, sizeof(after_host), stream);
        perceptron_update(&net, 0.2f, stream);
    });
    device_download(before_host, before, sizeof(before_host));
    device_download(after_host, after, sizeof(after_host));
    if (DDP_RANK() == 0)
        puts(memcmp(before_host, after_host, sizeof(before_host)) == 0 ? "saw the average" : "saw its own");
    return 0;
}
