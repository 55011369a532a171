/*
 * gpt.h - the trainer's network in plain C on one thread: what its results and its speed are compared with.
 *
 * The same arithmetic as model.h, in host memory, with the matrix products of the same BLAS. Called by the benchmark
 * program (main.c) and by tests; the trainer never uses it. Ends the program if there is no memory.
 */
#ifndef CHARGPT_REFERENCE_GPT_H
#define CHARGPT_REFERENCE_GPT_H

#include "chargpt/adamw.h"
#include "chargpt/layout.h"

#include <stddef.h>
#include <stdint.h>

struct gpt_block {
    float *input, *mean1, *scale1, *norm1, *qkv, *shares, *mixed, *middle, *mean2, *scale2, *norm2, *expanded, *active;
};

struct gpt {
    struct layout layout;
    float *values, *gradients, *moments1, *moments2; /* layout.count floats each */
    struct tensors value_at, gradient_at;
    struct gpt_block blocks[LAYERS_MAX];
    float *output, *mean, *scale, *norm, *logits;
    float *dstream, *dnorm, *dwide, *dshares;
};

/* For up to max_sequences sequences of shape->context characters. */
void gpt_create(struct gpt *gpt, const struct shape *shape, size_t max_sequences, uint64_t seed);

void gpt_destroy(struct gpt *gpt);

/* Mean loss of inputs[sequences][length]; the logits stay. */
double gpt_forward(struct gpt *gpt, const int *inputs, const int *targets, size_t sequences, size_t length);

/* After gpt_forward() with the same arguments: adds `factor` times the gradients of that loss to the gradients. */
void gpt_backward(struct gpt *gpt, const int *inputs, const int *targets, size_t sequences, size_t length,
                  float factor);

void gpt_zero_gradients(struct gpt *gpt);

void gpt_update(struct gpt *gpt, const struct adamw *constants);

#endif
