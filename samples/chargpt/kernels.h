/*
 * kernels.h - the trainer's own CUDA kernels, as functions that C can call.
 *
 * All pointers are device memory, matrices are stored row by row, one character (one place of one sequence) a row. Each
 * function enqueues on the default stream and returns; a launch that fails ends the program (cuda_check.h). Sums are
 * taken in a fixed order, without atomics, so that a run repeats bit for bit. A row has at most 1024 columns where a
 * block is a row.
 */
#ifndef CHARGPT_KERNELS_H
#define CHARGPT_KERNELS_H

#include "adamw.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* x[r] = tokens[inputs[r]] + positions[r % length]. */
void embed_forward(float *x, const float *tokens, const float *positions, const int *inputs, int rows, int length,
                   int width);

/*
 * dtokens[t] += the sum of dx[r] over the rows whose input is t; they are by_token[starts[t] .. starts[t + 1]).
 * dpositions[p] += the sum of dx[r] over r % length == p.
 */
void embed_backward(float *dtokens, float *dpositions, const float *dx, const int *by_token, const int *starts,
                    int rows, int length, int vocabulary, int width);

/* y[r] = (x[r] - mean[r]) * scale[r] * gain + bias, where scale is 1 / deviation of the row; keeps both for backward.
 */
void layer_norm_forward(float *y, float *mean, float *scale, const float *x, const float *gain, const float *bias,
                        int rows, int width);

/*
 * dx += the gradient for x, from dy. dgains[r] = dy[r] * normalised x[r]: its column sums are the gradient of the gain
 * (that of the bias are the column sums of dy). sums is room for 2 floats a row.
 */
void layer_norm_backward(float *dx, float *dgains, float *sums, const float *dy, const float *x, const float *mean,
                         const float *scale, const float *gain, int rows, int width);

/* sum[r] = x[r] + y[r] + bias: the residual stream; sum may be x or y. */
void residual_forward(float *sum, const float *x, const float *y, const float *bias, int rows, int columns);

/* x[r] += bias; y = gelu(x). */
void gelu_forward(float *y, float *x, const float *bias, int rows, int columns);

/* dx = dy * gelu'(x); dx may be dy. */
void gelu_backward(float *dx, const float *dy, const float *x, int rows, int columns);

/* Each row t of the score matrices [length][length] becomes its softmax over columns 0..t, and 0 beyond. */
void causal_softmax_forward(float *scores, int matrices, int length);

/* dscores, in the place of dshares, the gradients for the results `shares` of causal_softmax_forward(). */
void causal_softmax_backward(float *dshares, const float *shares, int matrices, int length);

/* Softmax and cross-entropy: losses[r], and dlogits = factor * gradient of losses[r] in the place of logits. */
void cross_entropy(float *losses, float *logits, const int *targets, float factor, int rows, int vocabulary);

/*
 * AdamW (I. Loshchilov, F. Hutter, "Decoupled weight decay regularization", ICLR 2019, algorithm 2) over a flat buffer,
 * with clipping: *norm is the norm of gradients[count]. Only the first `decayed` values decay.
 */
void adamw_update(float *values, float *moments1, float *moments2, const float *gradients, const float *norm,
                  const struct adamw *constants, size_t count, size_t decayed);

#ifdef __cplusplus
}
#endif
#endif
