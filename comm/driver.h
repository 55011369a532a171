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

/* X(function, version): as cuGetProcAddress takes them, plain stream flavour. All are there since CUDA 12.4. */
#define DRIVER_FUNCTIONS(X)                     \
    X(cuCtxGetCurrent, 4000)                    \
    X(cuCtxSetCurrent, 4000)                    \
    X(cuCtxSynchronize, 2000)                   \
    X(cuCtxGetStreamPriorityRange, 5050)        \
    X(cuEventCreate, 2000)                      \
    X(cuEventDestroy, 4000)                     \
    X(cuEventElapsedTime, 2000)                 \
    X(cuEventQuery, 2000)                       \
    X(cuEventRecord, 2000)                      \
    X(cuEventSynchronize, 2000)                 \
    X(cuGetErrorName, 6000)                     \
    X(cuLaunchHostFunc, 10000)                  \
    X(cuLaunchKernel, 4000)                     \
    X(cuMemAlloc, 3020)                         \
    X(cuMemFree, 3020)                          \
    X(cuMemHostAlloc, 2020)                     \
    X(cuMemFreeHost, 2000)                      \
    X(cuMemcpyDtoDAsync, 3020)                  \
    X(cuMemcpyDtoHAsync, 3020)                  \
    X(cuMemcpyHtoDAsync, 3020)                  \
    X(cuMemsetD8Async, 3020)                    \
    X(cuMemsetD32Async, 3020)                   \
    X(cuModuleGetFunction, 2000)                \
    X(cuModuleLoadData, 2000)                   \
    X(cuPointerGetAttributes, 7000)             \
    X(cuStreamCreateWithPriority, 5050)         \
    X(cuStreamIsCapturing, 10000)               \
    X(cuStreamSynchronize, 2000)                \
    X(cuStreamWaitEvent, 3020)                  \
    X(cuThreadExchangeStreamCaptureMode, 10010) \
    X(cuCtxGetDevice, 2000)                     \
    X(cuDeviceGetAttribute, 2000)               \
    X(cuDriverGetVersion, 2020)                 \
    X(cuDeviceGetPCIBusId, 4010)                \
    X(cuDeviceGetUuid, 11040)                   \
    X(cuDeviceGetName, 2000)                    \
    X(cuDevicePrimaryCtxGetState, 7000)         \
    X(cuDevicePrimaryCtxRelease, 11000)         \
    X(cuDevicePrimaryCtxRetain, 7000)           \
    X(cuFuncGetModule, 11000)                   \
    X(cuFuncGetName, 12030)                     \
    X(cuFuncLoad, 12040)                        \
    X(cuGraphGetNodes, 10000)                   \
    X(cuStreamGetCaptureInfo, 12030)            \
    X(cuStreamGetCtx, 9020)                     \
    X(cuStreamUpdateCaptureDependencies, 12030) \
    X(cuKernelGetFunction, 12000)               \
    X(cuKernelGetName, 12030)                   \
    X(cuFuncGetParamInfo, 12040)                \
    X(cuKernelGetParamInfo, 12040)              \
    X(cuLibraryGetKernelCount, 12040)           \
    X(cuMemGetInfo, 3020)                       \
    X(cuMemHostRegister, 6050)                  \
    X(cuMemHostUnregister, 4000)                \
    X(cuModuleGetGlobal, 3020)                  \
    X(cuTensorMapEncodeTiled, 12000)

struct driver {
#define DRIVER_MEMBER(function, version) __typeof__(&(function)) function##_p;
    DRIVER_FUNCTIONS(DRIVER_MEMBER)
#undef DRIVER_MEMBER
};

/* How a driver function is found; NULL if it is not there. */
typedef void *(*driver_lookup_fn)(const char *name, int version);

/* Fills the table. False, with the first missing function in `error`, if the driver is too old. */
bool driver_fill(struct driver *driver, driver_lookup_fn lookup, struct comm_error *error) MUST_USE;

/*
 * Says "WHAT: the driver's name for the result", which is a failure, or that a kernel has failed before. Always false.
 * Want of memory is this rank's own; what else the device reports may be what another's end has done to it.
 */
bool driver_fail(const struct driver *driver, CUresult result, const char *what, struct comm_error *error);

/*
 * Whether `result` says that a kernel has failed (an illegal address, a trap, ...), or the device (a memory error that
 * cannot be corrected, NVLink, ...). The driver reports this at the next call in the context, by any library, and at
 * each call after it: the reporting call is not the cause.
 */
bool driver_result_is_fault(CUresult result);

/* Whether it is the device that has failed, by no fault of a kernel. */
bool driver_result_is_of_hardware(CUresult result);

/* What such a result means, in one sentence. `what`: the call. */
void driver_describe_fault(const struct driver *driver, CUresult result, const char *what, char *text, size_t bytes);

/* What the user can try after a call that has failed with any other result: "; ...", or "". */
const char *driver_result_advice(CUresult result);

/* The driver's name for a result, such as CUDA_ERROR_OUT_OF_MEMORY; static storage. */
const char *driver_result_name(const struct driver *driver, CUresult result);

#endif
