/*
 * layer.h - what the programs of this folder share: noise on the device, and a dense layer with tanh that learns
 * targets of noise. Includes nothing of the product: a program without annotations is one that includes it, too.
 *
 * All items lie on the device. A batch is a number of items that follow each other, from item `at` on.
 */
#ifndef TESTS_PROGRAMS_LAYER_H
#define TESTS_PROGRAMS_LAYER_H

#include "tests/lib/trainer_memory.h"
#include "tests/lib/trainer_net.h"

#include <vector>

enum { INPUTS = 12, OUTPUTS = 4, WEIGHTS = INPUTS * OUTPUTS, BATCH = 32, STEPS = 16, ITEMS = STEPS * BATCH };

static inline std::vector<float>
host_noise(unsigned seed, size_t count, float scale)
{
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i)
        values[i] = scale * noise_of(seed, (unsigned)i);
    return values;
}

static inline float *
device_noise(unsigned seed, size_t count, float scale)
{
    return device_copy(host_noise(seed, count, scale).data(), count);
}

struct layer {
    float *x, *target;           /* of all items */
    float *weight, *gradient;    /* [OUTPUTS][INPUTS] */
    float *bias, *bias_gradient; /* [OUTPUTS] */
    float *momentum, *bias_momentum;
    float *output, *delta; /* of a batch */
};

static inline struct layer
layer_create(void)
{
    struct layer layer;
    layer.x = device_noise(1, ITEMS * INPUTS, 1.0f);
    layer.target = device_noise(2, ITEMS * OUTPUTS, 0.8f);
    layer.weight = device_noise(3, WEIGHTS, 0.3f);
    layer.bias = device_noise(4, OUTPUTS, 0.3f);
    layer.gradient = device_floats(WEIGHTS);
    layer.bias_gradient = device_floats(OUTPUTS);
    layer.momentum = device_floats(WEIGHTS);
    layer.bias_momentum = device_floats(OUTPUTS);
    layer.output = device_floats(BATCH * OUTPUTS);
    layer.delta = device_floats(BATCH * OUTPUTS);
    return layer;
}

static inline void
layer_forward(const struct layer *layer, size_t at, int count)
{
    dense_forward<<<blocks_for(BATCH * OUTPUTS), THREADS>>>(layer->output, layer->x + at * INPUTS, layer->weight,
                                                            layer->bias, INPUTS, OUTPUTS, count);
}

/* Of half the sum over the batch's squared errors, divided by `divisor`. */
STATIC_ELEMENTWISE(error_delta, (float *delta, const float *output, const float *target, int count, float divisor),
                   (count * OUTPUTS), delta[i] = (output[i] - target[i]) * (1.0f - output[i] * output[i]) / divisor)

static inline void
layer_loss(const struct layer *layer, size_t at, int count, float divisor)
{
    error_delta<<<blocks_for(BATCH * OUTPUTS), THREADS>>>(layer->delta, layer->output, layer->target + at * OUTPUTS,
                                                          count, divisor);
}

/* From the delta. Gradients are overwritten where `keep` is 0, and added to where it is 1. */
static inline void
layer_backward(const struct layer *layer, size_t at, int count, float keep)
{
    weight_gradient<<<blocks_for(WEIGHTS), THREADS>>>(layer->gradient, layer->delta, layer->x + at * INPUTS, INPUTS,
                                                      OUTPUTS, count, keep, 1.0f);
    bias_gradient<<<1, THREADS>>>(layer->bias_gradient, layer->delta, OUTPUTS, count, keep, 1.0f);
}

/* All of the above, for the mean over the batch. */
static inline void
layer_learn(const struct layer *layer, size_t at, int count)
{
    layer_forward(layer, at, count);
    layer_loss(layer, at, count, (float)count);
    layer_backward(layer, at, count, 0.0f);
}

static inline void
layer_update(const struct layer *layer, float rate)
{
    sgd<<<blocks_for(WEIGHTS), THREADS>>>(layer->weight, layer->momentum, layer->gradient, WEIGHTS, rate);
    sgd<<<1, THREADS>>>(layer->bias, layer->bias_momentum, layer->bias_gradient, OUTPUTS, rate);
}

#endif
