/*
 * softgpu/launch.h - what softgpu-cc writes into a program: kernels as stubs, and their launches.
 *
 * A kernel
 *     __global__ void k(const float *x, int n) { BODY }
 * becomes a host function of the same name, the stub, whose body is
 *     struct softgpu_kernel { char tag; };
 *     auto softgpu_body = [](uint3 threadIdx, uint3 blockIdx, dim3 blockDim, dim3 gridDim, const float *x, int n) {
 * BODY }; softgpu::stub<MODE, softgpu_kernel, decltype(softgpu_body), const float *, int>(NAME, BOUNDS, &x, &n); and a
 * launch  k<<<grid, block>>>(x, n)  becomes  (softgpu::push_config(grid, block) ? (void)0 : k(x, n)), as nvcc makes it.
 *
 * The stub launches through the runtime's entry points, named here in the user's own translation unit, so that the
 * macros which choose the per-thread default stream apply. C++11 and later.
 */
#ifndef SOFTGPU_LAUNCH_H
#define SOFTGPU_LAUNCH_H
#pragma GCC system_header

#include "softgpu/kernel_image.h"
#include "softgpu/run_kernel.h"
#include "softgpu/shared.h"
#include "softgpu/symbol.h"

#ifdef SOFTGPU_MODULE
#include "softgpu/module_kernel.h"
#elif defined(__GXX_RTTI)
#include <typeinfo>
#endif

extern "C" unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st *stream);
extern "C" cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream);

namespace softgpu
{

inline bool
push_config(::dim3 grid, ::dim3 block, size_t shared = 0, cudaStream_t stream = nullptr)
{
    return __cudaPushCallConfiguration(grid, block, shared, stream) != 0;
}

#ifndef SOFTGPU_MODULE

/* The runtime's handle of an image. An error stays the runtime's last error, as after a failed launch. */
static __attribute__((noinline, unused)) void *
load_kernel(const softgpu_image &image)
{
    void *loaded = __atomic_load_n(image.handle, __ATOMIC_ACQUIRE);
    cudaLibrary_t library;
    cudaKernel_t mine;
    if (loaded == nullptr &&
        cudaLibraryLoadData(&library, &image, nullptr, nullptr, 0, nullptr, nullptr, 0) == cudaSuccess &&
        cudaLibraryGetKernel(&mine, library, image.name) == cudaSuccess &&
        __atomic_compare_exchange_n(image.handle, &loaded, (void *)mine, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        loaded = mine;
    return loaded;
}

/* The body of every stub, and in its frame: a launch has one frame of the stub's, as with nvcc, and then its caller's.
 * `where`: the addresses of its parameters. */
template <int Mode, class Kernel, class Body, class... P, class... Where>
static inline __attribute__((always_inline)) void
stub(const Body &, const char *pretty_function, unsigned max_threads, Where... where)
{
    typedef kernel<Mode, Body, P...> code;
    /* As nvcc's .nv_fatbin: a file with this section holds kernels. It has no other use. */
    __asm__(".pushsection .softgpu_kernels, \"a\", @progbits\n\t.byte 0\n\t.popsection");
#ifdef __GXX_RTTI
    const char *const inner = typeid(Kernel).name();
#else
    const char *const inner = nullptr;
#endif
    static const extent extents[] = {{sizeof(typename parameter<P>::stored), alignof(typename parameter<P>::stored)}...,
                                     {0, 1}};
    static softgpu_param params[sizeof...(P) + 1];
    static void *handle;
    static const softgpu_image image = finish_image(
        {SOFTGPU_IMAGE_MAGIC, SOFTGPU_IMAGE_VERSION, SOFTGPU_IMAGE_HANDLE, pretty_function, code::run, sizeof...(P),
         params, __atomic_load_n(&frame<Kernel>::used, __ATOMIC_RELAXED), max_threads, inner, &handle},
        params, extents, &code::name);
    const softgpu_image **const probe = softgpu_object_calls->thread_here()->probe;
    if (probe != nullptr) {
        *probe = &image;
        return;
    }

    ::dim3 grid, block;
    size_t shared_bytes = 0;
    cudaStream_t stream = nullptr;
    if (__cudaPopCallConfiguration(&grid, &block, &shared_bytes, &stream) != cudaSuccess)
        return;
    void *const loaded = load_kernel(image);
    if (loaded == nullptr)
        return;
    void *args[] = {parameter<P>::place(where)..., nullptr};
    (void)cudaLaunchKernel(loaded, grid, block, args, shared_bytes, stream);
}

#endif

} // namespace softgpu

#endif
