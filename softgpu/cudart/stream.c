/*
 * stream.c - streams, events and host functions: the driver's, one for one.
 */
#include "runtime.h"

ONE_FLAVOUR(cudaStreamCreate, (cudaStream_t * stream), WITH_CONTEXT(driver.cuStreamCreate(stream, cudaStreamDefault)))
ONE_FLAVOUR(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned int flags),
            WITH_CONTEXT(driver.cuStreamCreate(stream, flags)))
ONE_FLAVOUR(cudaStreamCreateWithPriority, (cudaStream_t * stream, unsigned int flags, int priority),
            WITH_CONTEXT(driver.cuStreamCreateWithPriority(stream, flags, priority)))
ONE_FLAVOUR(cudaStreamDestroy, (cudaStream_t stream), WITH_CONTEXT(driver.cuStreamDestroy_v2(stream)))

BOTH_FLAVOURS(cudaStreamSynchronize, _ptsz, (cudaStream_t stream),
              WITH_CONTEXT(STREAM_CALL(cuStreamSynchronize)(stream)))
BOTH_FLAVOURS(cudaStreamQuery, _ptsz, (cudaStream_t stream), WITH_CONTEXT(STREAM_CALL(cuStreamQuery)(stream)))
BOTH_FLAVOURS(cudaStreamWaitEvent, _ptsz, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
              WITH_CONTEXT(STREAM_CALL(cuStreamWaitEvent)(stream, event, flags)))
BOTH_FLAVOURS(cudaStreamGetFlags, _ptsz, (cudaStream_t stream, unsigned int *flags),
              WITH_CONTEXT(STREAM_CALL(cuStreamGetFlags)(stream, flags)))
BOTH_FLAVOURS(cudaStreamGetPriority, _ptsz, (cudaStream_t stream, int *priority),
              WITH_CONTEXT(STREAM_CALL(cuStreamGetPriority)(stream, priority)))
BOTH_FLAVOURS(cudaStreamGetId, _ptsz, (cudaStream_t stream, unsigned long long *id),
              WITH_CONTEXT(STREAM_CALL(cuStreamGetId)(stream, id)))
BOTH_FLAVOURS(cudaStreamGetDevice, _ptsz, (cudaStream_t stream, int *device),
              WITH_CONTEXT(STREAM_CALL(cuStreamGetDevice)(stream, device)))
BOTH_FLAVOURS(cudaStreamAttachMemAsync, _ptsz, (cudaStream_t stream, void *pointer, size_t bytes, unsigned int flags),
              WITH_CONTEXT(STREAM_CALL(cuStreamAttachMemAsync)(stream, (CUdeviceptr)pointer, bytes, flags)))
BOTH_FLAVOURS(cudaStreamIsCapturing, _ptsz, (cudaStream_t stream, enum cudaStreamCaptureStatus *status),
              WITH_CONTEXT(STREAM_CALL(cuStreamIsCapturing)(stream, (CUstreamCaptureStatus *)status)))
BOTH_FLAVOURS(cudaStreamGetCaptureInfo, _ptsz,
              (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph,
               const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges, size_t *count),
              WITH_CONTEXT(STREAM_CALL(cuStreamGetCaptureInfo_v3)(stream, (CUstreamCaptureStatus *)status,
                                                                  (cuuint64_t *)id, graph, dependencies,
                                                                  (const CUgraphEdgeData **)edges, count)))

ONE_FLAVOUR(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode * mode),
            WITH_CONTEXT(driver.cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode)))

/* ---- host functions ---- */

BOTH_FLAVOURS(cudaLaunchHostFunc, _ptsz, (cudaStream_t stream, cudaHostFn_t function, void *data),
              WITH_CONTEXT(STREAM_CALL(cuLaunchHostFunc)(stream, function, data)))

/* The two kinds of callback differ only in the type of the status, whose values are the same. */
BOTH_FLAVOURS(cudaStreamAddCallback, _ptsz,
              (cudaStream_t stream, cudaStreamCallback_t callback, void *data, unsigned int flags),
              WITH_CONTEXT(STREAM_CALL(cuStreamAddCallback)(stream, (CUstreamCallback)callback, data, flags)))

/* ---- events ---- */

ONE_FLAVOUR(cudaEventCreate, (cudaEvent_t * event), WITH_CONTEXT(driver.cuEventCreate(event, cudaEventDefault)))
ONE_FLAVOUR(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned int flags),
            WITH_CONTEXT(driver.cuEventCreate(event, flags)))
ONE_FLAVOUR(cudaEventDestroy, (cudaEvent_t event), WITH_CONTEXT(driver.cuEventDestroy_v2(event)))

BOTH_FLAVOURS(cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream),
              WITH_CONTEXT(STREAM_CALL(cuEventRecord)(event, stream)))
BOTH_FLAVOURS(cudaEventRecordWithFlags, _ptsz, (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
              WITH_CONTEXT(STREAM_CALL(cuEventRecordWithFlags)(event, stream, flags)))

ONE_FLAVOUR(cudaEventQuery, (cudaEvent_t event), WITH_CONTEXT(driver.cuEventQuery(event)))
ONE_FLAVOUR(cudaEventSynchronize, (cudaEvent_t event), WITH_CONTEXT(driver.cuEventSynchronize(event)))
ONE_FLAVOUR(cudaEventElapsedTime, (float *milliseconds, cudaEvent_t start, cudaEvent_t end),
            WITH_CONTEXT(driver.cuEventElapsedTime_v2(milliseconds, start, end)))
