/*
 * cuda_fp16.h - NVIDIA's header, read as a host compiler reads it (its arithmetic is meant for hosts too), and what it
 * leaves to device code.
 */
#pragma GCC system_header
#pragma push_macro("__CUDACC__")
#undef __CUDACC__
#pragma push_macro("__CUDACC_RTC__")
#undef __CUDACC_RTC__
#include_next <cuda_fp16.h>
#pragma pop_macro("__CUDACC_RTC__")
#pragma pop_macro("__CUDACC__")

#ifndef SOFTGPU_CUDA_FP16_H
#define SOFTGPU_CUDA_FP16_H

#define SOFTGPU_HALF            __half
#define SOFTGPU_HALF2           __half2
#define SOFTGPU_HALF_NAME(name) __half2##name
#define SOFTGPU_HALF_FROM(x)    __double2half(x)
#define SOFTGPU_HALF_TO(x)      __half2float(x)
#define SOFTGPU_HALF_LOW(x)     __low2half(x)
#define SOFTGPU_HALF_HIGH(x)    __high2half(x)
#define SOFTGPU_HALF_PAIR(a, b) __halves2half2(a, b)
#include "softgpu/half_functions.h"

/* real * real - imaginary * imaginary, and so on: complex multiplication and addition. */
SOFTGPU_INLINE __half2
__hcmadd(__half2 a, __half2 b, __half2 c)
{
    const float ar = __low2float(a), ai = __high2float(a), br = __low2float(b), bi = __high2float(b);
    return __floats2half2_rn(ar * br - ai * bi + __low2float(c), ar * bi + ai * br + __high2float(c));
}

#endif
