/*
 * plugin.c - a library that is linked with the second copy of cuBLAS, as a framework's plug-in brings its own.
 */
#include <cublas_api.h>

cublasStatus_t plugin_scale(cublasHandle_t handle, int n, const float *alpha, float *x);

__attribute__((visibility("default"))) cublasStatus_t
plugin_scale(cublasHandle_t handle, int n, const float *alpha, float *x)
{
    cublasStatus_t volatile status = cublasSscal_v2(handle, n, alpha, x, 1); /* no tail call: this is the caller */
    return status;
}
