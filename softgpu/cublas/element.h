/*
 * element.h - elements of matrices of float, float16 and bfloat16 as floats: reading one, and storing one with a single
 * rounding. `type` is CUDA_R_32F, CUDA_R_16F or CUDA_R_16BF. For gemm_core.c and softgpu/cublaslt.
 */
#ifndef SOFTGPU_CUBLAS_ELEMENT_H
#define SOFTGPU_CUBLAS_ELEMENT_H

#include "library/half.h"

#include <library_types.h>

static inline float
load_element(const void *matrix, int64_t index, cudaDataType type)
{
    if (type == CUDA_R_32F)
        return ((const float *)matrix)[index];
    uint16_t bits = ((const uint16_t *)matrix)[index];
    return type == CUDA_R_16F ? float_from_half(bits) : float_from_bfloat(bits);
}

static inline void
store_element(void *matrix, int64_t index, cudaDataType type, float value)
{
    if (type == CUDA_R_32F)
        ((float *)matrix)[index] = value;
    else
        ((uint16_t *)matrix)[index] = type == CUDA_R_16F ? half_from_float(value) : bfloat_from_float(value);
}

#endif
