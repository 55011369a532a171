/*
 * runtime.h - what the files of the stand-in's runtime (libcudart.so.13) share. Nothing outside this folder includes
 * it.
 *
 * The runtime is thin: it finds the driver (driver.c), keeps a context current for the calling thread, translates, and
 * remembers the thread's last error. It links no driver: like NVIDIA's it opens libcuda.so.1 and asks cuGetProcAddress
 * for everything, so an interposer sees each call.
 */
#ifndef SOFTGPU_CUDART_RUNTIME_H
#define SOFTGPU_CUDART_RUNTIME_H

/* Makes both headers declare every function under its ABI name and map no names. */
#ifndef __CUDA_API_VERSION_INTERNAL
#error "compile this folder with __CUDA_API_VERSION_INTERNAL"
#endif
#include <cuda.h>
#include <cudaProfiler.h>
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include "cuda/say.h"
#include "softgpu/private_calls.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* ---- driver.c ---- */

/* Pointers from cuGetProcAddress, each under its ABI name. Read-only once runtime_start() has succeeded. */
struct driver_calls {
#define CALL(abi, name, version, flags) __typeof__(&abi) abi;
#include "driver_calls.def"
};
extern struct driver_calls driver;

/* Finds and initialises the driver; needs no context. */
cudaError_t runtime_start(void) __attribute__((warn_unused_result));

/* runtime_start(), and makes the primary context of the thread's device current if the thread has none. */
cudaError_t runtime_enter(void) __attribute__((warn_unused_result));

/* The device that the calling thread uses. */
int runtime_device(void);
cudaError_t runtime_set_device(int device) __attribute__((warn_unused_result));

/* The primary context of a device, retained by the runtime. */
cudaError_t runtime_context(int device, CUcontext *context_p) __attribute__((warn_unused_result));

/*
 * SOFTGPU_UNRULY: `call` is the function again that begins with this, with its own parameters, until as many frames of
 * the runtime lie on the stack as a static one of NVIDIA's has.
 */
enum { RUNTIME_FRAMES = 3 };
extern bool runtime_is_deep;
extern _Thread_local unsigned runtime_depth;
#define RUNTIME_DEEPER(call)                                     \
    do {                                                         \
        if (runtime_is_deep && runtime_depth < RUNTIME_FRAMES) { \
            ++runtime_depth;                                     \
            cudaError_t from_deeper = (call);                    \
            --runtime_depth;                                     \
            return from_deeper;                                  \
        }                                                        \
    } while (0)

/* ---- error.c ---- */

/* The runtime's number for a driver's error: the same, but for two that the runtime does not have. */
cudaError_t from_driver(CUresult result);

/* Notes a failure as the thread's last error; returns it. Every API function returns through this. */
cudaError_t finish(cudaError_t error);

/* Returns the error of a call, noted as the thread's last one, unless it succeeds; and of one of the driver's. */
#define TRY(call)                             \
    do {                                      \
        const cudaError_t try_error = (call); \
        if (try_error != cudaSuccess) {       \
            (void)finish(try_error);          \
            return try_error;                 \
        }                                     \
    } while (false)
#define TRY_DRIVER(call) TRY(from_driver(call))

/* The same with an error, unless the condition holds; and with that for what callers pass. */
#define REQUIRE_ELSE(condition, error) TRY((condition) ? cudaSuccess : (error))
#define REQUIRE(condition)             REQUIRE_ELSE(condition, cudaErrorInvalidValue)

/* The two ends of most functions: a call of the driver, with and without a context. */
#define WITH_CONTEXT(call)                                            \
    __extension__({                                                   \
        cudaError_t entered = runtime_enter();                        \
        finish(entered != cudaSuccess ? entered : from_driver(call)); \
    })
#define WITHOUT_CONTEXT(call)                                         \
    __extension__({                                                   \
        cudaError_t entered = runtime_start();                        \
        finish(entered != cudaSuccess ? entered : from_driver(call)); \
    })

/* A call of the driver with what `make` has written into `made`. */
#define WITH_MADE(type, make, call)                                  \
    __extension__({                                                  \
        type made;                                                   \
        cudaError_t making = (make);                                 \
        making != cudaSuccess ? finish(making) : WITH_CONTEXT(call); \
    })

/* ---- which default stream ---- */

enum flavour { LEGACY, PER_THREAD };

/* Defines a function in its two ABI flavours; the body may use the parameters and `flavour`. */
#define BOTH_FLAVOURS(name, suffix, parameters, body) \
    cudaError_t name parameters                       \
    {                                                 \
        const enum flavour flavour = LEGACY;          \
        return body;                                  \
    }                                                 \
    cudaError_t name##suffix parameters               \
    {                                                 \
        const enum flavour flavour = PER_THREAD;      \
        return body;                                  \
    }

/* The same for a function that has one. */
#define ONE_FLAVOUR(name, parameters, body) \
    cudaError_t name parameters             \
    {                                       \
        return body;                        \
    }

/* The driver's function of the flavour at hand. */
#define STREAM_CALL(abi) (flavour == LEGACY ? driver.abi : driver.abi##_ptsz)
#define MEMORY_CALL(abi) (flavour == LEGACY ? driver.abi : driver.abi##_ptds)

/* ---- copy.c ---- */

/* What a copy between pitched memory is to the driver. */
cudaError_t copy_box_3d(CUDA_MEMCPY3D *box, const struct cudaMemcpy3DParms *copy) __attribute__((warn_unused_result));

/* ---- kernel.c ---- */

/* The driver's handles for what a program calls a kernel (a cudaKernel_t of this library, or the address of a host
 * stub): the function, for questions, and the kernel, for launches. */
cudaError_t kernel_function(const void *kernel, CUfunction *function_p) __attribute__((warn_unused_result));
cudaError_t kernel_handle(const void *kernel, CUkernel *handle_p) __attribute__((warn_unused_result));

/* What a program may call the kernel behind a function that kernel_function() gave. */
cudaError_t kernel_of_function(CUfunction function, void **kernel_p) __attribute__((warn_unused_result));

/* Notes the stub of a kernel that nvcc made: asking for it says its name, once for all, and fails. */
cudaError_t kernel_add_nvcc(const void *stub, const char *name) __attribute__((warn_unused_result));

/* ---- symbol.c ---- */

/* Where a __device__ variable is, known to the driver from here on. */
cudaError_t symbol_find(const void *symbol, void **address_p, size_t *bytes_p) __attribute__((warn_unused_result));

#endif
