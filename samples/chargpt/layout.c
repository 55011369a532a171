/*
 * layout.c - see layout.h.
 */
#include "layout.h"

#include "common/random.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void add(struct layout *layout, size_t count, float deviation, float mean, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

static void
add(struct layout *layout, size_t count, float deviation, float mean, const char *format, ...)
{
    struct tensor *tensor = &layout->tensors[layout->tensor_count++];
    va_list args;
    va_start(args, format);
    vsnprintf(tensor->name, sizeof(tensor->name), format, args);
    va_end(args);
    tensor->offset = layout->count;
    tensor->count = count;
    tensor->deviation = deviation;
    tensor->mean = mean;
    layout->count += count;
}

void
layout_create(struct layout *layout, const struct shape *shape)
{
    memset(layout, 0, sizeof(*layout));
    layout->shape = *shape;
    const size_t width = (size_t)shape->width, vocabulary = (size_t)shape->vocabulary;
    const float deviation = 0.02f, residual = deviation / sqrtf(2.0f * (float)shape->layers);

    add(layout, vocabulary * width, deviation, 0.0f, "token_embedding");
    add(layout, (size_t)shape->context * width, deviation, 0.0f, "position_embedding");
    for (int i = 0; i < shape->layers; ++i) {
        add(layout, width * 3 * width, deviation, 0.0f, "block%d.qkv", i);
        add(layout, width * width, residual, 0.0f, "block%d.project", i);
        add(layout, width * 4 * width, deviation, 0.0f, "block%d.expand", i);
        add(layout, 4 * width * width, residual, 0.0f, "block%d.shrink", i);
    }
    add(layout, width * vocabulary, deviation, 0.0f, "head");
    layout->matrix_count = layout->count;

    for (int i = 0; i < shape->layers; ++i) {
        add(layout, width, 0.0f, 1.0f, "block%d.gain1", i);
        add(layout, width, 0.0f, 0.0f, "block%d.bias1", i);
        add(layout, width, 0.0f, 0.0f, "block%d.project_bias", i);
        add(layout, width, 0.0f, 1.0f, "block%d.gain2", i);
        add(layout, width, 0.0f, 0.0f, "block%d.bias2", i);
        add(layout, 4 * width, 0.0f, 0.0f, "block%d.expand_bias", i);
        add(layout, width, 0.0f, 0.0f, "block%d.shrink_bias", i);
    }
    add(layout, width, 0.0f, 1.0f, "final_gain");
    add(layout, width, 0.0f, 0.0f, "final_bias");
}

/* In the order of layout_create(). */
struct tensors
layout_tensors(const struct layout *layout, float *base)
{
    struct tensors at;
    const struct tensor *next = layout->tensors;
    at.token_embedding = base + next++->offset;
    at.position_embedding = base + next++->offset;
    for (int i = 0; i < layout->shape.layers; ++i) {
        struct block_tensors *block = &at.blocks[i];
        float **const matrices[] = {&block->qkv, &block->project, &block->expand, &block->shrink};
        for (size_t j = 0; j < sizeof(matrices) / sizeof(matrices[0]); ++j)
            *matrices[j] = base + next++->offset;
    }
    at.head = base + next++->offset;
    for (int i = 0; i < layout->shape.layers; ++i) {
        struct block_tensors *block = &at.blocks[i];
        float **const vectors[] = {&block->gain1, &block->bias1,       &block->project_bias, &block->gain2,
                                   &block->bias2, &block->expand_bias, &block->shrink_bias};
        for (size_t j = 0; j < sizeof(vectors) / sizeof(vectors[0]); ++j)
            *vectors[j] = base + next++->offset;
    }
    at.final_gain = base + next++->offset;
    at.final_bias = base + next->offset;
    return at;
}

/* Of mean 0 and deviation 1 (G. Box, M. Muller, "A note on the generation of random normal deviates", 1958). */
static float
random_normal(struct random *random)
{
    const double turn = 6.283185307179586;
    double radius = sqrt(-2.0 * log(1.0 - (double)random_uniform(random)));
    return (float)(radius * cos(turn * (double)random_uniform(random)));
}

void
layout_initialise(const struct layout *layout, float *values, uint64_t seed)
{
    struct random random = random_seeded(seed);
    for (int i = 0; i < layout->tensor_count; ++i) {
        const struct tensor *tensor = &layout->tensors[i];
        for (size_t j = 0; j < tensor->count; ++j)
            values[tensor->offset + j] =
                tensor->mean + (tensor->deviation > 0.0f ? tensor->deviation * random_normal(&random) : 0.0f);
    }
}
