/*
 * gemm_core.h - matrix products on plain memory: what a gemm kernel does when it runs.
 *
 * Called by gemm.c on a stream's thread. float and double go to OpenBLAS as they are; float16 and bfloat16 are
 * converted tile by tile, multiplied and accumulated in float, and rounded once when the result is stored. Pure
 * functions, no state but OpenBLAS's. The result of a call depends on its operands only, as long as OpenBLAS uses one
 * thread.
 */
#ifndef SOFTGPU_CUBLAS_GEMM_CORE_H
#define SOFTGPU_CUBLAS_GEMM_CORE_H

#include <cublas_api.h>
#include <stdbool.h>
#include <stdint.h>

/* C = alpha op(A) op(B) + beta C, column-major; op(A) is m x k, op(B) k x n. All sizes fit OpenBLAS's int. */
struct gemm_problem {
    bool transposes_a, transposes_b;
    cudaDataType input_type, output_type; /* R_64F both; R_32F both; or R_16F, R_16BF in and the same or R_32F out */
    int64_t m, n, k;
    int64_t lda, ldb, ldc;
};

/* beta == 0: C is only written. alpha == 0 or k == 0: A and B are not read. */
void gemm_compute(const struct gemm_problem *problem, double alpha, const void *a, const void *b, double beta, void *c);

#endif
