/*
 * clipping.cu - clipping by the global norm: after the boundary a kernel squares and sums every gradient, another turns
 * the sums into one factor, and a third scales each gradient in place, before the optimizer uses it.
 */
#include "perceptron.h"

static void
clip(const struct perceptron *net, float *sums, float *factor, cudaStream_t stream)
{
    const std::vector<tensor> all = tensors_of(net->layers, LAYERS);
    for (size_t i = 0; i < all.size(); ++i)
        LAUNCH(square_sum, 1, stream)(&sums[i], all[i].gradient, all[i].count, 0);
    LAUNCH(clip_factor, 1, stream)(factor, sums, 2 * LAYERS, 0.05f);
    for (const tensor &t : all)
        LAUNCH(scale_in_place, (size_t)t.count, stream)(t.gradient, t.count, 1.0f, factor);
}

int
main(int argc, char **argv)
{
    static struct perceptron net;
    cudaStream_t stream = trainer_start(argc, argv);
    float *sums = device_floats(2 * LAYERS), *factor = device_floats(1);
    perceptron_create(&net, 0, 1, true);
    perceptron_annotate_gradients(&net);

    return perceptron_train(&net, stream, [&](int, size_t first_item, int count) {
        perceptron_backward(&net, first_item, count, 0.0f, 1.0f, stream);
        DDP_STEP(stream);
        clip(&net, sums, factor, stream);
        perceptron_update(&net, 0.2f, stream);
    });
}
