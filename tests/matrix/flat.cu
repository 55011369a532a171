/*
 * flat.cu - one buffer for all parameters and one for all gradients, as trainers in C have them: one annotation for
 * each tensor inside, one kernel of Adam over the whole buffer. The gradients of the first layers are computed
 * elsewhere and arrive by one copy, which covers several annotations.
 */
#include "perceptron.h"

enum { LAYER_FLOATS = WIDTH * WIDTH + WIDTH, FLOATS = LAYERS * LAYER_FLOATS, STAGED = 2 /* layers */ };

/* Of Adam (D. Kingma and J. Ba, "Adam: a method for stochastic optimization", ICLR 2015); epsilon is large, so that
 * tiny gradients do not decide the update by their rounding. */
STATIC_ELEMENTWISE(adam,
                   (float *weight, float *first, float *second, const float *gradient, int count, float rate,
                    float unbias_first, float unbias_second),
                   count, first[i] = 0.9f * first[i] + 0.1f * gradient[i];
                   second[i] = 0.99f * second[i] + 0.01f * gradient[i] * gradient[i];
                   weight[i] -= rate * (first[i] * unbias_first) / (sqrtf(second[i] * unbias_second) + 1e-2f))

int
main(int argc, char **argv)
{
    static struct perceptron net;
    cudaStream_t stream = trainer_start(argc, argv);
    items_create(&net.items, (size_t)(options.steps * options.batch), WIDTH, WIDTH);
    float *weights = weights_create(0, FLOATS, WIDTH), *gradients = device_floats(FLOATS);
    float *first_moment = device_floats(FLOATS), *second_moment = device_floats(FLOATS);
    for (int l = 0; l < LAYERS; ++l) {
        struct dense *layer = &net.layers[l];
        size_t rows = (size_t)(options.batch * WIDTH);
        *layer = (struct dense){WIDTH, WIDTH};
        layer->weight = weights + l * LAYER_FLOATS;
        layer->bias = layer->weight + WIDTH * WIDTH;
        layer->weight_gradient = gradients + l * LAYER_FLOATS;
        layer->bias_gradient = layer->weight_gradient + WIDTH * WIDTH;
        layer->output = device_floats(rows);
        layer->delta = device_floats(rows);
        dense_annotate_gradients(layer);
    }
    DDP_PARAMETER(weights, FLOATS, DDP_FLOAT32);
    record_add("all", 0, weights, FLOATS);
    float *staged = device_floats(STAGED * LAYER_FLOATS), *norms = device_floats(2 * LAYERS);
    for (int l = 0; l < STAGED; ++l) { /* backward writes there from now on */
        net.layers[l].weight_gradient = staged + l * LAYER_FLOATS;
        net.layers[l].bias_gradient = net.layers[l].weight_gradient + WIDTH * WIDTH;
    }

    return perceptron_train(&net, stream, [&](int step, size_t first_item, int count) {
        perceptron_backward(&net, first_item, count, 0.0f, 1.0f, stream);
        device_copy(gradients, staged, STAGED * LAYER_FLOATS * sizeof(float), stream);
        DDP_STEP(stream);
        for (int l = 0; l < LAYERS; ++l) { /* for a log */
            const float *of_layer = gradients + l * LAYER_FLOATS;
            LAUNCH(square_sum, 1, stream)(&norms[2 * l], of_layer, WIDTH * WIDTH, 0);
            LAUNCH(square_sum, 1, stream)(&norms[2 * l + 1], of_layer + WIDTH * WIDTH, WIDTH, 0);
        }
        LAUNCH(adam, FLOATS, stream)
        (weights, first_moment, second_moment, gradients, (int)FLOATS, 0.01f,
         1.0f / (1.0f - powf(0.9f, (float)step + 1.0f)), 1.0f / (1.0f - powf(0.99f, (float)step + 1.0f)));
    });
}
