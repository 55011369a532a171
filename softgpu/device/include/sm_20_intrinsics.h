/*
 * sm_20_intrinsics.h - CUDA's intrinsics, which every source compiled by softgpu-cc has already. Old programs include
 * it.
 */
#pragma GCC system_header
#include <cuda_runtime.h>
