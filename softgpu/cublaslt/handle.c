/*
 * handle.c - handles of cublasLt, and what the library says of itself.
 */
#include "cublaslt/handle.h"

#include "cublas/blas_threads.h"
#include "cublas/context.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

static_assert(offsetof(struct cublasContext, magic) == offsetof(struct cublasLtContext, magic),
              "one look tells both kinds of handles");

bool
handle_is_valid(const struct cublasLtContext *handle)
{
    return handle && (handle->magic == CUBLASLT_CONTEXT_MAGIC || handle->magic == CUBLAS_CONTEXT_MAGIC);
}

cublasStatus_t
cublasLtCreate(cublasLtHandle_t *lightHandle)
{
    if (!lightHandle)
        return CUBLAS_STATUS_INVALID_VALUE;
    CUcontext context;
    if (softgpu_context_ensure(&context) != CUDA_SUCCESS || !blas_threads_set())
        return CUBLAS_STATUS_NOT_INITIALIZED;
    cublasLtHandle_t handle = calloc(1, sizeof(*handle));
    if (!handle)
        return CUBLAS_STATUS_ALLOC_FAILED;
    handle->magic = CUBLASLT_CONTEXT_MAGIC;
    *lightHandle = handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtDestroy(cublasLtHandle_t lightHandle)
{
    if (!lightHandle || lightHandle->magic != CUBLASLT_CONTEXT_MAGIC)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    lightHandle->magic = 0;
    free(lightHandle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtGetProperty(libraryPropertyType type, int *value)
{
    static const int parts[] = {
        [MAJOR_VERSION] = CUBLAS_VER_MAJOR, [MINOR_VERSION] = CUBLAS_VER_MINOR, [PATCH_LEVEL] = CUBLAS_VER_PATCH};
    if (!value || (unsigned)type >= sizeof(parts) / sizeof(parts[0]))
        return CUBLAS_STATUS_INVALID_VALUE;
    *value = parts[type];
    return CUBLAS_STATUS_SUCCESS;
}
