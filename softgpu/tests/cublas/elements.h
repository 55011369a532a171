/*
 * elements.h - elements of matrices of any type, one at a time, as doubles.
 */
#ifndef TESTS_SOFTGPU_CUBLAS_ELEMENTS_H
#define TESTS_SOFTGPU_CUBLAS_ELEMENTS_H

#include "library/half.h"

#include <library_types.h>
#include <stddef.h>
#include <stdint.h>

static inline size_t
type_bytes(cudaDataType type)
{
    return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

static inline void
store(void *array, size_t i, cudaDataType type, double value)
{
    if (type == CUDA_R_64F)
        ((double *)array)[i] = value;
    else if (type == CUDA_R_32F)
        ((float *)array)[i] = (float)value;
    else
        ((uint16_t *)array)[i] = type == CUDA_R_16F ? half_from_float((float)value) : bfloat_from_float((float)value);
}

static inline double
load(const void *array, size_t i, cudaDataType type)
{
    if (type == CUDA_R_64F)
        return ((const double *)array)[i];
    if (type == CUDA_R_32F)
        return (double)((const float *)array)[i];
    uint16_t bits = ((const uint16_t *)array)[i];
    return (double)(type == CUDA_R_16F ? float_from_half(bits) : float_from_bfloat(bits));
}

/* What one rounding to the type may cost, relative. */
static inline double
unit(cudaDataType type)
{
    return type == CUDA_R_64F ? 0x1p-53 : type == CUDA_R_32F ? 0x1p-24 : type == CUDA_R_16F ? 0x1p-11 : 0x1p-8;
}

#endif
