/*
 * device.h - memory, streams, events and launches of the matrix's trainers: calls of the runtime, or, with
 * MATRIX_DRIVER, of the driver, in all the forms that a launch can have; with MATRIX_LOADED, of a driver that is opened
 * at run time (loaded.h); with MATRIX_ANY_SHAPE, of whichever device.cu is linked with. Included by trainer.h.
 *
 * All functions end the program with a line when the call fails.
 */
#ifndef TESTS_MATRIX_DEVICE_H
#define TESTS_MATRIX_DEVICE_H

#include "../lib/trainer_net.h"

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

#ifndef DEVICE_CALL
#define DEVICE_CALL static inline
#endif

/* The call that the trainer's shape makes; the other one is not compiled. */
#ifdef MATRIX_DRIVER
#define EITHER(driver, runtime) CHECK(driver)
#else
#define EITHER(driver, runtime) CHECK(runtime)
#endif

/* A row: a function, what it calls of the driver, and of the runtime. */
#ifdef MATRIX_ANY_SHAPE
#define CALL(name, parameters, driver, runtime) void name parameters;
#else
#define CALL(name, parameters, driver, runtime) \
    DEVICE_CALL void name parameters            \
    {                                           \
        EITHER(driver, runtime);                \
    }
#endif

static inline CUdeviceptr
device_address(const void *memory)
{
    return (CUdeviceptr)(uintptr_t)memory;
}

CALL(device_free, (void *memory), cuMemFree(device_address(memory)), cudaFree(memory))
CALL(device_zero, (float *memory, size_t count, cudaStream_t stream),
     cuMemsetD32Async(device_address(memory), 0, count, stream),
     cudaMemsetAsync(memory, 0, count * sizeof(float), stream))
CALL(device_copy, (void *to, const void *from, size_t bytes, cudaStream_t stream),
     cuMemcpyDtoDAsync(device_address(to), device_address(from), bytes, stream),
     cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream))
CALL(device_download, (void *host, const void *memory, size_t bytes), cuMemcpyDtoH(host, device_address(memory), bytes),
     cudaMemcpy(host, memory, bytes, cudaMemcpyDeviceToHost))
/* In the order of `stream`; to pinned memory without a wait. */
CALL(device_download_later, (void *host, const void *memory, size_t bytes, cudaStream_t stream),
     cuMemcpyDtoHAsync(host, device_address(memory), bytes, stream),
     cudaMemcpyAsync(host, memory, bytes, cudaMemcpyDeviceToHost, stream))
CALL(device_wait, (void), cuCtxSynchronize(), cudaDeviceSynchronize())
CALL(stream_wait, (cudaStream_t stream), cuStreamSynchronize(stream), cudaStreamSynchronize(stream))
CALL(stream_destroy, (cudaStream_t stream), cuStreamDestroy(stream), cudaStreamDestroy(stream))
/* The host calls function(data) in the order of `stream`. */
CALL(stream_call, (cudaStream_t stream, void (*function)(void *data), void *data),
     cuLaunchHostFunc(stream, function, data), cudaLaunchHostFunc(stream, function, data))

#ifdef MATRIX_ANY_SHAPE
extern const bool device_by_driver;
void device_open(void);
void device_enter(void);
void *device_allocate(size_t bytes);
void *pinned_allocate(size_t bytes);
void *managed_allocate(size_t bytes);
void device_upload(void *memory, const void *host, size_t bytes, cudaStream_t stream);
cudaStream_t stream_create(void);
cudaEvent_t event_create(void);
void stream_follow(cudaStream_t first, cudaStream_t second, cudaEvent_t event);
void device_launch(const void *kernel, unsigned blocks, cudaStream_t stream, unsigned form, void **params, void *packed,
                   size_t packed_bytes);
#else
#include "device_calls.h"
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

#if defined(MATRIX_DRIVER) || defined(MATRIX_ANY_SHAPE)

/* One launch; the call is written as a launch is, with the arguments after it. Its form changes by the launch. */
template <typename... Parameters> struct any_launch {
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
#ifdef MATRIX_ANY_SHAPE
        if (!device_by_driver) {
            kernel<<<blocks, THREADS, 0, stream>>>(values...);
            return;
        }
#endif
        static __thread unsigned form;
        void *params[] = {&values...};
        char packed[4096];
        size_t bytes = 0;
        int each[] = {(pack(packed, &bytes, values), 0)...};
        (void)each;
        device_launch((const void *)kernel, blocks, stream, ++form, params, packed, bytes);
    }
};

template <typename... Parameters>
static any_launch<Parameters...>
any_launcher(void (*kernel)(Parameters...), unsigned blocks, cudaStream_t stream)
{
    return {kernel, blocks, stream};
}

#define LAUNCH(kernel, count, stream) any_launcher(kernel, blocks_for(count), stream)

#else

#define LAUNCH(kernel, count, stream) kernel<<<blocks_for(count), THREADS, 0, stream>>>

#endif

#endif
