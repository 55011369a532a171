/*
 * status.c - the names of cuBLAS's status codes, and stubs. Part of libcublas and of libcublasLt.
 */
#include "library/driver.h"

#include <cublasLt.h>
#include <stddef.h>

/* What the generated stubs call. */
int cublas_stub(const char *name, _Atomic bool *said);

int
cublas_stub(const char *name, _Atomic bool *said)
{
    softgpu_line_unsupported(name, said);
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

struct status_row {
    const char *name;
    const char *text;
};

static const struct status_row *
find_status(cublasStatus_t status)
{
#define ROW(code, what) [code] = { #code, what }
    static const struct status_row rows[] = {
        ROW(CUBLAS_STATUS_SUCCESS, "success"),
        ROW(CUBLAS_STATUS_NOT_INITIALIZED, "the library was not initialized"),
        ROW(CUBLAS_STATUS_ALLOC_FAILED, "the resource allocation failed"),
        ROW(CUBLAS_STATUS_INVALID_VALUE, "an unsupported value or parameter was passed to the function"),
        ROW(CUBLAS_STATUS_ARCH_MISMATCH, "the device lacks a feature that the function needs"),
        ROW(CUBLAS_STATUS_MAPPING_ERROR, "an access to GPU memory space failed"),
        ROW(CUBLAS_STATUS_EXECUTION_FAILED, "the GPU program failed to execute"),
        ROW(CUBLAS_STATUS_INTERNAL_ERROR, "an internal operation failed"),
        ROW(CUBLAS_STATUS_NOT_SUPPORTED, "the functionality requested is not supported"),
        ROW(CUBLAS_STATUS_LICENSE_ERROR, "the functionality requested requires a license"),
    };
#undef ROW
    static const struct status_row unknown = {"CUBLAS_STATUS_UNKNOWN", "not a status of cuBLAS"};
    if ((unsigned)status >= sizeof(rows) / sizeof(rows[0]) || !rows[status].name)
        return &unknown;
    return &rows[status];
}

#ifdef SOFTGPU_CUBLAS_LT

const char softgpu_library_name[] = "cuBLASLt";

const char *
cublasLtGetStatusName(cublasStatus_t status)
{
    return find_status(status)->name;
}

const char *
cublasLtGetStatusString(cublasStatus_t status)
{
    return find_status(status)->text;
}

size_t
cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}

size_t
cublasLtGetCudartVersion(void)
{
    return CUDA_VERSION;
}

#else

const char *
cublasGetStatusName(cublasStatus_t status)
{
    return find_status(status)->name;
}

const char *
cublasGetStatusString(cublasStatus_t status)
{
    return find_status(status)->text;
}

#endif
