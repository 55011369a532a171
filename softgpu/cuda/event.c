/*
 * event.c - events: a record is a command that notes the time; a wait is "after that command of that stream".
 *
 * An event refers to its latest record only. A wait takes the record that is the latest at the time of the call,
 * as CUDA does, so recording again later does not move a wait that was already made.
 */
#include "driver.h"

#include <stdlib.h>
#include <time.h>

/* One record: command `number` of `stream`. Shared by the event and the command. */
struct moment {
    _Atomic unsigned refs;
    struct stream *stream;
    uint64_t number;
    _Atomic int64_t time_ns; /* CLOCK_MONOTONIC when the record was reached */
};

struct event {
    _Atomic uint32_t magic;
    unsigned flags;
    struct context *context;
    pthread_mutex_t lock;  /* guards the two below */
    struct moment *latest; /* NULL: never recorded, or in a captured stream */
    struct mark mark;      /* of a record in a captured stream, if that was the last */
};

struct record_command {
    struct command command;
    struct moment *moment;
};

static void
moment_release(struct moment *moment)
{
    if (moment != NULL && atomic_fetch_sub_explicit(&moment->refs, 1, memory_order_acq_rel) == 1) {
        stream_release(moment->stream);
        free(moment);
    }
}

static CUresult
event_enter(CUevent handle, struct event **event_p)
{
    TRY(driver_enter());
    struct event *event = (struct event *)handle;
    REQUIRE_ELSE(event != NULL && atomic_load_explicit(&event->magic, memory_order_acquire) == MAGIC_EVENT,
                 CUDA_ERROR_INVALID_HANDLE);
    *event_p = event;
    return CUDA_SUCCESS;
}

static struct moment *
latest_moment(struct event *event)
{
    pthread_mutex_lock(&event->lock);
    struct moment *moment = event->latest;
    if (moment != NULL) {
        atomic_fetch_add_explicit(&moment->refs, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&event->lock);
    return moment;
}

/* One of the two, or neither. Takes what `mark` owns. */
static void
set_latest(struct event *event, struct moment *moment, struct mark mark)
{
    pthread_mutex_lock(&event->lock);
    struct moment *old = event->latest;
    struct mark old_mark = event->mark;
    event->latest = moment;
    event->mark = mark;
    pthread_mutex_unlock(&event->lock);
    moment_release(old);
    free(old_mark.nodes);
}

static bool
is_captured(struct event *event)
{
    pthread_mutex_lock(&event->lock);
    bool captured = event->mark.capture_id != 0;
    pthread_mutex_unlock(&event->lock);
    return captured;
}

static const struct mark no_mark;

CUresult
cuEventCreate(CUevent *event_out, unsigned int flags)
{
    struct context *context;
    TRY(context_enter(&context));
    const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    REQUIRE(event_out != NULL && (flags & ~known) == 0);
    if (flags & CU_EVENT_INTERPROCESS) {
        say("cuEventCreate: events shared between processes are not supported");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    struct event *event = object_take(OBJECT_EVENT, sizeof *event);
    REQUIRE_ELSE(event != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    event->flags = flags;
    event->context = context;
    pthread_mutex_init(&event->lock, NULL);
    atomic_store(&event->magic, MAGIC_EVENT);
    *event_out = (CUevent)event;
    return CUDA_SUCCESS;
}

CUresult
cuEventDestroy_v2(CUevent handle)
{
    struct event *event;
    TRY(event_enter(handle, &event));
    atomic_store(&event->magic, 0);
    set_latest(event, NULL, no_mark);
    pthread_mutex_destroy(&event->lock);
    object_give(OBJECT_EVENT, event);
    return CUDA_SUCCESS;
}

static void
run_record(struct command *command, struct stream *stream)
{
    (void)stream;
    struct moment *moment = ((struct record_command *)command)->moment;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    atomic_store_explicit(&moment->time_ns, now.tv_sec * INT64_C(1000000000) + now.tv_nsec, memory_order_relaxed);
    moment_release(moment);
}

/* An event node: in a captured stream it stands for the event itself, in every launch anew. */
static CUresult
add_event_node(struct stream *stream, struct event *event, CUgraphNodeType type)
{
    struct command *command;
    CUresult result = event_node_new((CUevent)event, type, &command);
    return result == CUDA_SUCCESS ? stream_submit(stream, command, NULL) : result;
}

static CUresult
record_captured(struct event *event, struct stream *stream, unsigned flags)
{
    if ((flags & CU_EVENT_RECORD_EXTERNAL) != 0) {
        return add_event_node(stream, event, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    }
    struct mark mark;
    TRY(capture_mark(stream, &mark));
    set_latest(event, NULL, mark);
    return CUDA_SUCCESS;
}

/* With a captured stream or a captured event: the stream joins the event's capture, or there is no capture to
 * join. */
static CUresult
wait_captured(struct stream *stream, struct event *event, unsigned flags)
{
    if ((flags & CU_EVENT_WAIT_EXTERNAL) != 0) {
        return capture_is_on(stream) ? add_event_node(stream, event, CU_GRAPH_NODE_TYPE_WAIT_EVENT)
                                     : CUDA_ERROR_INVALID_VALUE;
    }
    REQUIRE_ELSE(stream != stream->context->legacy, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    pthread_mutex_lock(&event->lock);
    CUresult result = capture_join(stream, &event->mark);
    pthread_mutex_unlock(&event->lock);
    return result;
}

CUresult
event_record(CUevent handle, CUstream stream_handle, enum flavour flavour, unsigned flags)
{
    struct stream *stream;
    TRY(stream_enter(stream_handle, flavour, &stream));
    struct event *event;
    TRY(event_enter(handle, &event));
    REQUIRE((flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL) == 0);
    REQUIRE_ELSE(event->context == stream->context, CUDA_ERROR_INVALID_HANDLE);
    if (capture_is_on(stream)) {
        return record_captured(event, stream, flags);
    }
    struct moment *moment = calloc(1, sizeof *moment);
    struct record_command *record = command_new(sizeof *record, run_record);
    if (moment == NULL || record == NULL) {
        free(moment);
        free(record);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    atomic_store_explicit(&moment->refs, 2, memory_order_relaxed); /* the event's and the command's */
    moment->stream = stream_hold(stream);
    record->moment = moment;
    CUresult result = stream_submit(stream, &record->command, &moment->number);
    if (result != CUDA_SUCCESS) {
        stream_release(stream);
        free(moment);
        return result;
    }
    set_latest(event, moment, no_mark);
    return CUDA_SUCCESS;
}

CUresult
event_wait(CUstream stream_handle, enum flavour flavour, CUevent handle, unsigned flags)
{
    struct stream *stream;
    TRY(stream_enter(stream_handle, flavour, &stream));
    struct event *event;
    TRY(event_enter(handle, &event));
    REQUIRE((flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL) == 0);
    if (capture_is_on(stream) || is_captured(event)) {
        return wait_captured(stream, event, flags);
    }
    struct moment *moment = latest_moment(event);
    if (moment == NULL) {
        return CUDA_SUCCESS;
    }
    /* In its own stream a record comes after us anyway. In the legacy stream even a wait for nothing is a barrier. */
    bool needless = stream != stream->context->legacy &&
                    (moment->stream == stream || stream_reached(moment->stream, moment->number));
    struct command *wait = needless ? NULL : command_new(sizeof *wait, NULL);
    CUresult result = needless || wait != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (wait != NULL) {
        wait->after = (struct wait){stream_hold(moment->stream), moment->number};
        result = stream_submit(stream, wait, NULL);
    }
    moment_release(moment);
    return result;
}

BOTH_FLAVOURS(cuEventRecord, _ptsz, (CUevent event, CUstream stream), event_record(event, stream, flavour, 0))
BOTH_FLAVOURS(cuEventRecordWithFlags, _ptsz, (CUevent event, CUstream stream, unsigned int flags),
              event_record(event, stream, flavour, flags))

CUresult
cuEventQuery(CUevent handle)
{
    struct event *event;
    TRY(event_enter(handle, &event));
    REQUIRE_ELSE(!is_captured(event), CUDA_ERROR_CAPTURED_EVENT);
    TRY(capture_check_unsafe());
    struct moment *moment = latest_moment(event);
    bool reached = moment == NULL || stream_reached(moment->stream, moment->number);
    moment_release(moment);
    REQUIRE_ELSE(reached, CUDA_ERROR_NOT_READY);
    return (CUresult)atomic_load(&event->context->failure);
}

CUresult
cuEventSynchronize(CUevent handle)
{
    struct event *event;
    TRY(event_enter(handle, &event));
    REQUIRE_ELSE(!is_captured(event), CUDA_ERROR_CAPTURED_EVENT);
    struct moment *moment = latest_moment(event);
    if (moment != NULL) {
        stream_wait(moment->stream, moment->number);
    }
    moment_release(moment);
    return (CUresult)atomic_load(&event->context->failure);
}

/* ---- event nodes ---- */

struct event_command {
    struct command command;
    struct event *event;
};

/* All that it does is done by the launch (exec.c). */
static void
run_event_node(struct command *command, struct stream *stream)
{
    (void)command, (void)stream;
}

CUresult
event_node_new(CUevent handle, CUgraphNodeType type, struct command **command_p)
{
    struct event *event;
    TRY(event_enter(handle, &event));
    struct event_command *node = command_new(sizeof *node, run_event_node);
    REQUIRE_ELSE(node != NULL, CUDA_ERROR_OUT_OF_MEMORY);
    node->command.node_type = type;
    node->event = event;
    *command_p = &node->command;
    return CUDA_SUCCESS;
}

CUresult
event_node_wait(struct command *node, struct stream *stream)
{
    struct event *event;
    CUresult result = event_enter((CUevent)((struct event_command *)node)->event, &event);
    struct moment *moment = result == CUDA_SUCCESS ? latest_moment(event) : NULL;
    if (moment == NULL) {
        return result;
    }
    struct command *wait = command_new(sizeof *wait, NULL);
    if (wait == NULL) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    } else {
        wait->after = (struct wait){stream_hold(moment->stream), moment->number};
        result = stream_submit(stream, wait, NULL);
    }
    moment_release(moment);
    return result;
}

struct moment *
event_node_moment(struct stream *stream)
{
    struct moment *moment = calloc(1, sizeof *moment);
    if (moment != NULL) {
        atomic_store_explicit(&moment->refs, 2, memory_order_relaxed); /* the command's and its caller's */
        moment->stream = stream_hold(stream);
    }
    return moment;
}

void
event_node_publish(struct command *node, struct moment *moment, uint64_t number)
{
    struct event *event;
    if (event_enter((CUevent)((struct event_command *)node)->event, &event) != CUDA_SUCCESS) {
        moment_release(moment); /* destroyed in the meantime */
        return;
    }
    moment->number = number;
    set_latest(event, moment, no_mark);
}

void
event_node_reached(struct moment *moment)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    atomic_store_explicit(&moment->time_ns, now.tv_sec * INT64_C(1000000000) + now.tv_nsec, memory_order_relaxed);
}

void
event_node_drop(struct moment *moment)
{
    moment_release(moment);
}

/* The difference of two moments that are over. */
static CUresult
elapsed(struct moment *start, struct moment *end, float *milliseconds)
{
    REQUIRE_ELSE(start != NULL && end != NULL, CUDA_ERROR_INVALID_HANDLE);
    REQUIRE_ELSE(stream_reached(start->stream, start->number) && stream_reached(end->stream, end->number),
                 CUDA_ERROR_NOT_READY);
    *milliseconds = (float)((double)(atomic_load(&end->time_ns) - atomic_load(&start->time_ns)) * 1e-6);
    return CUDA_SUCCESS;
}

/* The two versions differ in what they say of unrecorded events on some drivers; here both return INVALID_HANDLE. */
CUresult
cuEventElapsedTime_v2(float *milliseconds, CUevent start_handle, CUevent end_handle)
{
    struct event *start, *end;
    TRY(event_enter(start_handle, &start));
    TRY(event_enter(end_handle, &end));
    REQUIRE(milliseconds != NULL);
    if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    REQUIRE_ELSE(!is_captured(start) && !is_captured(end), CUDA_ERROR_CAPTURED_EVENT);
    struct moment *first = latest_moment(start), *last = latest_moment(end);
    CUresult result = elapsed(first, last, milliseconds);
    moment_release(first);
    moment_release(last);
    return result;
}

CUresult
cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
    return cuEventElapsedTime_v2(milliseconds, start, end);
}
