#pragma once
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <cublas_v2.h>

#define CUDA_CALL(x)                                                                         \
    do {                                                                                     \
        cudaError_t st = (x);                                                                \
        if (st != cudaSuccess) {                                                             \
            std::fprintf(stderr, "%s at %s:%d\n", cudaGetErrorString(st), __FILE__, __LINE__); \
            std::exit(1);                                                                    \
        }                                                                                    \
    } while (0)
#define CUBLAS_CALL(x)                                                                       \
    do {                                                                                     \
        cublasStatus_t st = (x);                                                             \
        if (st != CUBLAS_STATUS_SUCCESS) {                                                   \
            std::fprintf(stderr, "cublas %d at %s:%d\n", (int)st, __FILE__, __LINE__);       \
            std::exit(1);                                                                    \
        }                                                                                    \
    } while (0)
