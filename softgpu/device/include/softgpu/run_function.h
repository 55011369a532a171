/*
 * softgpu/run_function.h - a kernel of one thread that calls a function object: how the stand-in's Thrust and CUB run
 * their algorithms. What such an object holds are the kernel's parameters, so a library that watches launches sees the
 * memory that an algorithm works on. C++11.
 */
#ifndef SOFTGPU_RUN_FUNCTION_H
#define SOFTGPU_RUN_FUNCTION_H
#pragma GCC system_header

#include <cuda_runtime.h>

namespace softgpu
{

/* Not inlined: the code that runs a kernel's threads comes in several forms, and one copy of the function is enough. */
template <class F>
__attribute__((noinline)) inline void
call_function(F &f)
{
    f();
}

/* What softgpu-cc makes of  template <class F> __global__ void run_kernel(F f) { f(); }  where f may ask for threadIdx
 * and call __syncthreads(). */
template <class F>
static inline void
run_kernel(F softgpu_f)
{
    struct softgpu_kernel {
        char tag;
    };
    auto softgpu_body =
        [](const ::uint3, const ::uint3, const ::dim3, const ::dim3, F f) __attribute__((always_inline))->void
    {
        call_function(f);
    };
    stub<MODE_FIBERS | MODE_INDICES, softgpu_kernel, decltype(softgpu_body), F>(softgpu_body, __PRETTY_FUNCTION__, 1024,
                                                                                __builtin_addressof(softgpu_f));
}

/* Launches it in the stream; whether that worked, cudaGetLastError() says. */
template <class F>
inline void
launch_function(cudaStream_t stream, F f)
{
    if (!push_config(1, 1, 0, stream))
        run_kernel<F>(f);
}

/* What a kernel sees of an iterator; specialised for those that the host dereferences by copies. */
template <class It, class = void> struct kernel_iterator {
    static It of(It it)
    {
        return it;
    }
};

} // namespace softgpu

#endif
