/*
 * handle.h - a handle of cublasLt: it holds nothing but what shows that it is one. Any number of threads may use it.
 */
#ifndef SOFTGPU_CUBLASLT_HANDLE_H
#define SOFTGPU_CUBLASLT_HANDLE_H

#include <cublasLt.h>
#include <stdbool.h>
#include <stdint.h>

#define CUBLASLT_CONTEXT_MAGIC 0x6c746874u

struct cublasLtContext {
    uint32_t magic; /* CUBLASLT_CONTEXT_MAGIC, or cuBLAS's own: a cublasHandle_t may be used as a cublasLtHandle_t */
};

bool handle_is_valid(const struct cublasLtContext *handle);

#endif
