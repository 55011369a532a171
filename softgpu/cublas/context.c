/*
 * context.c - handles: making, destroying and asking them; what context.h promises.
 */
#include "cublas/context.h"

#include "cublas/blas_threads.h"
#include "library/half.h"

#include <stdlib.h>

enum { OWN_WORKSPACE_BYTES = 4 << 20 }; /* cuBLAS's; on an H100 it takes eight times that */

const char softgpu_library_name[] = "cuBLAS";

cublasStatus_t
context_check(const struct cublasContext *handle)
{
    return handle && handle->magic == CUBLAS_CONTEXT_MAGIC ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

static double
load_scalar(const void *pointer, cudaDataType type)
{
    switch (type) {
    case CUDA_R_64F:
        return *(const double *)pointer;
    case CUDA_R_32F:
        return (double)*(const float *)pointer;
    case CUDA_R_16F:
        return (double)float_from_half(*(const uint16_t *)pointer);
    default: /* CUDA_R_16BF */
        return (double)float_from_bfloat(*(const uint16_t *)pointer);
    }
}

struct scalar
scalar_take(const struct cublasContext *handle, const void *pointer, cudaDataType type)
{
    if (pointer == NULL || handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE)
        return (struct scalar){.device = pointer};
    return (struct scalar){.value = load_scalar(pointer, type)};
}

double
scalar_value(const struct softgpu_launch *launch, int argument, double value, int32_t type)
{
    const void *device = *(const void *const *)launch->args[argument];
    return device ? load_scalar(device, (cudaDataType)type) : value;
}

cublasStatus_t
context_launch(const struct cublasContext *handle, struct softgpu_kernel *kernel, void **args)
{
    enum { FRAMES = 12 }; /* SOFTGPU_UNRULY: cuBLAS is deep itself, and has a runtime in it */
    static _Thread_local unsigned depth;
    if (handle->own_workspace != 0 && depth < FRAMES) {
        ++depth;
        cublasStatus_t status = context_launch(handle, kernel, args);
        --depth;
        return status;
    }
    CUresult result = softgpu_kernel_launch(kernel, (CUstream)handle->stream, args);
    return result == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t
context_launch_result(const struct cublasContext *handle, struct softgpu_kernel *kernel, void **args)
{
    cublasStatus_t status = context_launch(handle, kernel, args);
    if (status != CUBLAS_STATUS_SUCCESS || handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE)
        return status;
    CUresult result = softgpu_driver()->stream_synchronize((CUstream)handle->stream);
    return result == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

static void
use_workspace(struct cublasContext *handle, void *workspace, size_t bytes)
{
    handle->workspace = bytes > 0 ? workspace : (void *)(uintptr_t)handle->own_workspace;
    handle->workspace_bytes = bytes > 0 ? bytes : OWN_WORKSPACE_BYTES;
}

void *
context_partial(const struct cublasContext *handle, size_t bytes)
{
    return handle->own_workspace != 0 && handle->workspace_bytes >= bytes ? handle->workspace : NULL;
}

cublasStatus_t
cublasCreate_v2(cublasHandle_t *handle_p)
{
    if (!handle_p)
        return CUBLAS_STATUS_INVALID_VALUE;
    CUcontext context;
    if (softgpu_context_ensure(&context) != CUDA_SUCCESS || !blas_threads_set())
        return CUBLAS_STATUS_NOT_INITIALIZED;
    struct cublasContext *handle = calloc(1, sizeof(*handle));
    if (!handle)
        return CUBLAS_STATUS_ALLOC_FAILED;
    handle->magic = CUBLAS_CONTEXT_MAGIC;
    if (softgpu_driver()->unruly() &&
        softgpu_driver()->mem_alloc(&handle->own_workspace, OWN_WORKSPACE_BYTES) != CUDA_SUCCESS) {
        free(handle);
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    use_workspace(handle, NULL, 0);
    *handle_p = handle;
    return CUBLAS_STATUS_SUCCESS;
}

/* As in cuBLAS, all work enqueued through the handle is done before it goes. */
cublasStatus_t
cublasDestroy_v2(cublasHandle_t handle)
{
    if (context_check(handle) != CUBLAS_STATUS_SUCCESS)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    softgpu_driver()->stream_synchronize((CUstream)handle->stream);
    handle->magic = 0;
    if (handle->own_workspace != 0)
        softgpu_driver()->mem_free(handle->own_workspace);
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

/* A setter and a getter for a field; `valid` checks `value`. */
#define DEFINE_FIELD(setter, getter, type, field, valid)        \
    cublasStatus_t setter(cublasHandle_t handle, type value)    \
    {                                                           \
        if (context_check(handle) != CUBLAS_STATUS_SUCCESS)     \
            return CUBLAS_STATUS_NOT_INITIALIZED;               \
        if (!(valid))                                           \
            return CUBLAS_STATUS_INVALID_VALUE;                 \
        handle->field = value;                                  \
        return CUBLAS_STATUS_SUCCESS;                           \
    }                                                           \
    cublasStatus_t getter(cublasHandle_t handle, type *value_p) \
    {                                                           \
        if (context_check(handle) != CUBLAS_STATUS_SUCCESS)     \
            return CUBLAS_STATUS_NOT_INITIALIZED;               \
        if (!value_p)                                           \
            return CUBLAS_STATUS_INVALID_VALUE;                 \
        *value_p = handle->field;                               \
        return CUBLAS_STATUS_SUCCESS;                           \
    }

/* Stream 0 is the legacy default stream, however the program was compiled; cudaStreamPerThread is a stream of its own.
 */
DEFINE_FIELD(cublasSetStream_v2, cublasGetStream_v2, cudaStream_t, stream, true)
DEFINE_FIELD(cublasSetPointerMode_v2, cublasGetPointerMode_v2, cublasPointerMode_t, pointer_mode,
             value == CUBLAS_POINTER_MODE_HOST || value == CUBLAS_POINTER_MODE_DEVICE)
/* Every mode computes in the full precision of the type: at least what the mode asks for. */
DEFINE_FIELD(cublasSetMathMode, cublasGetMathMode, cublasMath_t, math_mode,
             ((int)value & ~CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) <= CUBLAS_FP64_EMULATED_FIXEDPOINT_MATH)
DEFINE_FIELD(cublasSetAtomicsMode, cublasGetAtomicsMode, cublasAtomicsMode_t, atomics_mode,
             value == CUBLAS_ATOMICS_NOT_ALLOWED || value == CUBLAS_ATOMICS_ALLOWED)
DEFINE_FIELD(cublasSetSmCountTarget, cublasGetSmCountTarget, int, sm_count_target, value >= 0)

/* Without SOFTGPU_UNRULY nothing needs a workspace; the program's is only checked. */
cublasStatus_t
cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes)
{
    if (context_check(handle) != CUBLAS_STATUS_SUCCESS)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if ((!workspace && bytes > 0) || (uintptr_t)workspace % 256 != 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    use_workspace(handle, workspace, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasGetVersion_v2(cublasHandle_t handle, int *version_p)
{
    (void)handle; /* may be NULL, as in cuBLAS */
    if (!version_p)
        return CUBLAS_STATUS_INVALID_VALUE;
    *version_p = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasGetProperty(libraryPropertyType type, int *value_p)
{
    static const int parts[] = {
        [MAJOR_VERSION] = CUBLAS_VER_MAJOR, [MINOR_VERSION] = CUBLAS_VER_MINOR, [PATCH_LEVEL] = CUBLAS_VER_PATCH};
    if (!value_p || (unsigned)type >= sizeof(parts) / sizeof(parts[0]))
        return CUBLAS_STATUS_INVALID_VALUE;
    *value_p = parts[type];
    return CUBLAS_STATUS_SUCCESS;
}

size_t
cublasGetCudartVersion(void)
{
    return CUDA_VERSION;
}
