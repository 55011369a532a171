/*
 * loaded.h - the driver as programs reach it that open libcuda at run time and ask for each function by its exported
 * name, never for cuGetProcAddress: loaders in Rust, Python's ctypes, OpenMP offload. Included by device.h, whose
 * MATRIX_DRIVER calls then go through these pointers.
 *
 * MATRIX_LOADED says how: LOADED_LOCAL asks the handle of a library that is in no other library's scope, LOADED_GLOBAL
 * the program's global scope. LOADED_LINKED is a trainer that is a library itself, linked with libcuda and opened with
 * RTLD_LOCAL (plugin.c).
 */
#ifndef TESTS_MATRIX_LOADED_H
#define TESTS_MATRIX_LOADED_H

#include <cuda.h>
#include <dlfcn.h>
#include <softgpu/stub.h>
#include <stdio.h>
#include <stdlib.h>

extern "C" int plugin_main(int argc, char **argv); /* what main() is called in a library */

#define LOADED_LOCAL  1
#define LOADED_GLOBAL 2
#define LOADED_LINKED 3

#define LOADED_FUNCTIONS(FUNCTION)     \
    FUNCTION(cuInit)                   \
    FUNCTION(cuDeviceGet)              \
    FUNCTION(cuDevicePrimaryCtxRetain) \
    FUNCTION(cuCtxSetCurrent)          \
    FUNCTION(cuCtxSynchronize)         \
    FUNCTION(cuModuleLoadData)         \
    FUNCTION(cuModuleGetFunction)      \
    FUNCTION(cuMemAlloc_v2)            \
    FUNCTION(cuMemAllocHost_v2)        \
    FUNCTION(cuMemFree_v2)             \
    FUNCTION(cuMemsetD8_v2)            \
    FUNCTION(cuMemsetD32Async)         \
    FUNCTION(cuMemcpyHtoDAsync_v2)     \
    FUNCTION(cuMemcpyDtoDAsync_v2)     \
    FUNCTION(cuMemcpyDtoH_v2)          \
    FUNCTION(cuStreamCreate)           \
    FUNCTION(cuStreamDestroy_v2)       \
    FUNCTION(cuStreamSynchronize)      \
    FUNCTION(cuStreamWaitEvent)        \
    FUNCTION(cuEventCreate)            \
    FUNCTION(cuEventRecord)            \
    FUNCTION(cuLaunchKernel)           \
    FUNCTION(cuLaunchKernelEx)

#define LOADED_MEMBER(function) __typeof__(&function) p_##function;
static struct {
    LOADED_FUNCTIONS(LOADED_MEMBER)
} loaded;

static inline void
loaded_open(void)
{
    if (loaded.p_cuInit != NULL)
        return;
#if MATRIX_LOADED == LOADED_LINKED
#define LOADED_LOOK_UP(function) loaded.p_##function = function;
#else
    void *library = dlopen("libcuda.so.1", RTLD_NOW | (MATRIX_LOADED == LOADED_GLOBAL ? RTLD_GLOBAL : RTLD_LOCAL));
#define LOADED_LOOK_UP(function)                                                                                \
    *(void **)&loaded.p_##function = dlsym(MATRIX_LOADED == LOADED_GLOBAL ? RTLD_DEFAULT : library, #function); \
    if (loaded.p_##function == NULL) {                                                                          \
        fprintf(stderr, "dlsym finds no " #function "\n");                                                      \
        exit(1);                                                                                                \
    }
#endif
    LOADED_FUNCTIONS(LOADED_LOOK_UP)
}

/* A kernel of this program: its module, as a loader has it from a file. */
static inline CUfunction
loaded_kernel(const void *stub)
{
    enum { KERNELS_AT_MOST = 32 };
    static __thread struct {
        const void *stub;
        CUfunction function;
    } known[KERNELS_AT_MOST];
    int i = 0;
    while (i < KERNELS_AT_MOST - 1 && known[i].stub != NULL && known[i].stub != stub)
        ++i;
    if (known[i].stub == stub)
        return known[i].function;
    CUmodule module;
    const struct softgpu_image *image = softgpu_stub_image(stub);
    if (loaded.p_cuModuleLoadData(&module, image) != CUDA_SUCCESS ||
        loaded.p_cuModuleGetFunction(&known[i].function, module, image->name) != CUDA_SUCCESS) {
        fprintf(stderr, "kernel %s cannot be loaded\n", image->name);
        exit(1);
    }
    known[i].stub = stub;
    return known[i].function;
}

/* From here on the calls by their names go that way. */
#define cuInit                   loaded.p_cuInit
#define cuDeviceGet              loaded.p_cuDeviceGet
#define cuDevicePrimaryCtxRetain loaded.p_cuDevicePrimaryCtxRetain
#define cuCtxSetCurrent          loaded.p_cuCtxSetCurrent
#define cuCtxSynchronize         loaded.p_cuCtxSynchronize
#define cuMemAlloc_v2            loaded.p_cuMemAlloc_v2
#define cuMemAllocHost_v2        loaded.p_cuMemAllocHost_v2
#define cuMemFree_v2             loaded.p_cuMemFree_v2
#define cuMemsetD8_v2            loaded.p_cuMemsetD8_v2
#define cuMemsetD32Async         loaded.p_cuMemsetD32Async
#define cuMemcpyHtoDAsync_v2     loaded.p_cuMemcpyHtoDAsync_v2
#define cuMemcpyDtoDAsync_v2     loaded.p_cuMemcpyDtoDAsync_v2
#define cuMemcpyDtoH_v2          loaded.p_cuMemcpyDtoH_v2
#define cuStreamCreate           loaded.p_cuStreamCreate
#define cuStreamDestroy_v2       loaded.p_cuStreamDestroy_v2
#define cuStreamSynchronize      loaded.p_cuStreamSynchronize
#define cuStreamWaitEvent        loaded.p_cuStreamWaitEvent
#define cuEventCreate            loaded.p_cuEventCreate
#define cuEventRecord            loaded.p_cuEventRecord
#define cuLaunchKernel           loaded.p_cuLaunchKernel
#define cuLaunchKernelEx         loaded.p_cuLaunchKernelEx

#endif
