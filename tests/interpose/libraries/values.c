/*
 * values.c - random shapes for calls of BLAS.
 */
#include "values.h"

#include "arena.h"

#include <stdio.h>

enum { SIZE = VALUES_SIZE, BATCH = VALUES_BATCH };

static int64_t
increment(void)
{
    int64_t size = 1 + arena_below(3);
    return arena_below(4) == 0 ? -size : size;
}

static int64_t
stride(int64_t element, int64_t may_be_negative)
{
    int64_t size = element + arena_below(6);
    return may_be_negative && arena_below(3) == 0 ? -size : size;
}

void
values_choose_shape(struct values *v)
{
    int64_t *const sizes[] = {&v->m, &v->n, &v->k, &v->nrhs};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i)
        *sizes[i] = arena_below(20) == 0 ? 0 : 1 + arena_below(SIZE);
    v->kl = arena_below(3);
    v->ku = arena_below(3);
    int64_t *const lds[] = {&v->lda, &v->ldb, &v->ldc, &v->lda_inv};
    for (size_t i = 0; i < sizeof(lds) / sizeof(lds[0]); ++i)
        *lds[i] = SIZE + 1 + arena_below(3);
    v->incx = increment();
    v->incy = increment();
    v->batchCount = v->batchSize = 1 + arena_below(BATCH);
    v->strideA = stride(v->lda * SIZE, 1);
    v->strideB = stride(v->ldb * SIZE, 1);
    v->strideC = stride(v->ldc * SIZE, 0);
    v->stridex = stride(3 * SIZE, 1);
    v->stridey = stride(3 * SIZE, 0);

    cublasOperation_t *const operations[] = {&v->trans, &v->transa, &v->transb, &v->transc};
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); ++i)
        *operations[i] = (cublasOperation_t)arena_below(2);
    v->uplo = (cublasFillMode_t)arena_below(2);
    v->diag = arena_below(4) == 0 ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
    v->side = (cublasSideMode_t)arena_below(2);
    v->mode = (cublasSideMode_t)arena_below(2);
}

void
values_describe(const struct values *v, const char *symbol, char *text, size_t room)
{
    snprintf(text, room, "%s (m %ld n %ld k %ld)", symbol, (long)v->m, (long)v->n, (long)v->k);
}
