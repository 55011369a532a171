/*
 * cuda_check.h - every CUDA and cuBLAS call of the trainer goes through these macros: the first error ends the program
 * with exit code 1 and one line that names the call and its place.
 */
#ifndef CHARGPT_CUDA_CHECK_H
#define CHARGPT_CUDA_CHECK_H

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK_CUDA(call)                                                                                        \
    do {                                                                                                        \
        cudaError_t error_ = (call);                                                                            \
        if (error_ != cudaSuccess) {                                                                            \
            fprintf(stderr, "chargpt: %s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_)); \
            exit(1);                                                                                            \
        }                                                                                                       \
    } while (0)

#define CHECK_CUBLAS(call)                                                                                          \
    do {                                                                                                            \
        cublasStatus_t status_ = (call);                                                                            \
        if (status_ != CUBLAS_STATUS_SUCCESS) {                                                                     \
            fprintf(stderr, "chargpt: %s:%d: %s: %s\n", __FILE__, __LINE__, #call, cublasGetStatusString(status_)); \
            exit(1);                                                                                                \
        }                                                                                                           \
    } while (0)

#endif
