/*
 * cuda_bf16.h - NVIDIA's header, read as a host compiler reads it (its arithmetic is meant for hosts too), and what it
 * leaves to device code.
 */
#pragma GCC system_header
#pragma push_macro("__CUDACC__")
#undef __CUDACC__
#pragma push_macro("__CUDACC_RTC__")
#undef __CUDACC_RTC__
#include_next <cuda_bf16.h>
#pragma pop_macro("__CUDACC_RTC__")
#pragma pop_macro("__CUDACC__")

#ifndef SOFTGPU_CUDA_BF16_H
#define SOFTGPU_CUDA_BF16_H

#define SOFTGPU_HALF            __nv_bfloat16
#define SOFTGPU_HALF2           __nv_bfloat162
#define SOFTGPU_HALF_NAME(name) __bfloat162##name
#define SOFTGPU_HALF_FROM(x)    __double2bfloat16(x)
#define SOFTGPU_HALF_TO(x)      __bfloat162float(x)
#define SOFTGPU_HALF_LOW(x)     __low2bfloat16(x)
#define SOFTGPU_HALF_HIGH(x)    __high2bfloat16(x)
#define SOFTGPU_HALF_PAIR(a, b) __halves2bfloat162(a, b)
#include "softgpu/half_functions.h"

#endif
