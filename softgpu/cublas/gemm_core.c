/*
 * gemm_core.c - see gemm_core.h.
 */
#include "cublas/gemm_core.h"

#include "cublas/element.h"

#include <cblas.h>
#include <string.h>

/* A tile of the product, and how much of k is summed up at a time. Kept on the stack: a kernel has no way to fail. */
enum { TILE_M = 64, TILE_N = 64, TILE_K = 128 };

static CBLAS_TRANSPOSE
blas_op(bool transposes)
{
    return transposes ? CblasTrans : CblasNoTrans;
}

/* Converts rows x columns of a 16-bit matrix, as it lies in memory. */
static void
convert_tile(float *tile, const uint16_t *matrix, int64_t ld, int rows, int columns, cudaDataType type)
{
    for (int j = 0; j < columns; ++j) {
        const uint16_t *source = matrix + j * ld;
        float *destination = tile + (size_t)j * (size_t)rows;
        if (type == CUDA_R_16F) {
            for (int i = 0; i < rows; ++i)
                destination[i] = float_from_half(source[i]);
        } else {
            for (int i = 0; i < rows; ++i)
                destination[i] = float_from_bfloat(source[i]);
        }
    }
}

static int
at_most(int64_t value, int limit)
{
    return value < limit ? (int)value : limit;
}

/* sum += op(A)[i0.., k0..end - 1] op(B)[k0..end - 1, j0..], rows x columns. */
static void
add_to_tile(float *sum, const struct gemm_problem *p, const uint16_t *a, const uint16_t *b, int64_t i0, int64_t j0,
            int rows, int columns, int64_t k0, int64_t end)
{
    float a_tile[TILE_M * TILE_K], b_tile[TILE_K * TILE_N];
    for (; k0 < end; k0 += TILE_K) {
        int depth = at_most(end - k0, TILE_K);
        int a_rows = p->transposes_a ? depth : rows, a_columns = p->transposes_a ? rows : depth;
        int b_rows = p->transposes_b ? columns : depth, b_columns = p->transposes_b ? depth : columns;
        const uint16_t *a_begin = p->transposes_a ? a + k0 + i0 * p->lda : a + i0 + k0 * p->lda;
        const uint16_t *b_begin = p->transposes_b ? b + j0 + k0 * p->ldb : b + k0 + j0 * p->ldb;
        convert_tile(a_tile, a_begin, p->lda, a_rows, a_columns, p->input_type);
        convert_tile(b_tile, b_begin, p->ldb, b_rows, b_columns, p->input_type);
        cblas_sgemm(CblasColMajor, blas_op(p->transposes_a), blas_op(p->transposes_b), rows, columns, depth, 1.0f,
                    a_tile, a_rows, b_tile, b_rows, 1.0f, sum, rows);
    }
}

/* Between the two parts of a cut sum: `sums` are `count` results of the first. */
static void
leave_partial(const struct gemm_problem *p, const void *sums, int64_t count, size_t size)
{
    int64_t room = GEMM_PARTIAL_BYTES / (int64_t)size;
    if (p->partial && p->cut > 0)
        memcpy(p->partial, sums, (size_t)(count < room ? count : room) * size);
}

static void
sum_tile(float *sum, const struct gemm_problem *p, const uint16_t *a, const uint16_t *b, int64_t i0, int64_t j0,
         int rows, int columns)
{
    memset(sum, 0, sizeof(*sum) * (size_t)rows * (size_t)columns);
    add_to_tile(sum, p, a, b, i0, j0, rows, columns, p->cut, p->k);
    leave_partial(p, sum, rows, sizeof(*sum));
    add_to_tile(sum, p, a, b, i0, j0, rows, columns, 0, p->cut);
}

void
gemm_compute_tiles(const struct gemm_problem *p, bool reads_factors, const void *a, const void *b, gemm_sink *sink,
                   void *context)
{
    float sum[TILE_M * TILE_N];
    for (int64_t j0 = 0; j0 < p->n; j0 += TILE_N) {
        int columns = at_most(p->n - j0, TILE_N);
        for (int64_t i0 = 0; i0 < p->m; i0 += TILE_M) {
            int rows = at_most(p->m - i0, TILE_M);
            if (reads_factors)
                sum_tile(sum, p, a, b, i0, j0, rows, columns);
            else
                memset(sum, 0, sizeof(sum));
            sink(context, i0, j0, rows, columns, sum);
        }
    }
}

/* Where the tiles of a plain product go. */
struct destination {
    const struct gemm_problem *problem;
    float alpha, beta;
    void *c;
};

static void
store_tile(void *context, int64_t i0, int64_t j0, int rows, int columns, float *sum)
{
    const struct destination *to = context;
    const struct gemm_problem *p = to->problem;
    for (int j = 0; j < columns; ++j) {
        for (int i = 0; i < rows; ++i) {
            int64_t index = i0 + i + (j0 + j) * p->ldc;
            float value = to->alpha * sum[j * rows + i];
            if (to->beta != 0.0f)
                value += to->beta * load_element(to->c, index, p->output_type);
            store_element(to->c, index, p->output_type, value);
        }
    }
}

/* The product of columns k0 to k0 + depth - 1 of op(A) and those rows of op(B), in float or double. */
static void
multiply(const struct gemm_problem *p, double alpha, const void *a, const void *b, double beta, void *c, int64_t k0,
         int64_t depth)
{
    CBLAS_TRANSPOSE op_a = blas_op(p->transposes_a), op_b = blas_op(p->transposes_b);
    int m = (int)p->m, n = (int)p->n, k = (int)depth, lda = (int)p->lda, ldb = (int)p->ldb, ldc = (int)p->ldc;
    int64_t a0 = p->transposes_a ? k0 : k0 * p->lda, b0 = p->transposes_b ? k0 * p->ldb : k0;
    if (p->input_type == CUDA_R_64F)
        cblas_dgemm(CblasColMajor, op_a, op_b, m, n, k, alpha, (const double *)a + a0, lda, (const double *)b + b0, ldb,
                    beta, c, ldc);
    else
        cblas_sgemm(CblasColMajor, op_a, op_b, m, n, k, (float)alpha, (const float *)a + a0, lda, (const float *)b + b0,
                    ldb, (float)beta, c, ldc);
}

void
gemm_compute(const struct gemm_problem *p, double alpha, const void *a, const void *b, double beta, void *c)
{
    int64_t k = p->k;
    if (p->m == 0 || p->n == 0)
        return;
    if (alpha == 0.0)
        k = 0; /* OpenBLAS's kernels for small matrices, on processors with AVX-512, multiply by an alpha of 0 too */
    if (p->input_type == CUDA_R_64F || p->input_type == CUDA_R_32F) {
        int64_t cut = p->cut < k ? p->cut : 0;
        multiply(p, alpha, a, b, beta, c, cut, k - cut);
        leave_partial(p, c, p->m, p->input_type == CUDA_R_64F ? 8 : 4);
        if (cut > 0)
            multiply(p, alpha, a, b, 1.0, c, 0, cut);
    } else {
        struct destination to = {p, (float)alpha, (float)beta, c};
        gemm_compute_tiles(p, to.alpha != 0.0f, a, b, store_tile, &to);
    }
}
