/*
 * driver.h - the CUDA driver's functions that comm/ and the engine use, as a table filled at run time.
 *
 * Nothing here links a CUDA library: the pointers are the driver's own, handed over by the shim, so that our calls
 * never meet our own hooks.
 */
#ifndef DDPRUN_COMM_DRIVER_H
#define DDPRUN_COMM_DRIVER_H

#include "comm/error.h"

#include <cuda.h>
#include <stdbool.h>

#if CUDA_VERSION < 13000 /* its plain names are older than what is asked for below */
#undef cuStreamGetCaptureInfo
#define cuStreamGetCaptureInfo            cuStreamGetCaptureInfo_v3
#define cuStreamUpdateCaptureDependencies cuStreamUpdateCaptureDependencies_v2
#endif

/* REQUIRED/OPTIONAL(function, version): as cuGetProcAddress takes them, plain stream flavour. */
#define DRIVER_FUNCTIONS(REQUIRED, OPTIONAL)           \
    REQUIRED(cuCtxGetCurrent, 4000)                    \
    REQUIRED(cuCtxSetCurrent, 4000)                    \
    REQUIRED(cuCtxSynchronize, 2000)                   \
    REQUIRED(cuCtxGetStreamPriorityRange, 5050)        \
    REQUIRED(cuEventCreate, 2000)                      \
    REQUIRED(cuEventDestroy, 4000)                     \
    REQUIRED(cuEventElapsedTime, 2000)                 \
    REQUIRED(cuEventQuery, 2000)                       \
    REQUIRED(cuEventRecord, 2000)                      \
    REQUIRED(cuEventSynchronize, 2000)                 \
    REQUIRED(cuGetErrorName, 6000)                     \
    REQUIRED(cuLaunchHostFunc, 10000)                  \
    REQUIRED(cuLaunchKernel, 4000)                     \
    REQUIRED(cuMemAlloc, 3020)                         \
    REQUIRED(cuMemFree, 3020)                          \
    REQUIRED(cuMemHostAlloc, 2020)                     \
    REQUIRED(cuMemFreeHost, 2000)                      \
    REQUIRED(cuMemcpyDtoDAsync, 3020)                  \
    REQUIRED(cuMemcpyDtoHAsync, 3020)                  \
    REQUIRED(cuMemcpyHtoDAsync, 3020)                  \
    REQUIRED(cuMemsetD8Async, 3020)                    \
    REQUIRED(cuMemsetD32Async, 3020)                   \
    REQUIRED(cuModuleGetFunction, 2000)                \
    REQUIRED(cuModuleLoadData, 2000)                   \
    REQUIRED(cuPointerGetAttributes, 7000)             \
    REQUIRED(cuStreamCreateWithPriority, 5050)         \
    REQUIRED(cuStreamIsCapturing, 10000)               \
    REQUIRED(cuStreamSynchronize, 2000)                \
    REQUIRED(cuStreamWaitEvent, 3020)                  \
    REQUIRED(cuThreadExchangeStreamCaptureMode, 10010) \
    OPTIONAL(cuCtxGetDevice, 2000)                     \
    OPTIONAL(cuDeviceGetName, 2000)                    \
    OPTIONAL(cuDevicePrimaryCtxGetState, 7000)         \
    OPTIONAL(cuDevicePrimaryCtxRelease, 11000)         \
    OPTIONAL(cuDevicePrimaryCtxRetain, 7000)           \
    OPTIONAL(cuDriverGetVersion, 2020)                 \
    OPTIONAL(cuFuncGetModule, 11000)                   \
    OPTIONAL(cuFuncGetName, 12030)                     \
    OPTIONAL(cuGraphGetNodes, 10000)                   \
    OPTIONAL(cuStreamGetCaptureInfo, 12030)            \
    OPTIONAL(cuStreamGetCtx, 9020)                     \
    OPTIONAL(cuStreamUpdateCaptureDependencies, 12030) \
    OPTIONAL(cuKernelGetFunction, 12000)               \
    OPTIONAL(cuKernelGetName, 12030)                   \
    OPTIONAL(cuFuncGetParamInfo, 12040)                \
    OPTIONAL(cuKernelGetParamInfo, 12040)              \
    OPTIONAL(cuLibraryGetKernelCount, 12040)           \
    OPTIONAL(cuMemGetInfo, 3020)                       \
    OPTIONAL(cuMemHostRegister, 6050)                  \
    OPTIONAL(cuMemHostUnregister, 4000)                \
    OPTIONAL(cuModuleGetGlobal, 3020)                  \
    OPTIONAL(cuTensorMapEncodeTiled, 12000)

struct driver {
#define DRIVER_MEMBER(function, version) __typeof__(&(function)) function##_p;
    DRIVER_FUNCTIONS(DRIVER_MEMBER, DRIVER_MEMBER)
#undef DRIVER_MEMBER
};

/* How a driver function is found; NULL if it is not there. */
typedef void *(*driver_lookup_fn)(const char *name, int version);

/* Fills the table. False, with the first missing function in `error`, if a required one is missing. */
bool driver_fill(struct driver *driver, driver_lookup_fn lookup, struct comm_error *error) MUST_USE;

/*
 * Says "WHAT: the driver's name for the result", which is a failure, or that a kernel has failed before. Always false.
 * Want of memory is this rank's own; what else the device reports may be what another's end has done to it.
 */
bool driver_fail(const struct driver *driver, CUresult result, const char *what, struct comm_error *error);

/*
 * Whether `result` says that a kernel has failed (an illegal address, a trap, ...). The driver reports this at the next
 * call in the context, by any library, and at each call after it: the reporting call is not the cause.
 */
bool driver_result_is_fault(CUresult result);

/* What such a result means, in one sentence: a format for the result's name and for what was called. */
#define DRIVER_FAULT_FORMAT                                                                                           \
    "a kernel of the trainer failed with %s; CUDA reports it at a later call, here: %s; compute-sanitizer finds the " \
    "kernel"

/* The driver's name for a result, such as CUDA_ERROR_OUT_OF_MEMORY; static storage. */
const char *driver_result_name(const struct driver *driver, CUresult result);

#endif
