/*
 * check.h - a matrix product of cuBLASLt after its descriptors were understood: what check.c gives to matmul.c.
 */
#ifndef SOFTGPU_CUBLASLT_CHECK_H
#define SOFTGPU_CUBLASLT_CHECK_H

#include "cublas/gemm_core.h"
#include "cublaslt/descriptor.h"
#include "cublaslt/epilogue.h"

/* Which sums of a matrix are a bias gradient. */
enum bias_gradient { BIAS_GRADIENT_NONE, BIAS_GRADIENT_OF_D, BIAS_GRADIENT_OF_A, BIAS_GRADIENT_OF_B };

/*
 * D = epilogue(alpha op(A) op(B) + beta C). A matrix by rows is its transpose by columns; where D is one, the problem
 * below computes D's transpose, whose first factor is B's, second A's: `is_swapped`.
 */
struct product {
    struct gemm_problem problem; /* its ldc is C's */
    int64_t ldd;
    int64_t rows, columns, depth;    /* of D, as the program sees it, and the dimension summed over */
    bool transposes_a, transposes_b; /* of the program's A and B, as they lie in memory by columns */
    int64_t lda, ldb;                /* of the same */
    bool is_swapped;
    bool is_scalar_on_device;
    cudaDataType scalar_type;
    int64_t batch_count;
    int64_t stride_a, stride_b, stride_c, stride_d, stride_bias, stride_aux; /* in bytes */
    enum activation activation;
    bool has_bias, has_aux;
    int64_t aux_ld;
    enum bias_gradient bias_gradient;
};

/* The descriptors of one call. */
struct descriptors {
    const struct operation *operation;
    const struct layout *a, *b, *c, *d;
};

/*
 * Fills *product_p. CUBLAS_STATUS_INVALID_VALUE for descriptors that contradict each other; CUBLAS_STATUS_NOT_SUPPORTED
 * for what the stand-in cannot do, and one line has then named it. Looks at no matrix,
 * and does not ask whether the pointers in the operation are set: algorithms may be chosen before.
 */
cublasStatus_t product_check(const struct descriptors *descriptors, struct product *product_p);

#endif
