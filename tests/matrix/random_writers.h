/*
 * random_writers.h - the ways in which a random program writes a layer's gradients. Included by random.cu only.
 */
#ifndef TESTS_MATRIX_RANDOM_WRITERS_H
#define TESTS_MATRIX_RANDOM_WRITERS_H

#include "random_program.h"

static struct items items;
static cudaStream_t streams[STREAMS_AT_MOST + 1]; /* 0: main */
static cudaStream_t update_stream;
static cudaEvent_t event, thread_event;
static float *norms, *factor, *rate_scale;
static float *block; /* gradients that lie together */
static size_t block_floats;

struct pieces {
    char first;
    const float *delta, *input;
    short second;
    float *gradient;
    int inputs, outputs, count;
    float keep, scale;
};

static __device__ void
write_gradient(const struct pieces &p)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p.inputs * p.outputs)
        return;
    float sum = 0.0f;
    for (int b = 0; b < p.count; ++b)
        sum += p.delta[b * p.outputs + i / p.inputs] * p.input[b * p.inputs + i % p.inputs];
    p.gradient[i] = (p.keep != 0.0f ? p.keep * p.gradient[i] : 0.0f) + p.scale * sum;
}

static __global__ void
weight_gradient_of(struct pieces p)
{
    write_gradient(p);
}

/* The struct, and in it the gradient, is found in memory. */
static __global__ void
weight_gradient_through(const struct pieces *through)
{
    write_gradient(*through);
}

STATIC_ELEMENTWISE(add_to, (float *to, const float *from, int count), count, to[i] += from[i])

/* The same as weight_gradient, for rows first to first + rows - 1 of the gradient. */
static __global__ void
weight_gradient_rows(float *gradient, const float *delta, const float *input, int inputs, int outputs, int first,
                     int rows, int count, float keep, float scale)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= inputs * rows)
        return;
    float sum = 0.0f;
    for (int b = 0; b < count; ++b)
        sum += delta[b * outputs + first + i / inputs] * input[b * inputs + i % inputs];
    gradient[i] = (keep != 0.0f ? keep * gradient[i] : 0.0f) + scale * sum;
}

static __global__ void
set_value(float *to, float value)
{
    *to = value;
}

/* cuBLAS has no factor for both; the product is written for alpha and beta. */
static void
product(const struct layer *layer, const float *delta, const float *input, int count, float keep, float scale)
{
    const struct dense *d = &layer->dense;
    CHECK(cublasSgemm(layer->blas, CUBLAS_OP_N, CUBLAS_OP_T, d->inputs, d->outputs, count, &scale, input, d->inputs,
                      delta, d->outputs, &keep, d->weight_gradient, d->inputs));
}

static void
write_by_copy(const struct layer *layer, const float *input, int count, float keep, float scale, cudaStream_t stream)
{
    const struct dense *d = &layer->dense;
    size_t matrix = (size_t)(d->inputs * d->outputs);
    LAUNCH(weight_gradient, matrix, stream)
    (layer->scratch, d->delta, input, d->inputs, d->outputs, count, 0.0f, scale);
    if (keep == 0.0f) {
        device_copy(d->weight_gradient, layer->scratch, matrix * sizeof(float), stream);
        return;
    }
    if (keep != 1.0f)
        LAUNCH(scale_in_place, matrix, stream)(d->weight_gradient, (int)matrix, keep, (const float *)NULL);
    LAUNCH(add_to, matrix, stream)(d->weight_gradient, layer->scratch, (int)matrix);
}

static void
write_in_halves(const struct layer *layer, const float *input, int count, float keep, float scale, cudaStream_t stream)
{
    const struct dense *d = &layer->dense;
    int rows = d->outputs / 2, others = d->outputs - rows;
    LAUNCH(weight_gradient_rows, (size_t)(rows * d->inputs), stream)
    (d->weight_gradient, d->delta, input, d->inputs, d->outputs, 0, rows, count, keep, scale);
    LAUNCH(weight_gradient_rows, (size_t)(others * d->inputs), stream)
    (d->weight_gradient + rows * d->inputs, d->delta, input, d->inputs, d->outputs, rows, others, count, keep, scale);
}

/* The struct goes to the device each time, to a place of its own: no copy waits for the use of the one before. */
static void
write_by_table(struct layer *layer, const struct pieces *pieces, cudaStream_t stream)
{
    struct pieces *host = (struct pieces *)layer->tables_host + layer->tables_used;
    struct pieces *device = (struct pieces *)layer->tables_device + layer->tables_used++;
    *host = *pieces;
    device_upload(device, host, sizeof(*host), stream);
    LAUNCH(weight_gradient_through, (size_t)(pieces->inputs * pieces->outputs), stream)(device);
}

static void
tables_create(struct layer *layer)
{
    size_t bytes = (size_t)(options.steps * PASSES_AT_MOST) * sizeof(struct pieces);
    layer->tables_host = pinned_allocate(bytes);
    layer->tables_device = device_allocate(bytes);
}

/* One backward pass's gradients of a layer. */
struct job {
    struct layer *layer;
    const float *input;
    int count;
    float keep, scale;
};

static void
job_run(const struct job *job, cudaEvent_t follows_by)
{
    struct layer *layer = job->layer;
    const struct dense *d = &layer->dense;
    struct pieces pieces = {'a',       d->delta,   job->input, 7,         d->weight_gradient,
                            d->inputs, d->outputs, job->count, job->keep, job->scale};
    cudaStream_t stream = streams[layer->stream];
    if (layer->stream != 0)
        stream_follow(streams[0], stream, follows_by);
    switch (layer->writer) {
    case BY_PRODUCT:
        product(layer, d->delta, job->input, job->count, job->keep, job->scale);
        break;
    case BY_ITEM:
        for (int b = 0; b < job->count; ++b)
            product(layer, d->delta + b * d->outputs, job->input + b * d->inputs, 1, b == 0 ? job->keep : 1.0f,
                    job->scale);
        break;
    case BY_COPY:
        write_by_copy(layer, job->input, job->count, job->keep, job->scale, stream);
        break;
    case BY_STRUCT:
        LAUNCH(weight_gradient_of, (size_t)(d->inputs * d->outputs), stream)(pieces);
        break;
    case BY_TABLE:
        write_by_table(layer, &pieces, stream);
        break;
    case IN_HALVES:
        write_in_halves(layer, job->input, job->count, job->keep, job->scale, stream);
        break;
    default:
        LAUNCH(weight_gradient, (size_t)(d->inputs * d->outputs), stream)
        (d->weight_gradient, d->delta, job->input, d->inputs, d->outputs, job->count, job->keep, job->scale);
    }
    LAUNCH(bias_gradient, (size_t)d->outputs, stream)
    (d->bias_gradient, d->delta, d->outputs, job->count, job->keep, job->scale);
}

#endif
