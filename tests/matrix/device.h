/*
 * device.h - memory, streams, events and launches of the matrix's trainers: calls of the runtime, or, with
 * MATRIX_DRIVER, of the driver, in all the forms that a launch can have; with MATRIX_LOADED, of a driver that is opened
 * at run time (loaded.h). Included by trainer.h.
 *
 * All functions end the program with a line when the call fails.
 */
#ifndef TESTS_MATRIX_DEVICE_H
#define TESTS_MATRIX_DEVICE_H

#include "../trainer.h"

#include <cublas_v2.h>
#include <cuda.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef MATRIX_LOADED
#define MATRIX_DRIVER
#include "loaded.h"
#else
static inline void
loaded_open(void)
{
}
#endif

/* ---- device memory, streams, events: the runtime's calls, or the driver's ---- */

#ifdef MATRIX_DRIVER

static CUdeviceptr
device_address(const void *memory)
{
    return (CUdeviceptr)(uintptr_t)memory;
}

static void
device_open(void)
{
    CUdevice device;
    CUcontext context;
    loaded_open();
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
}

/* In a thread that device_open() did not run in. */
static inline void
device_enter(void)
{
    device_open();
}

/* Zeros; they are there when it returns: no stream has to follow the default stream. */
static void *
device_allocate(size_t bytes)
{
    CUdeviceptr memory;
    CHECK(cuMemAlloc(&memory, bytes));
    CHECK(cuMemsetD8(memory, 0, bytes));
    CHECK(cuStreamSynchronize(NULL));
    return (void *)(uintptr_t)memory;
}

static void *
pinned_allocate(size_t bytes)
{
    void *memory;
    CHECK(cuMemAllocHost(&memory, bytes));
    return memory;
}

static inline void *
managed_allocate(size_t bytes)
{
    CUdeviceptr memory;
    CHECK(cuMemAllocManaged(&memory, bytes, CU_MEM_ATTACH_GLOBAL));
    return (void *)(uintptr_t)memory;
}

static inline void
device_free(void *memory)
{
    CHECK(cuMemFree(device_address(memory)));
}

static inline void
device_zero(float *memory, size_t count, cudaStream_t stream)
{
    CHECK(cuMemsetD32Async(device_address(memory), 0, count, stream));
}

static inline void
device_upload(void *memory, const void *host, size_t bytes, cudaStream_t stream)
{
    CHECK(cuMemcpyHtoDAsync(device_address(memory), host, bytes, stream));
}

static inline void
device_copy(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    CHECK(cuMemcpyDtoDAsync(device_address(to), device_address(from), bytes, stream));
}

static inline void
device_download(void *host, const void *memory, size_t bytes)
{
    CHECK(cuMemcpyDtoH(host, device_address(memory), bytes));
}

/* In the order of `stream`; to pinned memory without a wait. */
static inline void
device_download_later(void *host, const void *memory, size_t bytes, cudaStream_t stream)
{
    CHECK(cuMemcpyDtoHAsync(host, device_address(memory), bytes, stream));
}

static inline void
device_wait(void)
{
    CHECK(cuCtxSynchronize());
}

static inline void
stream_wait(cudaStream_t stream)
{
    CHECK(cuStreamSynchronize(stream));
}

/* The host calls function(data) in the order of `stream`. */
static inline void
stream_call(cudaStream_t stream, void (*function)(void *data), void *data)
{
    CHECK(cuLaunchHostFunc(stream, function, data));
}

static inline cudaStream_t
stream_create(void)
{
    CUstream stream;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static inline void
stream_destroy(cudaStream_t stream)
{
    CHECK(cuStreamDestroy(stream));
}

static inline cudaEvent_t
event_create(void)
{
    CUevent event;
    CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

/* What `first` has got so far comes before what `second` gets from now on. */
static inline void
stream_follow(cudaStream_t first, cudaStream_t second, cudaEvent_t event)
{
    CHECK(cuEventRecord(event, first));
    CHECK(cuStreamWaitEvent(second, event, 0));
}

#else

static void
device_open(void)
{
    CHECK(cudaSetDevice(0));
}

/* In a thread that device_open() did not run in. */
static inline void
device_enter(void)
{
    device_open();
}

/* Zeros; they are there when it returns: no stream has to follow the default stream. */
static void *
device_allocate(size_t bytes)
{
    void *memory;
    CHECK(cudaMalloc(&memory, bytes));
    CHECK(cudaMemset(memory, 0, bytes));
    CHECK(cudaStreamSynchronize(0));
    return memory;
}

static void *
pinned_allocate(size_t bytes)
{
    void *memory;
    CHECK(cudaMallocHost(&memory, bytes));
    return memory;
}

static inline void *
managed_allocate(size_t bytes)
{
    void *memory;
    CHECK(cudaMallocManaged(&memory, bytes));
    return memory;
}

static inline void
device_free(void *memory)
{
    CHECK(cudaFree(memory));
}

static inline void
device_zero(float *memory, size_t count, cudaStream_t stream)
{
    CHECK(cudaMemsetAsync(memory, 0, count * sizeof(float), stream));
}

static inline void
device_upload(void *memory, const void *host, size_t bytes, cudaStream_t stream)
{
    CHECK(cudaMemcpyAsync(memory, host, bytes, cudaMemcpyHostToDevice, stream));
}

static inline void
device_copy(void *to, const void *from, size_t bytes, cudaStream_t stream)
{
    CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
}

static inline void
device_download(void *host, const void *memory, size_t bytes)
{
    CHECK(cudaMemcpy(host, memory, bytes, cudaMemcpyDeviceToHost));
}

/* In the order of `stream`; to pinned memory without a wait. */
static inline void
device_download_later(void *host, const void *memory, size_t bytes, cudaStream_t stream)
{
    CHECK(cudaMemcpyAsync(host, memory, bytes, cudaMemcpyDeviceToHost, stream));
}

static inline void
device_wait(void)
{
    CHECK(cudaDeviceSynchronize());
}

static inline void
stream_wait(cudaStream_t stream)
{
    CHECK(cudaStreamSynchronize(stream));
}

/* The host calls function(data) in the order of `stream`. */
static inline void
stream_call(cudaStream_t stream, void (*function)(void *data), void *data)
{
    CHECK(cudaLaunchHostFunc(stream, function, data));
}

static inline cudaStream_t
stream_create(void)
{
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

static inline void
stream_destroy(cudaStream_t stream)
{
    CHECK(cudaStreamDestroy(stream));
}

static inline cudaEvent_t
event_create(void)
{
    cudaEvent_t event;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
}

/* What `first` has got so far comes before what `second` gets from now on. */
static inline void
stream_follow(cudaStream_t first, cudaStream_t second, cudaEvent_t event)
{
    CHECK(cudaEventRecord(event, first));
    CHECK(cudaStreamWaitEvent(second, event, 0));
}

#endif

static inline float *
device_floats(size_t count)
{
    return (float *)device_allocate(count * sizeof(float));
}

static inline cublasHandle_t
blas_create(cudaStream_t stream)
{
    cublasHandle_t blas;
    CHECK(cublasCreate(&blas));
    CHECK(cublasSetStream(blas, stream));
    return blas;
}

/* ---- launches: LAUNCH(kernel, count, stream)(arguments...), one thread for each of `count` elements ---- */

enum { THREADS = 64 };

static inline unsigned
blocks_for(size_t count)
{
    return (unsigned)((count + THREADS - 1) / THREADS);
}

#ifdef MATRIX_DRIVER

static inline CUfunction
function_of(const void *kernel)
{
#ifdef MATRIX_LOADED
    return loaded_kernel(kernel);
#else
    CUfunction function;
    CHECK(cudaGetFuncBySymbol((cudaFunction_t *)&function, kernel));
    return function;
#endif
}

/* May stand where a CUfunction is wanted. */
static inline CUfunction
handle_of(const void *kernel)
{
#ifdef MATRIX_LOADED
    return loaded_kernel(kernel);
#else
    CUkernel handle;
    CHECK(cudaGetKernel((cudaKernel_t *)&handle, kernel));
    return (CUfunction)handle;
#endif
}

/* One launch; the call is written as a launch is, with the arguments behind it. Its form changes from launch to launch.
 */
template <typename... Parameters> struct driver_launch {
    void (*kernel)(Parameters...);
    unsigned blocks;
    cudaStream_t stream;

    template <typename T> static void pack(char *buffer, size_t *bytes, const T &value)
    {
        *bytes = (*bytes + alignof(T) - 1) / alignof(T) * alignof(T);
        memcpy(buffer + *bytes, &value, sizeof(T));
        *bytes += sizeof(T);
    }

    void operator()(Parameters... values) const
    {
        static __thread unsigned form;
        void *params[] = {&values...};
        CUfunction function = function_of((const void *)kernel);
        switch (++form % 3) {
        case 0:
            CHECK(cuLaunchKernel(function, blocks, 1, 1, THREADS, 1, 1, 0, stream, params, NULL));
            break;
        case 1: {
            CUlaunchConfig config = {};
            config.gridDimX = blocks;
            config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
            config.blockDimX = THREADS;
            config.hStream = stream;
            CHECK(cuLaunchKernelEx(&config, handle_of((const void *)kernel), params, NULL));
            break;
        }
        default: {
            char buffer[4096];
            size_t bytes = 0;
            int each[] = {(pack(buffer, &bytes, values), 0)...};
            void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                             CU_LAUNCH_PARAM_END};
            (void)each;
            CHECK(cuLaunchKernel(function, blocks, 1, 1, THREADS, 1, 1, 0, stream, NULL, extra));
            break;
        }
        }
    }
};

template <typename... Parameters>
static driver_launch<Parameters...>
driver_launcher(void (*kernel)(Parameters...), unsigned blocks, cudaStream_t stream)
{
    return {kernel, blocks, stream};
}

#define LAUNCH(kernel, count, stream) driver_launcher(kernel, blocks_for(count), stream)

#else

#define LAUNCH(kernel, count, stream) kernel<<<blocks_for(count), THREADS, 0, stream>>>

#endif

#endif
