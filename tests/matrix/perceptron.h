/*
 * perceptron.h - a stack of dense layers of one width, by kernels only, for the trainers whose point is not the model
 * but when, where and how often its gradients are written. Included by tests/matrix/NAME.cu.
 */
#ifndef TESTS_MATRIX_PERCEPTRON_H
#define TESTS_MATRIX_PERCEPTRON_H

#include "layers.h"

enum { LAYERS = 5, WIDTH = 32 };

struct perceptron {
    struct dense layers[LAYERS];
    struct items items;
};

/* `passes`: batches in a step. `number` distinguishes the parameters of several perceptrons. */
static inline void
perceptron_create(struct perceptron *net, int number, int passes, bool with_gradients)
{
    items_create(&net->items, (size_t)(options.steps * options.batch * passes), WIDTH, WIDTH);
    for (int l = 0; l < LAYERS; ++l)
        dense_create(&net->layers[l], LAYERS * number + l, WIDTH, WIDTH, with_gradients);
}

static inline void
perceptron_annotate_gradients(const struct perceptron *net)
{
    for (int l = 0; l < LAYERS; ++l)
        dense_annotate_gradients(&net->layers[l]);
}

/* What layer l gets from the items. */
static inline const float *
perceptron_input(const struct perceptron *net, int l, size_t first_item)
{
    return l > 0 ? net->layers[l - 1].output : net->items.device_inputs + first_item * WIDTH;
}

/* Forward, and the delta of the last layer. */
static inline void
perceptron_forward(const struct perceptron *net, size_t first_item, int count, cudaStream_t stream)
{
    const struct dense *last = &net->layers[LAYERS - 1];
    for (int l = 0; l < LAYERS; ++l)
        dense_run_forward(&net->layers[l], perceptron_input(net, l, first_item), count, stream);
    LAUNCH(loss_delta, (size_t)(WIDTH * count), stream)
    (last->delta, last->output, net->items.device_targets + first_item * WIDTH, WIDTH, count);
}

/* All gradients: keep * what is there + scale * those of these items. */
static inline void
perceptron_backward(const struct perceptron *net, size_t first_item, int count, float keep, float scale,
                    cudaStream_t stream)
{
    for (int l = LAYERS - 1; l >= 0; --l) {
        dense_run_gradients(&net->layers[l], perceptron_input(net, l, first_item), count, keep, scale, stream);
        if (l > 0)
            dense_run_delta(&net->layers[l], &net->layers[l - 1], count, stream);
    }
}

static inline void
perceptron_update(const struct perceptron *net, float rate, cudaStream_t stream)
{
    for (int l = 0; l < LAYERS; ++l)
        dense_update(&net->layers[l], rate, stream);
}

/* As train_all(): forward on `stream`, then what the program does from there to its update. */
template <typename Train>
static inline int
perceptron_train(const struct perceptron *net, cudaStream_t stream, Train train_step)
{
    return train_all(stream, [&](int step, size_t first_item, int count) {
        items_load(&net->items, first_item, (size_t)count, stream);
        perceptron_forward(net, first_item, count, stream);
        train_step(step, first_item, count);
    });
}

#endif
