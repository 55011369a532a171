/*
 * trainer.h - what the trainers of the matrix share: options, device memory, launches, items to train on, and the
 * record of every parameter after every step. Included by each tests/matrix/NAME.cu, which is one training program as
 * users write them.
 *
 * Each program is built three times: with cudart as a shared library, with cudart inside the program, and, with
 * MATRIX_DRIVER, on the driver alone: its own memory, copies, streams and launches are then calls of libcuda, in all
 * the forms that a launch can have.
 *
 * Nothing here waits for the device between the first step and the last, so that the order of the work is only what the
 * program's streams and events say. Every sum is taken in a fixed order: one process gives the same bits every time.
 */
#ifndef TESTS_MATRIX_TRAINER_H
#define TESTS_MATRIX_TRAINER_H

extern "C" {
#include "common/parameter_file.h"
}

#include "../lib/trainer_options.h"
#include "device.h"

#include <ddprun.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- options ---- */

struct options {
    int steps;
    int batch; /* items in a step, of all ranks together */
    unsigned seed;
    const char *save; /* or NULL; "%d" becomes the rank */
};

static struct options options = {12, 24, 1, NULL};

/* `more`: the program's own. */
static void
options_parse(int argc, char **argv, std::vector<option_row> more = {})
{
    more.insert(more.end(), {{"--steps", &options.steps},
                             {"--batch", &options.batch},
                             {"--seed", &options.seed},
                             {"--save", &options.save}});
    take_options(argc, argv, 1, more);
    if (options.steps < 1 || options.batch < DDP_WORLD_SIZE()) {
        fprintf(stderr, "%s: --steps and --batch must be at least 1, and --batch no less than the ranks\n", argv[0]);
        exit(2);
    }
}

/* The command line and the device; the stream that the program trains on. */
static inline cudaStream_t
trainer_start(int argc, char **argv)
{
    options_parse(argc, argv);
    device_open();
    return stream_create();
}

/* ---- items to train on: the same numbers for every world, by the item's own number ---- */

/* In [-1, 1). */
static float
noise(unsigned salt, unsigned number)
{
    return noise_of(options.seed * 31u + salt, number);
}

/* Device memory with `count` weights of noise around 0, by `inputs` columns: activations keep their size. */
static inline float *
weights_create(unsigned salt, size_t count, int inputs)
{
    float *weights = device_floats(count), *host = (float *)malloc(count * sizeof(float));
    for (size_t i = 0; i < count; ++i)
        host[i] = 2.0f * noise(1000 + salt, (unsigned)i) / sqrtf((float)inputs);
    device_upload(weights, host, count * sizeof(float), 0);
    device_wait();
    free(host);
    return weights;
}

/* Every item has a place of its own, on the host and on the device: no copy waits for the use of the one before. */
struct items {
    int inputs, outputs; /* floats of an item */
    float *host_inputs, *host_targets, *device_inputs, *device_targets;
};

static inline void
items_create(struct items *items, size_t count, int inputs, int outputs)
{
    items->inputs = inputs;
    items->outputs = outputs;
    items->host_inputs = (float *)pinned_allocate(count * (size_t)inputs * sizeof(float));
    items->host_targets = (float *)pinned_allocate(count * (size_t)outputs * sizeof(float));
    items->device_inputs = device_floats(count * (size_t)inputs);
    items->device_targets = device_floats(count * (size_t)outputs);
}

/* Brings items first to first + count - 1 to the device, in the order of `stream`. */
static inline void
items_load(const struct items *items, size_t first, size_t count, cudaStream_t stream)
{
    size_t inputs = (size_t)items->inputs, outputs = (size_t)items->outputs;
    for (size_t n = first; n < first + count; ++n) {
        float *x = items->host_inputs + n * inputs, *y = items->host_targets + n * outputs;
        for (size_t i = 0; i < inputs; ++i)
            x[i] = noise(1, (unsigned)(n * inputs + i));
        for (size_t i = 0; i < outputs; ++i)
            y[i] = 0.5f * noise(2, (unsigned)i) * x[i % inputs] + 0.25f * x[(i + 1) % inputs];
    }
    device_upload(items->device_inputs + first * inputs, items->host_inputs + first * inputs,
                  count * inputs * sizeof(float), stream);
    device_upload(items->device_targets + first * outputs, items->host_targets + first * outputs,
                  count * outputs * sizeof(float), stream);
}

/* ---- the record: every parameter after every step ---- */

enum { RECORDED_AT_MOST = 64 };

struct recorded {
    char name[16];
    const float *values;
    size_t count;
    float *history; /* device: [steps][count] */
};

static struct recorded record[RECORDED_AT_MOST];
static int record_count;

static inline void
record_add(const char *letter, int number, const float *values, size_t count)
{
    REQUIRE(record_count < RECORDED_AT_MOST);
    struct recorded *one = &record[record_count++];
    snprintf(one->name, sizeof(one->name), "%s%d", letter, number);
    one->values = values;
    one->count = count;
    one->history = device_floats((size_t)options.steps * count);
}

/* A parameter gets other memory, and what it had is freed; the device has done all work on it. */
static inline void
record_move(float **values, size_t count)
{
    float *moved = device_floats(count);
    device_copy(moved, *values, count * sizeof(float), 0);
    device_wait();
    for (struct recorded &one : record)
        one.values = one.values == *values ? moved : one.values;
    device_free(*values);
    *values = moved;
}

/* All parameters as they are now, in the order of `stream`. */
static inline void
record_step(int step, cudaStream_t stream)
{
    for (int i = 0; i < record_count; ++i)
        device_copy(record[i].history + (size_t)step * record[i].count, record[i].values,
                    record[i].count * sizeof(float), stream);
}

/* A parameter that hardly moves would be equal whatever its gradient is: that proves nothing. */
static inline void
require_movement(const char *name, const float *before, const float *after, size_t count)
{
    float moved = 0.0f, largest = 0.0f;
    for (size_t i = 0; i < count; ++i) {
        moved = fmaxf(moved, fabsf(after[i] - before[i]));
        largest = fmaxf(largest, fabsf(after[i]));
    }
    if (!(moved > 1e-3f * largest)) {
        fprintf(stderr, "parameter %s hardly moves: at most %g from step to step, values up to %g\n", name,
                (double)moved, (double)largest);
        exit(1);
    }
}

/* Waits for the device and writes --save: one tensor NAME@STEP for each parameter and step. */
static inline void
record_save(void)
{
    device_wait();
    if (options.save == NULL)
        return;
    size_t count = (size_t)record_count * (size_t)options.steps;
    struct parameter *all = (struct parameter *)calloc(count, sizeof(*all));
    for (size_t i = 0; i < count; ++i) {
        const struct recorded *one = &record[i % (size_t)record_count];
        size_t step = i / (size_t)record_count;
        snprintf(all[i].name, sizeof(all[i].name), "%s@%d", one->name, (int)step + 1);
        all[i].count = one->count;
        all[i].values = (float *)malloc(one->count * sizeof(float));
        device_download(all[i].values, one->history + step * one->count, one->count * sizeof(float));
        if (step == (size_t)options.steps - 1 && step > 0)
            require_movement(one->name, all[i - (size_t)record_count * step].values, all[i].values, one->count);
    }
    CHECK(parameter_file_write(options.save, DDP_RANK(), all, count));
    for (size_t i = 0; i < count; ++i)
        free(all[i].values);
    free(all);
}

/*
 * All steps: what the program does in each is train_step(step, first item, items), whose work `stream` waits for; the
 * items are this rank's. Returns main()'s exit code.
 */
template <typename Train>
static inline int
train_all(cudaStream_t stream, Train train_step)
{
    size_t first, count;
    DDP_SHARD(options.batch, &first, &count);
    for (int step = 0; step < options.steps; ++step) {
        train_step(step, (size_t)(step * options.batch) + first, (int)count);
        record_step(step, stream);
    }
    record_save();
    return 0;
}

#endif
