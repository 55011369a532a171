/*
 * gemm_core.h - matrix products on plain memory: what a gemm kernel does when it runs.
 *
 * Called by gemm.c and by softgpu/cublaslt on a stream's thread. float and double go to OpenBLAS as they are; float16
 * and bfloat16 are converted tile by tile, multiplied and accumulated in float, and rounded once when the result is
 * stored. Pure functions, no state but OpenBLAS's. The result of a call depends on its operands only, as long as
 * OpenBLAS uses one thread.
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
    int64_t cut;   /* softgpu_cut(): of k */
    void *partial; /* where sums of the first part of a cut product stay, GEMM_PARTIAL_BYTES at most; NULL: nowhere */
};

enum { GEMM_PARTIAL_BYTES = 512 };

/* beta == 0: C is only written. alpha == 0 or k == 0: A and B are not read. */
void gemm_compute(const struct gemm_problem *problem, double alpha, const void *a, const void *b, double beta, void *c);

/*
 * What becomes of a tile of op(A) op(B) of 16-bit factors: `sum` is rows x columns, packed by columns, its first
 * element at (i0, j0); i0 is a multiple of 64. The sink may change `sum`.
 */
typedef void gemm_sink(void *context, int64_t i0, int64_t j0, int rows, int columns, float *sum);

/* Gives each tile of the product to `sink`; without `reads_factors` all are zero, and A and B are not read. */
void gemm_compute_tiles(const struct gemm_problem *problem, bool reads_factors, const void *a, const void *b,
                        gemm_sink *sink, void *context);

#endif
