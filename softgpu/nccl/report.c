/*
 * report.c - what the library says about itself and its errors: names of errors, the last error, stubs.
 */
#include "nccl/comm.h"
#include "nccl/export.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char softgpu_library_name[] = "NCCL";

static pthread_mutex_t last_lock = PTHREAD_MUTEX_INITIALIZER; /* guards last_text */
static char last_text[SEGMENT_TEXT_BYTES + 128];

/* NCCL_DEBUG with anything but VERSION wants warnings. */
static bool
user_wants_warnings(void)
{
    const char *level = getenv("NCCL_DEBUG");
    return level && *level && strcasecmp(level, "VERSION") != 0 && strcasecmp(level, "NONE") != 0;
}

ncclResult_t
nccl_error(ncclResult_t result, const char *format, ...)
{
    char text[sizeof(last_text)];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    pthread_mutex_lock(&last_lock);
    memcpy(last_text, text, sizeof(text));
    pthread_mutex_unlock(&last_lock);
    if (user_wants_warnings())
        softgpu_line("%s", text);
    return result;
}

ncclResult_t
nccl_cuda(CUresult result, const char *name)
{
    if (result == CUDA_SUCCESS)
        return ncclSuccess;
    const char *error = "the lack of a driver";
    const struct softgpu_driver *driver = softgpu_driver();
    if (driver && driver->get_error_name(result, &error) != CUDA_SUCCESS)
        error = "an error that the driver has no name for";
    return nccl_error(ncclUnhandledCudaError, "%s failed with %s", name, error);
}

/* What the generated stubs call. */
int nccl_stub(const char *name, _Atomic bool *said);

int
nccl_stub(const char *name, _Atomic bool *said)
{
    softgpu_line_unsupported(name, said);
    return nccl_error(ncclInvalidUsage, "%s is not supported by the stand-in", name);
}

/* Valid until the calling thread asks again. */
const char *
pncclGetLastError(ncclComm_t comm)
{
    static _Thread_local char text[sizeof(last_text)];
    if (comm && comm->magic == COMM_MAGIC) {
        if (atomic_load(&comm->stage) == COMM_BROKEN) {
            snprintf(text, sizeof(text), "%s", comm->init_error.text);
            return text;
        }
        if (exchange_error(&comm->exchange, text, sizeof(text)) != ncclSuccess)
            return text;
    }
    pthread_mutex_lock(&last_lock);
    memcpy(text, last_text, sizeof(text));
    pthread_mutex_unlock(&last_lock);
    return text;
}
NCCL_EXPORT(ncclGetLastError);

const char *
pncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[ncclNumResults] = {
        [ncclSuccess] = "no error",
        [ncclUnhandledCudaError] = "a call of CUDA failed",
        [ncclSystemError] = "a call of the operating system failed",
        [ncclInternalError] = "internal error",
        [ncclInvalidArgument] = "invalid argument",
        [ncclInvalidUsage] = "invalid usage",
        [ncclRemoteError] = "another rank failed, or its process ended",
        [ncclInProgress] = "in progress",
    };
    return (unsigned)result < ncclNumResults ? texts[result] : "not a result of NCCL";
}
NCCL_EXPORT(ncclGetErrorString);
