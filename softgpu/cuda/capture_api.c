/*
 * capture_api.c - the driver API's calls on captures, over capture.c.
 */
#include "graph.h"

static CUresult
begin_capture(CUstream handle, enum flavour flavour, CUstreamCaptureMode mode)
{
    struct stream *stream;
    TRY(stream_enter(handle, flavour, &stream));
    REQUIRE((unsigned)mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
    REQUIRE_ELSE(stream != stream->context->legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return capture_begin(stream, mode);
}
BOTH_FLAVOURS(cuStreamBeginCapture, _ptsz, (CUstream stream),
              begin_capture(stream, flavour, CU_STREAM_CAPTURE_MODE_GLOBAL))
BOTH_FLAVOURS(cuStreamBeginCapture_v2, _ptsz, (CUstream stream, CUstreamCaptureMode mode),
              begin_capture(stream, flavour, mode))

static CUresult
begin_capture_in(CUstream handle, enum flavour flavour, CUgraph graph_handle, const CUgraphNode *before,
                 const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode)
{
    struct stream *stream;
    struct graph *graph;
    TRY(stream_enter(handle, flavour, &stream));
    TRY(graph_enter(graph_handle, &graph));
    REQUIRE((count == 0 || before != NULL) && (unsigned)mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
    REQUIRE_ELSE(edges == NULL, CUDA_ERROR_NOT_SUPPORTED);
    REQUIRE_ELSE(stream != stream->context->legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return capture_begin_in(stream, graph, (struct node *const *)before, count, mode);
}
BOTH_FLAVOURS(cuStreamBeginCaptureToGraph, _ptsz,
              (CUstream stream, CUgraph graph, const CUgraphNode *before, const CUgraphEdgeData *edges, size_t count,
               CUstreamCaptureMode mode),
              begin_capture_in(stream, flavour, graph, before, edges, count, mode))

static CUresult
end_capture(CUstream handle, enum flavour flavour, CUgraph *graph_out)
{
    struct stream *stream;
    TRY(stream_enter(handle, flavour, &stream));
    REQUIRE(graph_out != NULL);
    struct graph *graph = NULL;
    CUresult result = capture_end(stream, &graph);
    *graph_out = (CUgraph)graph; /* NULL on failure, as CUDA says */
    return result;
}
BOTH_FLAVOURS(cuStreamEndCapture, _ptsz, (CUstream stream, CUgraph *graph), end_capture(stream, flavour, graph))

static CUresult
get_info(CUstream handle, enum flavour flavour, struct capture_info info)
{
    struct stream *stream;
    TRY(stream_enter(handle, flavour, &stream));
    REQUIRE(info.status != NULL);
    REQUIRE_ELSE(stream != stream->context->legacy || atomic_load(&stream->context->blocking_captures) == 0,
                 CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    capture_look(stream, &info);
    return CUDA_SUCCESS;
}
BOTH_FLAVOURS(cuStreamIsCapturing, _ptsz, (CUstream stream, CUstreamCaptureStatus *status),
              get_info(stream, flavour, (struct capture_info){.status = status}))
BOTH_FLAVOURS(cuStreamGetCaptureInfo, _ptsz, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id),
              get_info(stream, flavour, (struct capture_info){.status = status, .id = id}))
BOTH_FLAVOURS(cuStreamGetCaptureInfo_v2, _ptsz,
              (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
               const CUgraphNode **nodes, size_t *count),
              get_info(stream, flavour, (struct capture_info){status, id, graph, nodes, NULL, count}))
BOTH_FLAVOURS(cuStreamGetCaptureInfo_v3, _ptsz,
              (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
               const CUgraphNode **nodes, const CUgraphEdgeData **edges, size_t *count),
              get_info(stream, flavour, (struct capture_info){status, id, graph, nodes, edges, count}))

static CUresult
update(CUstream handle, enum flavour flavour, struct node *const *nodes, size_t count, unsigned flags)
{
    struct stream *stream;
    TRY(stream_enter(handle, flavour, &stream));
    REQUIRE((count == 0 || nodes != NULL) && flags <= CU_STREAM_SET_CAPTURE_DEPENDENCIES);
    return capture_update(stream, nodes, count, flags);
}
BOTH_FLAVOURS(cuStreamUpdateCaptureDependencies, _ptsz,
              (CUstream stream, CUgraphNode *nodes, size_t count, unsigned int flags),
              update(stream, flavour, (struct node *const *)nodes, count, flags))
BOTH_FLAVOURS(cuStreamUpdateCaptureDependencies_v2, _ptsz,
              (CUstream stream, CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count, unsigned int flags),
              edges != NULL ? CUDA_ERROR_NOT_SUPPORTED
                            : update(stream, flavour, (struct node *const *)nodes, count, flags))
