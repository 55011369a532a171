/*
 * stream.c - the driver API's calls on streams, over queue.c. And host functions, which are commands like any other.
 */
#include "driver.h"

#include <stdlib.h>

CUresult
cuStreamCreateWithPriority(CUstream *stream_out, unsigned int flags, int priority)
{
    struct context *context;
    CUresult result = context_enter(&context);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (stream_out == NULL || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    priority = priority > 0 ? 0 : priority < STREAM_PRIORITY_GREATEST ? STREAM_PRIORITY_GREATEST : priority;
    struct stream *stream;
    result = stream_create(context, STREAM_CREATED, flags, priority, &stream);
    if (result == CUDA_SUCCESS) {
        *stream_out = (CUstream)stream;
    }
    return result;
}

CUresult
cuStreamCreate(CUstream *stream_out, unsigned int flags)
{
    return cuStreamCreateWithPriority(stream_out, flags, 0);
}

CUresult
cuStreamDestroy_v2(CUstream handle)
{
    if (handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    struct stream *stream;
    CUresult result = stream_enter(handle, LEGACY, &stream);
    if (result == CUDA_SUCCESS) {
        stream_close(stream);
    }
    return result;
}

/* ---- waiting and asking ---- */

static CUresult
synchronize(CUstream handle, enum flavour flavour)
{
    struct stream *stream;
    CUresult result = stream_enter(handle, flavour, &stream);
    if (result == CUDA_SUCCESS) {
        result = stream_drain(stream);
    }
    return result == CUDA_SUCCESS ? (CUresult)atomic_load(&stream->context->failure) : result;
}
BOTH_FLAVOURS(cuStreamSynchronize, _ptsz, (CUstream stream), synchronize(stream, flavour))

static CUresult
query(CUstream handle, enum flavour flavour)
{
    struct stream *stream;
    CUresult result = stream_enter(handle, flavour, &stream);
    return result == CUDA_SUCCESS ? stream_idle(stream) : result;
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
    CUresult result = stream_enter(handle, flavour, &stream);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (out == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
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

/* ---- stream capture: there is none, and these say so in the way that CUDA does ---- */

static CUresult
not_capturing(CUstream handle, enum flavour flavour, CUstreamCaptureStatus *status, cuuint64_t *id)
{
    struct stream *stream;
    CUresult result = stream_enter(handle, flavour, &stream);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (status == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (id != NULL) {
        *id = 0;
    }
    return CUDA_SUCCESS;
}
BOTH_FLAVOURS(cuStreamIsCapturing, _ptsz, (CUstream stream, CUstreamCaptureStatus *status),
              not_capturing(stream, flavour, status, NULL))
BOTH_FLAVOURS(cuStreamGetCaptureInfo, _ptsz, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id),
              not_capturing(stream, flavour, status, id))

static CUresult
no_capture_info(CUstream handle, enum flavour flavour, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                const CUgraphNode **dependencies, const CUgraphEdgeData **edges, size_t *count)
{
    CUresult result = not_capturing(handle, flavour, status, id);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (graph != NULL) {
        *graph = NULL;
    }
    if (dependencies != NULL) {
        *dependencies = NULL;
    }
    if (edges != NULL) {
        *edges = NULL;
    }
    if (count != NULL) {
        *count = 0;
    }
    return CUDA_SUCCESS;
}
BOTH_FLAVOURS(cuStreamGetCaptureInfo_v2, _ptsz,
              (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
               const CUgraphNode **dependencies, size_t *count),
              no_capture_info(stream, flavour, status, id, graph, dependencies, NULL, count))
BOTH_FLAVOURS(cuStreamGetCaptureInfo_v3, _ptsz,
              (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
               const CUgraphNode **dependencies, const CUgraphEdgeData **edges, size_t *count),
              no_capture_info(stream, flavour, status, id, graph, dependencies, edges, count))

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
    if (host->callback != NULL) {
        host->callback(host->handle, failure, host->data);
    } else if (failure == CUDA_SUCCESS) {
        host->function(host->data);
    }
}

static CUresult
enqueue_host(CUstream handle, enum flavour flavour, CUhostFn function, CUstreamCallback callback, void *data)
{
    struct stream *stream;
    CUresult result = stream_enter(handle, flavour, &stream);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (function == NULL && callback == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct host_command *host = command_new(sizeof *host, run_host);
    if (host == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    host->function = function;
    host->callback = callback;
    host->handle = handle;
    host->data = data;
    return stream_submit(stream, &host->command, NULL);
}
BOTH_FLAVOURS(cuLaunchHostFunc, _ptsz, (CUstream stream, CUhostFn function, void *data),
              enqueue_host(stream, flavour, function, NULL, data))
BOTH_FLAVOURS(cuStreamAddCallback, _ptsz, (CUstream stream, CUstreamCallback callback, void *data, unsigned int flags),
              flags != 0 ? CUDA_ERROR_INVALID_VALUE : enqueue_host(stream, flavour, NULL, callback, data))
