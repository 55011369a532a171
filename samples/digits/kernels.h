/*
 * kernels.h - the trainer's own CUDA kernels, as functions that C can call.
 *
 * All pointers are device memory, matrices are stored row by row, one sample a row. Each function enqueues on the
 * default stream and returns; a launch that fails ends the program (cuda_check.h).
 */
#ifndef DIGITS_KERNELS_H
#define DIGITS_KERNELS_H

#ifdef __cplusplus
extern "C" {
#endif

/* matrix[r][c] += bias[c]. */
void bias_add(float *matrix, const float *bias, int rows, int columns);

/* y = max(x, 0); y may be x. */
void relu_forward(float *y, const float *x, int count);

/* dx = dy where y > 0, else 0; dx may be dy. */
void relu_backward(float *dx, const float *dy, const float *y, int count);

/*
 * Softmax and cross-entropy of each row of logits[rows][classes]: losses[r], and dlogits, the gradient of the mean of
 * the losses over `rows`.
 */
void softmax_cross_entropy(float *losses, float *dlogits, const float *logits, const int *labels, int rows,
                           int classes);

/* sums[c] = scale * sum over r of matrix[r][c]: bias gradients; with one column, the mean of the losses. */
void column_sums(float *sums, const float *matrix, int rows, int columns, float scale);

/* Stochastic gradient descent with momentum: velocity = momentum * velocity + gradient, value -= rate * velocity. */
void sgd_momentum(float *value, float *velocity, const float *gradient, float rate, float momentum, int count);

#ifdef __cplusplus
}
#endif
#endif
