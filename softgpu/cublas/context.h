/*
 * context.h - struct cublasContext, and what the routines share: checking a handle, launching a kernel, scalars.
 *
 * Private to the library. A handle is used by one thread at a time, as cuBLAS asks. The exported functions never call
 * each other, so that a library that interposes one of them sees a call of the program once.
 */
#ifndef SOFTGPU_CUBLAS_CONTEXT_H
#define SOFTGPU_CUBLAS_CONTEXT_H

#include "library/driver.h"

#include <cublas_api.h>
#include <stdbool.h>
#include <stdint.h>

#define CUBLAS_CONTEXT_MAGIC 0x73616c62u

struct cublasContext {
    uint32_t magic; /* CUBLAS_CONTEXT_MAGIC; 0 once destroyed */
    cudaStream_t stream;
    cublasPointerMode_t pointer_mode;
    cublasMath_t math_mode;
    cublasAtomicsMode_t atomics_mode;
    int sm_count_target;
    /* SOFTGPU_UNRULY: device memory of the handle's own, as cuBLAS has for sums of parts; and what is used, which the
       program may have set. */
    CUdeviceptr own_workspace;
    void *workspace;
    size_t workspace_bytes;
};

/* A scalar operand: the address of device memory that the kernel reads, or a value that was read at the call. */
struct scalar {
    const void *device; /* NULL: `value` */
    double value;       /* exact for float, float16 and bfloat16 too */
};

/* CUBLAS_STATUS_NOT_INITIALIZED for an invalid handle. */
cublasStatus_t context_check(const struct cublasContext *handle);

/* Reads a scalar of `type` (CUDA_R_32F, 64F, 16F, 16BF), now or, in device pointer mode, by scalar_value() in the
 * kernel: its pointer is the launch's argument with this number, and `value` was read at the call. A pointer that is
 * NULL stands for 0. */
struct scalar scalar_take(const struct cublasContext *handle, const void *pointer, cudaDataType type);
double scalar_value(const struct softgpu_launch *launch, int argument, double value, int32_t type);

/* Device memory for parts of sums; NULL: there is none, or not so much. */
void *context_partial(const struct cublasContext *handle, size_t bytes);

/* Launches on the handle's stream. */
cublasStatus_t context_launch(const struct cublasContext *handle, struct softgpu_kernel *kernel, void **args);

/* The same for a kernel that writes a result to `result`: in host pointer mode it is there when this returns. */
cublasStatus_t context_launch_result(const struct cublasContext *handle, struct softgpu_kernel *kernel, void **args);

static inline size_t
data_bytes(cudaDataType type)
{
    return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

#endif
