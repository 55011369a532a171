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

/* The letters of matrices; an invalid letter becomes a mode that every routine refuses. */
static cublasFillMode_t
fill_mode(char letter)
{
    return letter == 'l' || letter == 'L'   ? CUBLAS_FILL_MODE_LOWER
           : letter == 'u' || letter == 'U' ? CUBLAS_FILL_MODE_UPPER
                                            : (cublasFillMode_t)-1;
}

static cublasSideMode_t
side_mode(char letter)
{
    return letter == 'l' || letter == 'L'   ? CUBLAS_SIDE_LEFT
           : letter == 'r' || letter == 'R' ? CUBLAS_SIDE_RIGHT
                                            : (cublasSideMode_t)-1;
}

static cublasDiagType_t
diagonal_type(char letter)
{
    return letter == 'n' || letter == 'N'   ? CUBLAS_DIAG_NON_UNIT
           : letter == 'u' || letter == 'U' ? CUBLAS_DIAG_UNIT
                                            : (cublasDiagType_t)-1;
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

#define DEFINE_STRUCTURED(letter, lower, real)                                                                        \
    int cublasI##lower##amax(int n, const real *x, int incx)                                                          \
    {                                                                                                                 \
        int result = 0;                                                                                               \
        note(cublasI##lower##amax_v2(atomic_load(&handle), n, x, incx, &result));                                     \
        return result;                                                                                                \
    }                                                                                                                 \
    int cublasI##lower##amin(int n, const real *x, int incx)                                                          \
    {                                                                                                                 \
        int result = 0;                                                                                               \
        note(cublasI##lower##amin_v2(atomic_load(&handle), n, x, incx, &result));                                     \
        return result;                                                                                                \
    }                                                                                                                 \
    void cublas##letter##rot(int n, real *x, int incx, real *y, int incy, real sc, real ss)                           \
    {                                                                                                                 \
        note(cublas##letter##rot_v2(atomic_load(&handle), n, x, incx, y, incy, &sc, &ss));                            \
    }                                                                                                                 \
    void cublas##letter##symm(char side, char uplo, int m, int n, real alpha, const real *A, int lda, const real *B,  \
                              int ldb, real beta, real *C, int ldc)                                                   \
    {                                                                                                                 \
        note(cublas##letter##symm_v2(atomic_load(&handle), side_mode(side), fill_mode(uplo), m, n, &alpha, A, lda, B, \
                                     ldb, &beta, C, ldc));                                                            \
    }                                                                                                                 \
    void cublas##letter##syrk(char uplo, char trans, int n, int k, real alpha, const real *A, int lda, real beta,     \
                              real *C, int ldc)                                                                       \
    {                                                                                                                 \
        note(cublas##letter##syrk_v2(atomic_load(&handle), fill_mode(uplo), operation(trans), n, k, &alpha, A, lda,   \
                                     &beta, C, ldc));                                                                 \
    }                                                                                                                 \
    void cublas##letter##trsm(char side, char uplo, char transa, char diag, int m, int n, real alpha, const real *A,  \
                              int lda, real *B, int ldb)                                                              \
    {                                                                                                                 \
        note(cublas##letter##trsm_v2(atomic_load(&handle), side_mode(side), fill_mode(uplo), operation(transa),       \
                                     diagonal_type(diag), m, n, &alpha, A, lda, B, ldb));                             \
    }                                                                                                                 \
    /* The old one writes where B is. */                                                                              \
    void cublas##letter##trmm(char side, char uplo, char transa, char diag, int m, int n, real alpha, const real *A,  \
                              int lda, real *B, int ldb)                                                              \
    {                                                                                                                 \
        note(cublas##letter##trmm_v2(atomic_load(&handle), side_mode(side), fill_mode(uplo), operation(transa),       \
                                     diagonal_type(diag), m, n, &alpha, A, lda, B, ldb, B, ldb));                     \
    }

DEFINE_STRUCTURED(S, s, float)
DEFINE_STRUCTURED(D, d, double)
DEFINE_ROUTINES(S, float)
DEFINE_ROUTINES(D, double)
