/*
 * clipping.cu - clipping by the global norm: after the boundary a kernel squares and sums every gradient, another turns
 * the sums into one factor, and a third scales each gradient in place, before the optimizer uses it.
 */
#include "perceptron.h"

static __global__ void
clip_factor(float *factor, const float *sums, int count, float limit)
{
    float total = 0.0f;
    if (blockIdx.x * blockDim.x + threadIdx.x > 0)
        return;
    for (int i = 0; i < count; ++i)
        total += sums[i];
    float norm = sqrtf(total);
    *factor = norm > limit ? limit / norm : 1.0f;
}

static __global__ void
scale_by(float *values, const float *factor, int count)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        values[i] *= *factor;
}

static void
clip(const struct perceptron *net, float *sums, float *factor, cudaStream_t stream)
{
    for (int l = 0; l < LAYERS; ++l) {
        LAUNCH(square_sum, 1, stream)(&sums[2 * l], net->layers[l].weight_gradient, WIDTH * WIDTH, 0);
        LAUNCH(square_sum, 1, stream)(&sums[2 * l + 1], net->layers[l].bias_gradient, WIDTH, 0);
    }
    LAUNCH(clip_factor, 1, stream)(factor, sums, 2 * LAYERS, 0.05f);
    for (int l = 0; l < LAYERS; ++l) {
        LAUNCH(scale_by, WIDTH * WIDTH, stream)(net->layers[l].weight_gradient, factor, WIDTH * WIDTH);
        LAUNCH(scale_by, WIDTH, stream)(net->layers[l].bias_gradient, factor, WIDTH);
    }
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
