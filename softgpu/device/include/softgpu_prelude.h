/*
 * softgpu_prelude.h - read before the first line of every CUDA source file: what nvcc's compiler provides by itself.
 *
 * CUDA's keywords are defined as themselves, so that NVIDIA's headers, which define only what is not defined yet, leave
 * them in the preprocessed text for softgpu-cc's rewriter. NVIDIA's headers are read as a plain host compiler reads
 * them, without
 * __CUDACC__: they give types and declarations then, and nothing that only nvcc can compile. User code sees __CUDACC__
 * as with nvcc, and __CUDA_ARCH__ where nvcc's device pass has it (sides.h of softgpu-cc).
 */
#ifndef SOFTGPU_PRELUDE_H
#define SOFTGPU_PRELUDE_H

/* Before the pragma: what a system header's macro gives counts as the system's, and these are the user's words. */
#define __host__          __host__
#define __device__        __device__
#define __global__        __global__
#define __shared__        __shared__
#define __constant__      __constant__
#define __managed__       __managed__
#define __grid_constant__ __grid_constant__
#define __cluster_dims__  __cluster_dims__
#define __block_size__    __block_size__
#define __nv_pure__       __nv_pure__

#pragma GCC system_header

/* <math.h> before <cmath>: else the functions of <math.h> are missing from the global namespace. */
#include <assert.h>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits.h>
#include <limits>
#include <math.h>
#include <new>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <type_traits>
#include <utility>

#include <cuda_runtime.h>

#undef __maxnreg__
#undef __local_maxnreg__

#include "softgpu/thread.h"

#include "softgpu/intrinsics.h"

#include "softgpu/atomic.h"
#include "softgpu/cast.h"
#include "softgpu/launch.h"
#include "softgpu/removed.h"
#include "softgpu/warp.h"

#define __CUDACC__ 1
#if defined(SOFTGPU_MODULE) && !defined(SOFTGPU_MODULE_FILE) /* libnvrtc's, and not that of -ptx */
#define __CUDACC_RTC__ 1
#undef __NVCC__
#else
#define __NVCC__ 1
#endif
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define __CUDACC_VER_BUILD__ 88
#define __SOFTGPU__          1
/* Eigen's types differ by __CUDA_ARCH__, where there is one type for both sides here. Its functions for the host may be
 * called in device code, as all may. */
#ifndef EIGEN_NO_CUDA
#define EIGEN_NO_CUDA 1
#endif
#ifdef SOFTGPU_MODULE
#define __CUDA_ARCH__ SOFTGPU_MODULE
#elif defined(SOFTGPU_DEVICE_SIDE)
#define __CUDA_ARCH__ 800
#endif

/* A lambda is one type on both sides here, with the result that it has. */
#define __nv_is_extended_device_lambda_closure_type(type)               false
#define __nv_is_extended_host_device_lambda_closure_type(type)          false
#define __nv_is_extended_device_lambda_with_preserved_return_type(type) false

#endif
