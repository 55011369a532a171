/*
 * epilogue.h - what is done to the elements of a product before they are stored: bias, activation, its gradient; and
 * the sums along rows that are gradients of biases. Pure functions on plain memory, called by matmul.c inside its
 * kernel.
 *
 * GELU is the approximation with tanh, as in cuBLASLt: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
 */
#ifndef SOFTGPU_CUBLASLT_EPILOGUE_H
#define SOFTGPU_CUBLASLT_EPILOGUE_H

#include <library_types.h>
#include <stdbool.h>
#include <stdint.h>

enum activation {
    ACTIVATION_NONE,
    ACTIVATION_RELU,
    ACTIVATION_GELU,
    ACTIVATION_RELU_GRADIENT, /* the product times the derivative where the forward pass stood, as `aux` says */
    ACTIVATION_GELU_GRADIENT,
};

struct epilogue {
    enum activation activation;
    cudaDataType type;       /* of the bias and of GELU's auxiliary matrix */
    const void *bias;        /* one element a row, or NULL */
    bool has_bias_by_column; /* the matrix lies transposed in memory */
    /* NULL, or by column with aux_ld elements each: RELU a bit per element, set where its input was positive; GELU its
     * input. Written by an activation, read by a gradient. */
    void *aux;
    int64_t aux_ld;
};

/* Applies it to rows x columns values whose first is element (i0, j0) of the matrix; i0 is a multiple of 8. */
void epilogue_float(const struct epilogue *epilogue, int64_t i0, int64_t j0, int64_t rows, int64_t columns,
                    float *values, int64_t ld);

/* The same for double, where the bias and the auxiliary matrix are double too. */
void epilogue_double(const struct epilogue *epilogue, int64_t i0, int64_t j0, int64_t rows, int64_t columns,
                     double *values, int64_t ld);

/* sums[i] = the sum of row i of op(matrix), rows x columns; all elements of `type`, summed in double. */
void sum_rows(const void *matrix, cudaDataType type, bool is_transposed, int64_t rows, int64_t columns, int64_t ld,
              void *sums);

#endif
