/*
 * legacy.c - the interface of cuBLAS before handles (cublas.h): cublasInit, and the routines of this library that it
 * has under their old names, over one handle of the process.
 *
 * Scalars are values, transposes are letters, results come back directly (after the stream has been waited for), and
 * errors are kept for cublasGetError. What the old interface has and this file does not is a stub like any other name.
 */
#include <cublas.h>

#include "cublas/context.h"

static _Atomic(cublasHandle_t) handle; /* between cublasInit and cublasShutdown */
static _Atomic int last_error;         /* cublasStatus_t: the first since it was asked for */

static void
note(cublasStatus_t status)
{
    int none = CUBLAS_STATUS_SUCCESS;
    if (status != CUBLAS_STATUS_SUCCESS)
        atomic_compare_exchange_strong(&last_error, &none, (int)status);
}

/* An unknown letter becomes an operation that every routine refuses. */
static cublasOperation_t
operation(char letter)
{
    switch (letter) {
    case 'n':
    case 'N':
        return CUBLAS_OP_N;
    case 't':
    case 'T':
        return CUBLAS_OP_T;
    case 'c':
    case 'C':
        return CUBLAS_OP_C;
    default:
        return (cublasOperation_t)-1;
    }
}

cublasStatus
cublasInit(void)
{
    if (atomic_load(&handle))
        return CUBLAS_STATUS_SUCCESS;
    cublasHandle_t created, none = NULL;
    cublasStatus_t status = cublasCreate_v2(&created);
    if (status == CUBLAS_STATUS_SUCCESS && !atomic_compare_exchange_strong(&handle, &none, created))
        cublasDestroy_v2(created); /* another thread was faster */
    return status;
}

cublasStatus
cublasShutdown(void)
{
    return cublasDestroy_v2(atomic_exchange(&handle, NULL));
}

cublasStatus
cublasGetError(void)
{
    return (cublasStatus)atomic_exchange(&last_error, CUBLAS_STATUS_SUCCESS);
}

cublasStatus
cublasGetVersion(int *version)
{
    return cublasGetVersion_v2(NULL, version);
}

cublasStatus
cublasSetKernelStream(cudaStream_t stream)
{
    return cublasSetStream_v2(atomic_load(&handle), stream);
}

cublasStatus
cublasAlloc(int n, int elemSize, void **devicePtr)
{
    CUcontext context;
    CUdeviceptr memory;
    if (n <= 0 || elemSize <= 0 || !devicePtr)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (softgpu_context_ensure(&context) != CUDA_SUCCESS)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (softgpu_driver()->mem_alloc(&memory, (size_t)n * (size_t)elemSize) != CUDA_SUCCESS)
        return CUBLAS_STATUS_ALLOC_FAILED;
    *devicePtr = (void *)memory;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus
cublasFree(void *devicePtr)
{
    const struct softgpu_driver *driver = softgpu_driver();
    if (!driver)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    return driver->mem_free((CUdeviceptr)devicePtr) == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS
                                                                    : CUBLAS_STATUS_INTERNAL_ERROR;
}

#define DEFINE_ROUTINES(letter, real)                                                                                 \
    void cublas##letter##gemm(char transa, char transb, int m, int n, int k, real alpha, const real *A, int lda,      \
                              const real *B, int ldb, real beta, real *C, int ldc)                                    \
    {                                                                                                                 \
        note(cublas##letter##gemm_v2(atomic_load(&handle), operation(transa), operation(transb), m, n, k, &alpha, A,  \
                                     lda, B, ldb, &beta, C, ldc));                                                    \
    }                                                                                                                 \
    void cublas##letter##gemv(char trans, int m, int n, real alpha, const real *A, int lda, const real *x, int incx,  \
                              real beta, real *y, int incy)                                                           \
    {                                                                                                                 \
        note(cublas##letter##gemv_v2(atomic_load(&handle), operation(trans), m, n, &alpha, A, lda, x, incx, &beta, y, \
                                     incy));                                                                          \
    }                                                                                                                 \
    void cublas##letter##ger(int m, int n, real alpha, const real *x, int incx, const real *y, int incy, real *A,     \
                             int lda)                                                                                 \
    {                                                                                                                 \
        note(cublas##letter##ger_v2(atomic_load(&handle), m, n, &alpha, x, incx, y, incy, A, lda));                   \
    }                                                                                                                 \
    void cublas##letter##axpy(int n, real alpha, const real *x, int incx, real *y, int incy)                          \
    {                                                                                                                 \
        note(cublas##letter##axpy_v2(atomic_load(&handle), n, &alpha, x, incx, y, incy));                             \
    }                                                                                                                 \
    void cublas##letter##scal(int n, real alpha, real *x, int incx)                                                   \
    {                                                                                                                 \
        note(cublas##letter##scal_v2(atomic_load(&handle), n, &alpha, x, incx));                                      \
    }                                                                                                                 \
    void cublas##letter##copy(int n, const real *x, int incx, real *y, int incy)                                      \
    {                                                                                                                 \
        note(cublas##letter##copy_v2(atomic_load(&handle), n, x, incx, y, incy));                                     \
    }                                                                                                                 \
    void cublas##letter##swap(int n, real *x, int incx, real *y, int incy)                                            \
    {                                                                                                                 \
        note(cublas##letter##swap_v2(atomic_load(&handle), n, x, incx, y, incy));                                     \
    }                                                                                                                 \
    real cublas##letter##dot(int n, const real *x, int incx, const real *y, int incy)                                 \
    {                                                                                                                 \
        real result = 0;                                                                                              \
        note(cublas##letter##dot_v2(atomic_load(&handle), n, x, incx, y, incy, &result));                             \
        return result;                                                                                                \
    }                                                                                                                 \
    real cublas##letter##nrm2(int n, const real *x, int incx)                                                         \
    {                                                                                                                 \
        real result = 0;                                                                                              \
        note(cublas##letter##nrm2_v2(atomic_load(&handle), n, x, incx, &result));                                     \
        return result;                                                                                                \
    }                                                                                                                 \
    real cublas##letter##asum(int n, const real *x, int incx)                                                         \
    {                                                                                                                 \
        real result = 0;                                                                                              \
        note(cublas##letter##asum_v2(atomic_load(&handle), n, x, incx, &result));                                     \
        return result;                                                                                                \
    }

DEFINE_ROUTINES(S, float)
DEFINE_ROUTINES(D, double)
