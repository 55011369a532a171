/*
 * capture.c - stream capture: work that is submitted to a captured stream becomes nodes of a graph instead of running.
 *
 * Which calls are legal meanwhile, and what an illegal one does (it fails, and the capture with it), follows the CUDA
 * C++ Programming Guide, "Creating a Graph Using Stream Capture", and the manual of cuStreamBeginCapture and
 * cuThreadExchangeStreamCaptureMode.
 *
 * Called by: queue.c, for each command; capture_api.c, by programs; event.c, where events carry a capture to another
 * stream.
 */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

struct capture {
    struct capture *next;
    uint64_t id;
    CUstreamCaptureMode mode;
    pthread_t owner; /* the thread that began it */
    struct stream *origin;
    struct stream *streams; /* all that take part, the origin too; each holds a reference */
    struct graph *graph;
    bool in_given; /* the graph was the program's before */
    bool invalid;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all captures, and what streams know of them */
static struct capture *captures;
static _Atomic unsigned capture_count;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

bool
capture_is_on(struct stream *stream)
{
    return atomic_load_explicit(&stream->capture, memory_order_acquire) != NULL;
}

/* ---- which streams take part: with the lock held ---- */

static void
enter(struct capture *capture, struct stream *stream)
{
    stream->capture_next = capture->streams;
    capture->streams = stream_hold(stream);
    if (stream->blocking) {
        atomic_fetch_add(&stream->context->blocking_captures, 1);
    }
    atomic_store_explicit(&stream->capture, capture, memory_order_release);
}

static void
leave(struct stream *stream)
{
    atomic_store_explicit(&stream->capture, NULL, memory_order_release);
    if (stream->blocking) {
        atomic_fetch_sub(&stream->context->blocking_captures, 1);
    }
    free(stream->tail);
    stream->tail = NULL;
    stream->tail_count = 0;
    stream_release(stream);
}

/* ---- what is captured ---- */

static CUresult
take(struct stream *stream, struct command *command)
{
    struct capture *capture = atomic_load(&stream->capture);
    if (capture == NULL || capture->invalid) {
        command_drop(command);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (command->node_type == NODE_NONE) {
        capture->invalid = true;
        command_drop(command);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    struct node *node;
    TRY(graph_add(capture->graph, (CUgraphNodeType)command->node_type, command, stream->tail, stream->tail_count,
                  &node));
    return graph_tail_set(stream, &node, 1);
}

CUresult
capture_take(struct stream *stream, struct command *command)
{
    pthread_mutex_lock(&lock);
    CUresult result = take(stream, command);
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult
capture_mark(struct stream *stream, struct mark *mark)
{
    CUresult result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    pthread_mutex_lock(&lock);
    struct capture *capture = atomic_load(&stream->capture);
    if (capture != NULL && !capture->invalid) {
        struct node **nodes = malloc((stream->tail_count + 1) * sizeof *nodes);
        result = nodes == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
        if (nodes != NULL) {
            if (stream->tail_count > 0) {
                memcpy(nodes, stream->tail, stream->tail_count * sizeof *nodes);
            }
            *mark = (struct mark){capture->id, nodes, stream->tail_count};
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static struct capture *
find_capture(uint64_t id)
{
    struct capture *capture = captures;
    while (capture != NULL && capture->id != id) {
        capture = capture->next;
    }
    return capture;
}

static CUresult
join(struct stream *stream, const struct mark *mark)
{
    struct capture *own = atomic_load(&stream->capture), *other = find_capture(mark->capture_id);
    REQUIRE_ELSE(own == NULL || !own->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    if (other == NULL) {
        REQUIRE_ELSE(own != NULL, CUDA_ERROR_CAPTURED_EVENT); /* its capture is over */
        own->invalid = true;                                  /* an event of the world outside */
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    REQUIRE_ELSE(!other->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    if (own != NULL && own != other) {
        own->invalid = other->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    TRY(graph_tail_extend(stream, mark->nodes, mark->node_count));
    if (own == NULL) {
        enter(other, stream);
    }
    return CUDA_SUCCESS;
}

CUresult
capture_join(struct stream *stream, const struct mark *mark)
{
    pthread_mutex_lock(&lock);
    CUresult result = join(stream, mark);
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- what is not allowed ---- */

void
capture_invalidate(struct stream *stream)
{
    if (!capture_is_on(stream)) {
        return;
    }
    pthread_mutex_lock(&lock);
    struct capture *capture = atomic_load(&stream->capture);
    if (capture != NULL) {
        capture->invalid = true;
    }
    pthread_mutex_unlock(&lock);
}

/* Ends the captures that have a stream in this context, if asked only those with a blocking one. True: some have. */
static bool
invalidate_context(struct context *context, bool only_blocking)
{
    bool some = false;
    pthread_mutex_lock(&lock);
    for (struct capture *capture = captures; capture != NULL; capture = capture->next) {
        for (struct stream *stream = capture->streams; stream != NULL; stream = stream->capture_next) {
            if (stream->context == context && (!only_blocking || stream->blocking)) {
                capture->invalid = some = true;
            }
        }
    }
    pthread_mutex_unlock(&lock);
    return some;
}

CUresult
capture_check_stream(struct stream *stream)
{
    if (capture_is_on(stream)) {
        capture_invalidate(stream);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    bool implicit = stream == stream->context->legacy && atomic_load(&stream->context->blocking_captures) > 0;
    return implicit && invalidate_context(stream->context, true) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

CUresult
capture_check_context(struct context *context)
{
    bool some = atomic_load(&capture_count) > 0 && invalidate_context(context, false);
    return some ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult
capture_check_unsafe(void)
{
    CUresult result = CUDA_SUCCESS;
    if (atomic_load(&capture_count) == 0 || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) {
        return CUDA_SUCCESS;
    }
    pthread_mutex_lock(&lock);
    for (struct capture *capture = captures; capture != NULL; capture = capture->next) {
        bool own = pthread_equal(capture->owner, pthread_self()) != 0;
        bool forbids =
            own ? capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED
                : capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (forbids) {
            capture->invalid = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult
cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    REQUIRE(mode != NULL && (unsigned)*mode <= CU_STREAM_CAPTURE_MODE_RELAXED);
    CUstreamCaptureMode old = thread_mode;
    thread_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}

/* ---- begin and end ---- */

/* With the lock held. */
static CUresult
begin(struct stream *stream, struct graph *graph, CUstreamCaptureMode mode, bool in_given)
{
    static uint64_t last_id;
    struct capture *capture = calloc(1, sizeof *capture);
    REQUIRE_ELSE(capture != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    *capture = (struct capture){.next = captures,
                                .id = ++last_id,
                                .mode = mode,
                                .owner = pthread_self(),
                                .origin = stream,
                                .graph = graph,
                                .in_given = in_given};
    captures = capture;
    atomic_store(&graph->capturing, true);
    atomic_fetch_add(&capture_count, 1);
    enter(capture, stream);
    return CUDA_SUCCESS;
}

static CUresult
begin_in_new(struct stream *stream, CUstreamCaptureMode mode)
{
    REQUIRE_ELSE(atomic_load(&stream->capture) == NULL, CUDA_ERROR_ILLEGAL_STATE);
    struct graph *graph = graph_new();
    REQUIRE_ELSE(graph != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    CUresult result = begin(stream, graph, mode, false);
    if (result != CUDA_SUCCESS) {
        graph_delete(graph);
    }
    return result;
}

static CUresult
begin_in_given(struct stream *stream, struct graph *graph, struct node *const *before, size_t count,
               CUstreamCaptureMode mode)
{
    REQUIRE_ELSE(atomic_load(&stream->capture) == NULL, CUDA_ERROR_ILLEGAL_STATE);
    REQUIRE(!atomic_load(&graph->capturing) && graph_has(graph, before, count));
    TRY(graph_tail_set(stream, before, count));
    CUresult result = begin(stream, graph, mode, true);
    if (result != CUDA_SUCCESS) {
        free(stream->tail);
        stream->tail = NULL;
        stream->tail_count = 0;
    }
    return result;
}

CUresult
capture_begin(struct stream *stream, CUstreamCaptureMode mode)
{
    pthread_mutex_lock(&lock);
    CUresult result = begin_in_new(stream, mode);
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult
capture_begin_in(struct stream *stream, struct graph *graph, struct node *const *before, size_t count,
                 CUstreamCaptureMode mode)
{
    pthread_mutex_lock(&lock);
    CUresult result = begin_in_given(stream, graph, before, count, mode);
    pthread_mutex_unlock(&lock);
    return result;
}

/* Marks the nodes that the marked ones come after, in one pass. True: there was one that was not marked. */
static bool
mark_before(const struct graph *graph)
{
    bool some = false;
    for (size_t i = graph->count; i-- > 0;) {
        const struct node *node = graph->nodes[i];
        for (size_t k = 0; node->seen && k < node->before_count; ++k) {
            some = some || !node->before[k]->seen;
            node->before[k]->seen = true;
        }
    }
    return some;
}

/* Everything that a stream of the capture does must come before where the origin has got to. */
static bool
all_joined(const struct capture *capture)
{
    const struct graph *graph = capture->graph;
    for (size_t i = 0; i < graph->count; ++i) {
        graph->nodes[i]->seen = false;
    }
    for (size_t i = 0; i < capture->origin->tail_count; ++i) {
        capture->origin->tail[i]->seen = true;
    }
    bool some = true;
    while (some) { /* captured nodes come after those with smaller numbers: one pass marks all */
        some = mark_before(graph);
    }
    for (const struct stream *stream = capture->streams; stream != NULL; stream = stream->capture_next) {
        for (size_t i = 0; i < stream->tail_count; ++i) {
            if (!stream->tail[i]->seen) {
                return false;
            }
        }
    }
    return true;
}

/* The capture is over, however it ended; what is left of it is its graph. */
static void
finish(struct capture *capture)
{
    struct capture **link = &captures;
    while (*link != capture) {
        link = &(*link)->next;
    }
    *link = capture->next;
    atomic_store(&capture->graph->capturing, false);
    atomic_fetch_sub(&capture_count, 1);
    while (capture->streams != NULL) {
        struct stream *stream = capture->streams;
        capture->streams = stream->capture_next;
        leave(stream);
    }
    free(capture);
}

static CUresult
end(struct stream *stream, struct graph **graph_p)
{
    struct capture *capture = atomic_load(&stream->capture);
    REQUIRE_ELSE(capture != NULL, CUDA_ERROR_ILLEGAL_STATE);
    if (capture->origin != stream) {
        capture->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    REQUIRE_ELSE(capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED || pthread_equal(capture->owner, pthread_self()) != 0,
                 CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    CUresult result = capture->invalid       ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                      : !all_joined(capture) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                             : CUDA_SUCCESS;
    struct graph *graph = capture->graph;
    bool is_wanted = result == CUDA_SUCCESS || capture->in_given;
    finish(capture);
    if (result == CUDA_SUCCESS) {
        *graph_p = graph;
    }
    if (!is_wanted) {
        graph_delete(graph);
    }
    return result;
}

CUresult
capture_end(struct stream *stream, struct graph **graph_p)
{
    pthread_mutex_lock(&lock);
    CUresult result = end(stream, graph_p);
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- asking, and changing what comes next ---- */

static void
fill_info(struct stream *stream, const struct capture_info *info)
{
    struct capture *capture = atomic_load(&stream->capture);
    *info->status = capture == NULL    ? CU_STREAM_CAPTURE_STATUS_NONE
                    : capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    bool active = capture != NULL && !capture->invalid;
    if (info->id != NULL) {
        *info->id = active ? capture->id : 0;
    }
    if (info->graph != NULL) {
        *info->graph = active ? (CUgraph)capture->graph : NULL;
    }
    if (info->nodes != NULL) {
        *info->nodes = active ? (const CUgraphNode *)stream->tail : NULL;
    }
    if (info->edges != NULL) {
        *info->edges = NULL; /* all edges are plain ones */
    }
    if (info->count != NULL) {
        *info->count = active ? stream->tail_count : 0;
    }
}

void
capture_look(struct stream *stream, const struct capture_info *info)
{
    pthread_mutex_lock(&lock);
    fill_info(stream, info);
    pthread_mutex_unlock(&lock);
}

static CUresult
update(struct stream *stream, struct node *const *nodes, size_t count, unsigned flags)
{
    struct capture *capture = atomic_load(&stream->capture);
    REQUIRE_ELSE(capture != NULL, CUDA_ERROR_ILLEGAL_STATE);
    REQUIRE_ELSE(!capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    REQUIRE(graph_has(capture->graph, nodes, count));
    return flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES ? graph_tail_set(stream, nodes, count)
                                                       : graph_tail_extend(stream, nodes, count);
}

CUresult
capture_update(struct stream *stream, struct node *const *nodes, size_t count, unsigned flags)
{
    pthread_mutex_lock(&lock);
    CUresult result = update(stream, nodes, count, flags);
    pthread_mutex_unlock(&lock);
    return result;
}
