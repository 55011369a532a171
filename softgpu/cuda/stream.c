/*
 * stream.c - the driver API's calls on streams, over queue.c. And host functions, which are commands like any other.
 */
#include "driver.h"

#include <stdlib.h>

CUresult
cuStreamCreateWithPriority(CUstream *stream_out, unsigned int flags, int priority)
{
    struct context *context;
    TRY(context_enter(&context));
    REQUIRE(stream_out != NULL && (flags & ~(unsigned)CU_STREAM_NON_BLOCKING) == 0);
    priority = priority > 0 ? 0 : priority < STREAM_PRIORITY_GREATEST ? STREAM_PRIORITY_GREATEST : priority;
    struct stream *stream;
    TRY(stream_create(context, STREAM_CREATED, flags, priority, &stream));
    *stream_out = (CUstream)stream;
    return CUDA_SUCCESS;
}

CUresult
cuStreamCreate(CUstream *stream_out, unsigned int flags)
{
    return cuStreamCreateWithPriority(stream_out, flags, 0);
}

CUresult
cuStreamDestroy_v2(CUstream handle)
{
    REQUIRE_ELSE(handle != NULL && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD,
                 CUDA_ERROR_INVALID_HANDLE);
    struct stream *stream;
    TRY(stream_enter(handle, LEGACY, &stream));
    stream_close(stream);
    return CUDA_SUCCESS;
}

/* ---- waiting and asking ---- */

static CUresult
synchronize(CUstream handle, enum flavour flavour)
{
    struct stream *stream;
    TRY(stream_enter(handle, flavour, &stream));
    TRY(capture_check_stream(stream));
    TRY(stream_drain(stream));
    return (CUresult)atomic_load(&stream->context->failure);
}
BOTH_FLAVOURS(cuStreamSynchronize, _ptsz, (CUstream stream), synchronize(stream, flavour))

static CUresult
query(CUstream handle, enum flavour flavour)
{
    struct stream *stream;
    TRY(stream_enter(handle, flavour, &stream));
    TRY(capture_check_stream(stream));
    return stream_idle(stream);
}
BOTH_FLAVOURS(cuStreamQuery, _ptsz, (CUstream stream), query(stream, flavour))

BOTH_FLAVOURS(cuStreamWaitEvent, _ptsz, (CUstream stream, CUevent event, unsigned int flags),
              event_wait(stream, flavour, event, flags))

/* What the getters below can be asked for. */
enum property { FLAGS, PRIORITY, ID, CONTEXT, DEVICE };

static CUresult
get(CUstream handle, enum flavour flavour, enum property property, void *out)
{
    struct stream *stream;
    TRY(stream_enter(handle, flavour, &stream));
    REQUIRE(out != NULL);
    switch (property) {
    case FLAGS:
        *(unsigned int *)out = stream->flags;
        break;
    case PRIORITY:
        *(int *)out = stream->priority;
        break;
    case ID:
        *(unsigned long long *)out = stream->id;
        break;
    case CONTEXT:
        *(CUcontext *)out = (CUcontext)stream->context;
        break;
    case DEVICE:
        *(CUdevice *)out = stream->context->device;
        break;
    }
    return CUDA_SUCCESS;
}
BOTH_FLAVOURS(cuStreamGetFlags, _ptsz, (CUstream stream, unsigned int *flags), get(stream, flavour, FLAGS, flags))
BOTH_FLAVOURS(cuStreamGetPriority, _ptsz, (CUstream stream, int *priority), get(stream, flavour, PRIORITY, priority))
BOTH_FLAVOURS(cuStreamGetId, _ptsz, (CUstream stream, unsigned long long *id), get(stream, flavour, ID, id))
BOTH_FLAVOURS(cuStreamGetCtx, _ptsz, (CUstream stream, CUcontext *context), get(stream, flavour, CONTEXT, context))
BOTH_FLAVOURS(cuStreamGetDevice, _ptsz, (CUstream stream, CUdevice *device), get(stream, flavour, DEVICE, device))

/* ---- host functions ---- */

struct host_command {
    struct command command;
    CUhostFn function; /* one of the two */
    CUstreamCallback callback;
    CUstream handle;
    void *data;
};

static void
run_host(struct command *command, struct stream *stream)
{
    struct host_command *host = (struct host_command *)command;
    CUresult failure = (CUresult)atomic_load(&stream->context->failure);
    stream_spend(driver.host_function_ns);
    if (host->callback != NULL) {
        host->callback(host->handle, failure, host->data);
    } else if (failure == CUDA_SUCCESS) {
        host->function(host->data);
    }
}

static CUresult
make_host(CUhostFn function, CUstreamCallback callback, void *data, struct host_command **host_p)
{
    REQUIRE(function != NULL || callback != NULL);
    struct host_command *host = command_new(sizeof *host, run_host);
    REQUIRE_ELSE(host != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    host->command.node_type = callback == NULL ? CU_GRAPH_NODE_TYPE_HOST : NODE_NONE;
    host->function = function;
    host->callback = callback;
    host->data = data;
    *host_p = host;
    return CUDA_SUCCESS;
}

CUresult
host_command_new(const CUDA_HOST_NODE_PARAMS *parameters, struct command **command_p)
{
    struct host_command *host;
    REQUIRE(parameters != NULL);
    TRY(make_host(parameters->fn, NULL, parameters->userData, &host));
    *command_p = &host->command;
    return CUDA_SUCCESS;
}

static CUresult
enqueue_host(CUstream handle, enum flavour flavour, CUhostFn function, CUstreamCallback callback, void *data)
{
    struct stream *stream;
    struct host_command *host;
    TRY(stream_enter(handle, flavour, &stream));
    TRY(make_host(function, callback, data, &host));
    host->handle = handle;
    return stream_submit(stream, &host->command, NULL);
}
BOTH_FLAVOURS(cuLaunchHostFunc, _ptsz, (CUstream stream, CUhostFn function, void *data),
              enqueue_host(stream, flavour, function, NULL, data))
BOTH_FLAVOURS(cuStreamAddCallback, _ptsz, (CUstream stream, CUstreamCallback callback, void *data, unsigned int flags),
              flags != 0 ? CUDA_ERROR_INVALID_VALUE : enqueue_host(stream, flavour, NULL, callback, data))
