/*
 * model.h - a GPT of characters in device memory, on the default stream.
 *
 * Blocks of layer norm, causal attention, layer norm and GELU perceptron on a residual stream. All parameters lie in
 * one buffer, as do all gradients and the optimizer's moments (layout.h). Matrix products and column sums are cuBLAS's,
 * all else are the kernels of kernels.h. An error of CUDA ends the program (cuda_check.h). Not for use by several
 * threads at a time.
 */
#ifndef CHARGPT_MODEL_H
#define CHARGPT_MODEL_H

#include "kernels.h"
#include "layout.h"

#include <cublas_v2.h>
#include <stddef.h>

/* What the forward pass of a block keeps for its backward pass. C is the width, a row one character. */
struct block_state {
    float *input;                  /* [rows][C]: the residual stream on entry */
    float *mean1, *scale1, *norm1; /* [rows], [rows], [rows][C] */
    float *qkv;                    /* [rows][3C]: queries, keys, values */
    float *shares;                 /* [sequences][heads][length][length]: how much each place looks at others */
    float *mixed;                  /* [rows][C] */
    float *middle;                 /* [rows][C]: the residual stream between attention and perceptron */
    float *mean2, *scale2, *norm2; /* as above */
    float *expanded, *active;      /* [rows][4C]: before and after GELU */
};

struct model {
    cublasHandle_t blas;
    struct layout layout;
    size_t max_sequences;
    float *values, *gradients, *moments1, *moments2; /* layout.count floats each */
    struct tensors value_at, gradient_at;            /* in values and in gradients */

    struct block_state blocks[LAYERS_MAX];
    float *output;                           /* [rows][C]: the residual stream at the end */
    float *mean, *scale, *norm;              /* of the last layer norm */
    float *logits;                           /* [rows][vocabulary]; after the loss its gradient */
    float *losses;                           /* [rows] */
    float *dstream, *dnorm, *dgains, *dwide; /* backward's own: [rows][C] three times, [rows][4C] */
    float *dshares;                          /* as shares */
    float *row_sums;                         /* [rows][2] */
    float *ones;                             /* [rows] */
    float *gradient_norm;                    /* one float */
    int *inputs, *targets;                   /* [rows] */
    int *by_token, *token_starts;            /* the rows sorted by input; where each input's begin, [vocabulary + 1] */
    int *host_order;                         /* host memory for both */

    int sequences, length; /* of the input */
};

/* Allocates for up to max_sequences sequences of shape->context characters; zero gradients and moments. */
void model_create(struct model *model, const struct shape *shape, size_t max_sequences, uint64_t seed);

void model_destroy(struct model *model);

/*
 * Copies sequences to the device: inputs[sequences][length], and the characters to predict, or NULL. length may be
 * anything up to the context.
 */
void model_input(struct model *model, const int *inputs, const int *targets, size_t sequences, size_t length);

/* From the input to the logits. */
void model_forward(struct model *model);

/* Mean loss of the input after model_forward(); waits for the device. The logits are gone afterwards. */
float model_loss(struct model *model);

/*
 * Losses and backward pass, after model_forward(): adds the gradients of the mean loss times `factor` to the gradients.
 */
void model_backward(struct model *model, float factor);

/* Mean of the losses of the last model_backward() or model_loss(); waits for the device. */
float model_last_loss(struct model *model);

void model_zero_gradients(struct model *model);

/* One step of the optimizer, with the gradients scaled down to constants->norm_limit. */
void model_update(struct model *model, const struct adamw *constants);

/* Waits for the device. */
void model_wait(void);

/* Logits of the input's last character, after model_forward(), to host memory; waits for the device. */
void model_last_logits(struct model *model, float *logits);

/*
 * Writes the parameters to `path`, where "%d" becomes `rank`; a path without it is written by rank 0 only. Ends the
 * program with exit code 1 if the file cannot be written.
 */
void model_save(struct model *model, const char *path, int rank);

#endif
