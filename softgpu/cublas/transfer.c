/*
 * transfer.c - cublasSetVector and its relatives: copies of vectors and matrices between host and device.
 *
 * A vector is a matrix with one row and a leading dimension that is its increment; so all are one two-dimensional copy.
 */
#include "cublas/context.h"

#include <limits.h>

/* `columns` pieces of `rows` elements, `lda` and `ldb` elements apart. */
static cublasStatus_t
copy_matrix(bool to_device, int64_t rows, int64_t columns, int64_t element_bytes, const void *a, int64_t lda, void *b,
            int64_t ldb, cudaStream_t stream, bool waits)
{
    if (rows < 0 || columns < 0 || element_bytes <= 0 || lda < 1 || ldb < 1 || lda < rows || ldb < rows)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (rows == 0 || columns == 0)
        return CUBLAS_STATUS_SUCCESS;
    if (!a || !b)
        return CUBLAS_STATUS_INVALID_VALUE;
    CUcontext context;
    if (softgpu_context_ensure(&context) != CUDA_SUCCESS)
        return CUBLAS_STATUS_NOT_INITIALIZED;

    size_t element = (size_t)element_bytes;
    bool is_dense = lda == rows && ldb == rows;
    CUDA_MEMCPY2D copy = {
        .WidthInBytes = (size_t)rows * element * (is_dense ? (size_t)columns : 1),
        .Height = is_dense ? 1 : (size_t)columns,
        .srcPitch = (size_t)lda * element * (is_dense ? (size_t)columns : 1),
        .dstPitch = (size_t)ldb * element * (is_dense ? (size_t)columns : 1),
    };
    if (to_device) {
        copy.srcMemoryType = CU_MEMORYTYPE_HOST;
        copy.srcHost = a;
        copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        copy.dstDevice = (CUdeviceptr)b;
    } else {
        copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
        copy.srcDevice = (CUdeviceptr)a;
        copy.dstMemoryType = CU_MEMORYTYPE_HOST;
        copy.dstHost = b;
    }
    const struct softgpu_driver *driver = softgpu_driver();
    CUresult result = driver->memcpy_2d_async(&copy, (CUstream)stream);
    if (result == CUDA_SUCCESS && waits)
        result = driver->stream_synchronize((CUstream)stream);
    return result == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_MAPPING_ERROR;
}

#define DEFINE_TRANSFERS(direction, to_device, integer, suffix)                                                        \
    cublasStatus_t cublas##direction##Vector##suffix(integer n, integer elemSize, const void *x, integer incx,         \
                                                     void *y, integer incy)                                            \
    {                                                                                                                  \
        return copy_matrix(to_device, n > 0, n < 0 ? -1 : n, elemSize, x, incx, y, incy, NULL, true);                  \
    }                                                                                                                  \
    cublasStatus_t cublas##direction##VectorAsync##suffix(integer n, integer elemSize, const void *x, integer incx,    \
                                                          void *y, integer incy, cudaStream_t stream)                  \
    {                                                                                                                  \
        return copy_matrix(to_device, n > 0, n < 0 ? -1 : n, elemSize, x, incx, y, incy, stream, false);               \
    }                                                                                                                  \
    cublasStatus_t cublas##direction##Matrix##suffix(integer rows, integer cols, integer elemSize, const void *A,      \
                                                     integer lda, void *B, integer ldb)                                \
    {                                                                                                                  \
        return copy_matrix(to_device, rows, cols, elemSize, A, lda, B, ldb, NULL, true);                               \
    }                                                                                                                  \
    cublasStatus_t cublas##direction##MatrixAsync##suffix(integer rows, integer cols, integer elemSize, const void *A, \
                                                          integer lda, void *B, integer ldb, cudaStream_t stream)      \
    {                                                                                                                  \
        return copy_matrix(to_device, rows, cols, elemSize, A, lda, B, ldb, stream, false);                            \
    }

DEFINE_TRANSFERS(Set, true, int, )
DEFINE_TRANSFERS(Set, true, int64_t, _64)
DEFINE_TRANSFERS(Get, false, int, )
DEFINE_TRANSFERS(Get, false, int64_t, _64)
