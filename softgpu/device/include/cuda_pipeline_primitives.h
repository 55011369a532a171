/*
 * cuda_pipeline_primitives.h - in the place of NVIDIA's: a thread's own copies. CUDA C++ Programming Guide, "Pipeline
 * Primitives Interface". What CUDA demands of size and alignment is demanded here.
 */
#ifndef SOFTGPU_CUDA_PIPELINE_PRIMITIVES_H
#define SOFTGPU_CUDA_PIPELINE_PRIMITIVES_H
#pragma GCC system_header

#include "softgpu/phases.h"

/* The last `zeros` of the bytes are zeros. */
SOFTGPU_INLINE void
__pipeline_memcpy_async(void *to, const void *from, size_t bytes, size_t zeros = 0)
{
    const size_t places = reinterpret_cast<size_t>(to) | reinterpret_cast<size_t>(from);
    if ((bytes != 4 && bytes != 8 && bytes != 16) || zeros > bytes || places % bytes != 0)
        softgpu_kernel_fatal(
            "__pipeline_memcpy_async of %zu bytes, %zu of them zeros, from %p to %p: 4, 8 or 16 can be "
            "copied, between places aligned to as many",
            bytes, zeros, from, to);
    __builtin_memcpy(to, from, bytes - zeros);
    __builtin_memset(static_cast<char *>(to) + bytes - zeros, 0, zeros);
}

SOFTGPU_INLINE void
__pipeline_commit()
{
}

SOFTGPU_INLINE void
__pipeline_wait_prior(size_t)
{
}

#endif
