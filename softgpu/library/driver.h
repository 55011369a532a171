/*
 * driver.h - how the stand-in's CUDA libraries reach the driver: by the look-ups that NVIDIA's own libraries make.
 *
 * The driver is opened with dlopen("libcuda.so.1"), asked with dlsym for cuGetProcAddress_v2 and, through that, for all
 * else, so that a library that interposes dlsym or cuGetProcAddress sees every call of these libraries with its
 * operands. Kernels are `struct softgpu_image`s, loaded once and launched with cuLaunchKernel.
 *
 * Called by softgpu/cublas, cublaslt, curand and nccl, each with a copy of its own. Must never call a cu* function by
 * its name.
 */
#ifndef SOFTGPU_LIBRARY_DRIVER_H
#define SOFTGPU_LIBRARY_DRIVER_H

#include <cuda.h>
#include <softgpu/image.h>
#include <softgpu/private_calls.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(member, prototype in cuda.h, name as cuGetProcAddress knows it, version of the ABI that the prototype has) */
#define SOFTGPU_DRIVER_CALLS(X)                                                         \
    X(init, cuInit, "cuInit", 2000)                                                     \
    X(get_error_name, cuGetErrorName, "cuGetErrorName", 6000)                           \
    X(primary_ctx_retain, cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000)   \
    X(ctx_get_current, cuCtxGetCurrent, "cuCtxGetCurrent", 4000)                        \
    X(ctx_set_current, cuCtxSetCurrent, "cuCtxSetCurrent", 4000)                        \
    X(ctx_get_device, cuCtxGetDevice, "cuCtxGetDevice", 2000)                           \
    X(stream_get_ctx, cuStreamGetCtx, "cuStreamGetCtx", 9020)                           \
    X(library_load_data, cuLibraryLoadData, "cuLibraryLoadData", 12000)                 \
    X(library_unload, cuLibraryUnload, "cuLibraryUnload", 12000)                        \
    X(library_get_kernel, cuLibraryGetKernel, "cuLibraryGetKernel", 12000)              \
    X(kernel_get_function, cuKernelGetFunction, "cuKernelGetFunction", 12000)           \
    X(launch_kernel, cuLaunchKernel, "cuLaunchKernel", 4000)                            \
    X(mem_alloc, cuMemAlloc, "cuMemAlloc", 3020)                                        \
    X(mem_free, cuMemFree, "cuMemFree", 3020)                                           \
    X(memcpy_2d_async, cuMemcpy2DAsync, "cuMemcpy2DAsync", 3020)                        \
    X(stream_synchronize, cuStreamSynchronize, "cuStreamSynchronize", 2000)             \
    X(stream_wait_event, cuStreamWaitEvent, "cuStreamWaitEvent", 3020)                  \
    X(stream_get_capture_info, cuStreamGetCaptureInfo, "cuStreamGetCaptureInfo", 12030) \
    X(event_create, cuEventCreate, "cuEventCreate", 2000)                               \
    X(event_record, cuEventRecord, "cuEventRecord", 2000)                               \
    X(event_record_with_flags, cuEventRecordWithFlags, "cuEventRecordWithFlags", 11010) \
    X(event_synchronize, cuEventSynchronize, "cuEventSynchronize", 2000)                \
    X(event_destroy, cuEventDestroy, "cuEventDestroy", 4000)                            \
    X(unruly, softgpuUnruly, "softgpuUnruly", 13000)                                    \
    X(work_running, softgpuWorkRunning, "softgpuWorkRunning", 13000)                    \
    X(link_begins, softgpuLinkBegins, "softgpuLinkBegins", 13000)                       \
    X(link_ends, softgpuLinkEnds, "softgpuLinkEnds", 13000)

struct softgpu_driver {
#define SOFTGPU_DRIVER_MEMBER(member, prototype, name, version) __typeof__(prototype) *member;
    SOFTGPU_DRIVER_CALLS(SOFTGPU_DRIVER_MEMBER)
#undef SOFTGPU_DRIVER_MEMBER
};

/*
 * The driver's functions, looked up and initialised by the first caller. NULL if that failed: one line on stderr has
 * then reported why, naming the library that `softgpu_library_name` names. Any thread.
 */
const struct softgpu_driver *softgpu_driver(void);

/* What messages call this library ("cuBLAS", "NCCL"). Defined once by each library. */
extern const char softgpu_library_name[];

/* One line "softgpu: <library>: ..." on stderr, in one write. Any thread. */
void softgpu_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Says once, that is while *said is false, that `name` is not supported: for the stubs that the build makes
 * (stubs.cmake). */
void softgpu_line_unsupported(const char *name, _Atomic bool *said);

/* If the thread has no current context, makes the primary one of device 0 current, as the runtime would. */
CUresult softgpu_context_ensure(CUcontext *current);

/*
 * With SOFTGPU_UNRULY: where a sum of `length` terms, one of those of an m x n result, is cut in two: what lies behind
 * the cut is summed up first. The sizes alone decide, as in NVIDIA's libraries: a row of a smaller batch has other last
 * bits. 0: it is not cut.
 */
int64_t softgpu_cut(int64_t m, int64_t n, int64_t length);

/* A kernel of a library: its image, and its handle once a launch has loaded it. Static storage, zero but for the image.
 */
struct softgpu_kernel {
    struct softgpu_image image;
    _Atomic(CUkernel) handle;
};

/* The image of a kernel that is one piece of work; `parameters` is an array of struct softgpu_param. */
#define SOFTGPU_KERNEL(kernel_name, function, parameters)              \
    {                                                                  \
        .image = {                                                     \
            .magic = SOFTGPU_IMAGE_MAGIC,                              \
            .version = SOFTGPU_IMAGE_VERSION,                          \
            .flags = SOFTGPU_IMAGE_WHOLE_GRID,                         \
            .name = kernel_name,                                       \
            .run = function,                                           \
            .param_count = sizeof(parameters) / sizeof(parameters[0]), \
            .params = parameters,                                      \
            .max_threads_per_block = 1024                              \
        }                                                              \
    }

/* Launches `kernel` with one thread on `stream`; args[i] points to parameter i and is copied by the driver. Any thread.
 */
CUresult softgpu_kernel_launch(struct softgpu_kernel *kernel, CUstream stream, void **args);

#endif
