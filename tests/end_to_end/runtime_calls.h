/*
 * runtime_calls.h - what a library beneath a trainer calls of the shared runtime, which it has looked up by itself: it
 * makes a stream, allocates, copies, frees, and destroys the stream. For wrap_nccl.c and plug_nccl.c.
 */
#ifndef DDPRUN_TESTS_END_TO_END_RUNTIME_CALLS_H
#define DDPRUN_TESTS_END_TO_END_RUNTIME_CALLS_H

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The one that the process has; else that of CUDA 13. */
static void *
open_runtime(void)
{
    static const char *const names[] = {"libcudart.so.13", "libcudart.so.12"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
        if (library != NULL)
            return library;
    }
    return dlopen(names[0], RTLD_NOW);
}

static void *
find_in_runtime(const char *name)
{
    void *library = open_runtime(), *found = library != NULL ? dlsym(library, name) : NULL;
    if (found == NULL) {
        fprintf(stderr, "no %s in a shared runtime\n", name);
        abort();
    }
    return found;
}

#define RUNTIME(call) ((__typeof__(&(call)))(uintptr_t)find_in_runtime(#call))

static void
call_runtime(void)
{
    enum { BYTES = 1 << 16 };
    static const char zeros[BYTES];
    cudaStream_t stream;
    void *memory;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    (void)RUNTIME(cudaThreadExchangeStreamCaptureMode)(&mode);
    int failed = RUNTIME(cudaStreamCreateWithFlags)(&stream, cudaStreamNonBlocking) != cudaSuccess ||
                 RUNTIME(cudaMalloc)(&memory, BYTES) != cudaSuccess ||
                 RUNTIME(cudaMemcpyAsync)(memory, zeros, BYTES, cudaMemcpyHostToDevice, stream) != cudaSuccess ||
                 RUNTIME(cudaMemsetAsync)(memory, 0, BYTES, stream) != cudaSuccess ||
                 RUNTIME(cudaStreamSynchronize)(stream) != cudaSuccess || RUNTIME(cudaFree)(memory) != cudaSuccess;
    if (failed || RUNTIME(cudaStreamDestroy)(stream) != cudaSuccess)
        abort();
    (void)RUNTIME(cudaThreadExchangeStreamCaptureMode)(&mode);
}

#endif
