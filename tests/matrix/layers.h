/*
 * layers.h - a dense layer of most trainers of the matrix: its memory, and the launches of tests/lib/trainer_net.h for
 * it. Included by tests/matrix/NAME.cu.
 */
#ifndef TESTS_MATRIX_LAYERS_H
#define TESTS_MATRIX_LAYERS_H

#include "trainer.h"

/* ---- clipping ---- */

/* Of gradients, the root of whose squares becomes `limit` where it is larger. */
static __global__ void
clip_factor(float *factor, const float *squares, int count, float limit)
{
    float total = 0.0f;
    if (blockIdx.x * blockDim.x + threadIdx.x > 0)
        return;
    for (int i = 0; i < count; ++i)
        total += squares[i];
    float norm = sqrtf(total);
    *factor = norm > limit ? limit / norm : 1.0f;
}

/* By a number, and by one on the device, or NULL. */
STATIC_ELEMENTWISE(scale_in_place, (float *values, int count, float by, const float *factor), count,
                   values[i] *= by * (factor != NULL ? *factor : 1.0f))

/* ---- a layer ---- */

struct dense {
    int inputs, outputs;
    float *weight, *bias, *weight_gradient, *bias_gradient, *weight_momentum, *bias_momentum;
    float *output, *delta; /* [batch][outputs] */
};

/* One of its two parameters. */
struct tensor {
    float *value, *gradient, *momentum;
    int count;
};

static inline std::vector<tensor>
tensors_of(const struct dense *layer)
{
    return {{layer->weight, layer->weight_gradient, layer->weight_momentum, layer->inputs * layer->outputs},
            {layer->bias, layer->bias_gradient, layer->bias_momentum, layer->outputs}};
}

/* Of several layers. */
static inline std::vector<tensor>
tensors_of(const struct dense *layers, int count)
{
    std::vector<tensor> all;
    for (int l = 0; l < count; ++l)
        for (const tensor &one : tensors_of(&layers[l]))
            all.push_back(one);
    return all;
}

/* With gradients if `with_gradients`; parameters are recorded, and annotated with DDP_PARAMETER. */
static inline void
dense_create(struct dense *layer, int number, int inputs, int outputs, bool with_gradients)
{
    size_t matrix = (size_t)inputs * (size_t)outputs, rows = (size_t)options.batch * (size_t)outputs;
    *layer = (struct dense){inputs, outputs};
    layer->weight = weights_create((unsigned)number, matrix, inputs);
    layer->bias = device_floats((size_t)outputs);
    layer->weight_momentum = device_floats(matrix);
    layer->bias_momentum = device_floats((size_t)outputs);
    layer->output = device_floats(rows);
    layer->delta = device_floats(rows);
    if (with_gradients) {
        layer->weight_gradient = device_floats(matrix);
        layer->bias_gradient = device_floats((size_t)outputs);
    }
    DDP_PARAMETER(layer->weight, matrix, DDP_FLOAT32);
    DDP_PARAMETER(layer->bias, outputs, DDP_FLOAT32);
    record_add("w", number, layer->weight, matrix);
    record_add("b", number, layer->bias, (size_t)outputs);
}

static inline void
dense_annotate_gradients(const struct dense *layer)
{
    DDP_GRADIENT(layer->weight_gradient, (size_t)layer->inputs * (size_t)layer->outputs, DDP_FLOAT32);
    DDP_GRADIENT(layer->bias_gradient, layer->outputs, DDP_FLOAT32);
}

static inline void
dense_run_forward(const struct dense *layer, const float *input, int count, cudaStream_t stream)
{
    LAUNCH(dense_forward, (size_t)(layer->outputs * count), stream)
    (layer->output, input, layer->weight, layer->bias, layer->inputs, layer->outputs, count);
}

/* Both gradients of the layer: keep * what is there + scale * those of these items. */
static inline void
dense_run_gradients(const struct dense *layer, const float *input, int count, float keep, float scale,
                    cudaStream_t stream)
{
    LAUNCH(weight_gradient, (size_t)(layer->inputs * layer->outputs), stream)
    (layer->weight_gradient, layer->delta, input, layer->inputs, layer->outputs, count, keep, scale);
    LAUNCH(bias_gradient, (size_t)layer->outputs, stream)
    (layer->bias_gradient, layer->delta, layer->outputs, count, keep, scale);
}

/* What the layer below gets. */
static inline void
dense_run_delta(const struct dense *layer, const struct dense *below, int count, cudaStream_t stream)
{
    LAUNCH(input_delta, (size_t)(layer->inputs * count), stream)
    (below->delta, layer->weight, layer->delta, below->output, layer->inputs, layer->outputs, count);
}

static inline void
dense_update(const struct dense *layer, float rate, cudaStream_t stream)
{
    for (const tensor &t : tensors_of(layer))
        LAUNCH(sgd, (size_t)t.count, stream)(t.value, t.momentum, t.gradient, t.count, rate);
}

#endif
