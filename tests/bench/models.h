/*
 * models.h - models of published sizes: gradients, and when backward completes them.
 *
 * Ready times are computed, not measured: each operation takes its number of floating-point operations over the GPU's
 * rate, and never less than a kernel does.
 */
#ifndef DDPRUN_TESTS_BENCH_MODELS_H
#define DDPRUN_TESTS_BENCH_MODELS_H

#include "bucketing/plan.h"

#include <stddef.h>
#include <stdint.h>

enum { MODEL_COUNT = 4, BYTES_PER_ELEMENT = 4 };

/* Gradients in the order in which backward completes them. */
struct model {
    const char *name;
    struct plan_gradient *gradients; /* [count] */
    int64_t *ready_ns;               /* [count]: since the begin of backward */
    int64_t *spent_ns;               /* [count]: of backward since the gradient before */
    size_t *order;                   /* [count]: 0, 1, 2, ... */
    size_t count;
    uint64_t bytes;
    int64_t backward_ns;
};

/* Makes the model of this number, from 0 on. model_free() releases it. */
void model_make(size_t number, struct model *model);
void model_free(struct model *model);

/* `count` elements of zeros, and one more. Ends the program where there is no memory. */
void *array(size_t count, size_t bytes);

#endif
