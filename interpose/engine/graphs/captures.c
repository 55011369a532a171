/*
 * captures.c - streams that are captured: which nodes touch which gradients. graph_step.c has DDP_STEP there.
 *
 * A touch in a capture runs when its graph is launched. So nothing is counted here; what is kept of it is the node on
 * which whatever comes after it must depend, and what graph_registry.c and graph_launch.c will want to know. A capture
 * is known from its begin, by the driver's number for it: one whose begin was not seen may hold anything.
 *
 * Called by the hooks in every thread that enqueues work on captured streams. Never waits, asks or allocates on a
 * captured stream, and never records an event there that the world outside uses.
 */
#include "interpose/engine/graphs/captures.h"

#include <xxhash.h>

#include <unistd.h>

pthread_mutex_t captures_mutex = PTHREAD_MUTEX_INITIALIZER;

static struct capture *captures GUARDED_BY(captures_mutex);

static struct capture_lane lanes[CAPTURE_LANES];
static _Atomic(CUstream) lane_streams[CAPTURE_LANES]; /* of lanes[], for any thread to read */

void
capture_lock(void)
{
    pthread_mutex_lock(&captures_mutex);
}

void
capture_unlock(void)
{
    pthread_mutex_unlock(&captures_mutex);
}

/* ---- which capture is it? ---- */

bool
capture_ask(CUstream stream, struct capture_answer *answer)
{
    *answer = (struct capture_answer){.status = CU_STREAM_CAPTURE_STATUS_NONE};
    const struct driver *driver = &engine_state.driver;
    const CUgraphEdgeData *edges; /* without it, edges with data would be an error; as plain ones they order more */
    CUresult result = driver->cuStreamGetCaptureInfo_p(stream, &answer->status, &answer->id, &answer->graph,
                                                       &answer->nodes, &edges, &answer->node_count);
    if (driver_result_is_fault(result))
        require_cuda(result, "asking whether a stream is captured");
    return result == CUDA_SUCCESS;
}

/* With lock held. */
static struct capture *
find_capture(cuuint64_t id) WITH_CAPTURES
{
    struct capture *capture = captures;
    while (capture != NULL && capture->id != id)
        capture = capture->next;
    return capture;
}

/* A new capture, entered. */
static struct capture *
enter(const struct capture_answer *answer)
{
    struct capture *capture = engine_calloc(1, sizeof(*capture));
    struct recording *recording = recording_new();
    capture->id = answer->id;
    capture->graph = answer->graph;
    capture->recording = recording;
    recording->escapes =
        (struct escape_count){atomic_load(&engine_state.escapes), atomic_load(&engine_state.certain_escapes)};
    engine_lock();
    recording->placements = engine_state.placements;
    capture->place_count = engine_state.tensor_count;
    engine_unlock();
    size_t *last = engine_calloc(capture->place_count + 1, sizeof(*last));
    for (size_t i = 0; i < capture->place_count; ++i)
        last[i] = NO_MARK;
    capture_lock();
    capture->last = last;
    capture->next = captures;
    captures = capture;
    capture_unlock();
    return capture;
}

enum capture_state
capture_find(CUstream stream, struct capture **capture_p)
{
    struct capture_answer answer;
    *capture_p = NULL;
    if (!capture_ask(stream, &answer) || answer.status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
        return CAPTURE_BROKEN;
    if (answer.status == CU_STREAM_CAPTURE_STATUS_NONE)
        return CAPTURE_NONE;
    capture_lock();
    struct capture *capture = find_capture(answer.id);
    capture_unlock();
    if (capture == NULL) {
        capture = enter(&answer);
        capture->unseen = true;
        capture->recording->opaque = true;
    }
    *capture_p = capture;
    return CAPTURE_ACTIVE;
}

bool
capture_own_stream(CUstream stream)
{
    for (size_t i = 0; i < CAPTURE_LANES; ++i) {
        if (atomic_load_explicit(&lane_streams[i], memory_order_relaxed) == stream)
            return true;
    }
    return false;
}

/* ---- touches ---- */

/* With lock held: the capture's entry for a stream, added if need be. */
static struct captured_stream *
stream_of(struct capture *capture, CUstream handle) WITH_CAPTURES
{
    pid_t owner = handle == CU_STREAM_PER_THREAD ? gettid() : 0;
    for (size_t i = 0; i < capture->stream_count; ++i) {
        if (capture->streams[i].handle == handle && capture->streams[i].owner == owner)
            return &capture->streams[i];
    }
    capture->streams =
        engine_grow(capture->streams, capture->stream_count, &capture->stream_capacity, sizeof(*capture->streams));
    struct captured_stream *entry = &capture->streams[capture->stream_count++];
    *entry = (struct captured_stream){.handle = handle, .owner = owner};
    return entry;
}

void
capture_note_waited(struct capture *capture, CUstream stream)
{
    capture_lock();
    stream_of(capture, stream)->waited_for = capture->recording->step_count;
    capture_unlock();
}

void
capture_before_touch(struct capture *capture, CUstream stream)
{
    capture_lock();
    bool waits = stream_of(capture, stream)->waited_for < capture->recording->step_count;
    capture_unlock();
    if (!waits)
        return;
    CUDA("waiting for a captured reduction", cuStreamWaitEvent, stream, capture->lane->reduced, 0);
    capture_note_waited(capture, stream);
}

/* With lock held: keeps nodes; the place of the first. */
static size_t
keep_nodes(struct capture *capture, const CUgraphNode *nodes, size_t count) WITH_CAPTURES
{
    size_t first = capture->node_count;
    for (size_t i = 0; i < count; ++i) {
        capture->nodes =
            engine_grow(capture->nodes, capture->node_count, &capture->node_capacity, sizeof(*capture->nodes));
        capture->nodes[capture->node_count++] = nodes[i];
    }
    return first;
}

/* With lock held: the tensor was touched on the entry's stream, by the nodes that it has last. */
static void
mark(struct capture *capture, size_t place, const struct captured_stream *stream, bool declares) WITH_CAPTURES
{
    if (place >= capture->place_count)
        return; /* annotated since: the recording is stale, and DDP_STEP reports it */
    capture->marks = engine_grow(capture->marks, capture->mark_count, &capture->mark_capacity, sizeof(*capture->marks));
    struct mark *made = &capture->marks[capture->mark_count];
    *made = (struct mark){.place = place,
                          .stream = stream->handle,
                          .owner = stream->owner,
                          .first = stream->first,
                          .count = stream->count,
                          .declares = declares,
                          .previous = capture->last[place]};
    ASSERT(made->previous == NO_MARK || made->previous < capture->mark_count);
    capture->last[place] = capture->mark_count++;
}

/* Of the operation that begins in this thread. */
static __thread struct {
    struct captured_source *items;
    size_t count, capacity;
} sources;

void
capture_source(const void *address, size_t bytes)
{
    sources.items = engine_grow(sources.items, sources.count, &sources.capacity, sizeof(*sources.items));
    sources.items[sources.count++] = (struct captured_source){address, bytes};
}

bool
capture_has_sources(void)
{
    return sources.count > 0;
}

void
capture_drop_sources(void)
{
    sources.count = 0;
}

/* With lock held. */
static void
record_source(struct recording *recording, const struct captured_source *source) WITH_CAPTURES
{
    recording->sources = engine_grow(recording->sources, recording->source_count, &recording->source_capacity,
                                     sizeof(*recording->sources));
    recording->sources[recording->source_count++] = *source;
}

/* With lock held: what may become of nodes and host memory later. */
static void
capture_record(struct capture *capture, const struct captured_touch *touch, const CUgraphNode *nodes,
               size_t node_count) WITH_CAPTURES
{
    struct recording *recording = capture->recording;
    for (size_t i = 0; i < sources.count; ++i)
        record_source(recording, &sources.items[i]);
    recording->opaque = recording->opaque || touch->everything;
    recording->on_buffer = recording->on_buffer || touch->on_buffer;
    if (touch->count == 0 || node_count != 1)
        return;
    recording->nodes =
        engine_grow(recording->nodes, recording->node_count, &recording->node_capacity, sizeof(*recording->nodes));
    recording->nodes[recording->node_count++] =
        (struct captured_node){nodes[0], recording->touched_count, touch->count};
    for (size_t i = 0; i < touch->count; ++i) {
        recording->touched = engine_grow(recording->touched, recording->touched_count, &recording->touched_capacity,
                                         sizeof(*recording->touched));
        recording->touched[recording->touched_count++] = touch->places[i];
    }
}

/* With lock held: an unknown touch counts as a touch of all. */
static void
mark_all(struct capture *capture, const struct captured_stream *stream) WITH_CAPTURES
{
    for (size_t place = 0; place < capture->place_count; ++place)
        mark(capture, place, stream, false);
}

void
capture_touch(struct capture *capture, CUstream stream, const struct captured_touch *touch)
{
    struct capture_answer answer;
    if (!capture_ask(stream, &answer))
        stop_job("the driver does not report the state of a captured stream, after work on gradients there; run the "
                 "trainer without CUDA graphs");
    if (answer.status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return; /* the capture has failed in the meantime: its end will return the error */
    capture_lock();
    struct captured_stream *entry = stream_of(capture, stream);
    entry->first = keep_nodes(capture, answer.nodes, answer.node_count);
    entry->count = answer.node_count;
    entry->on_buffer = entry->on_buffer || touch->on_buffer;
    for (size_t i = 0; i < touch->count && !touch->everything; ++i) {
        const uint64_t words[3] = {capture->recording->call, touch->call, touch->places[i]};
        capture->recording->call = XXH3_64bits(words, sizeof(words));
        mark(capture, touch->places[i], entry, touch->declares);
    }
    if (touch->everything)
        mark_all(capture, entry);
    capture_record(capture, touch, answer.nodes, answer.node_count);
    capture_unlock();
}

/* ---- lanes ---- */

struct capture_lane *
capture_take_lane(void)
{
    for (size_t i = 0; i < CAPTURE_LANES; ++i) {
        struct capture_lane *lane = &lanes[i];
        capture_lock();
        bool taken = lane->taken;
        lane->taken = true;
        capture_unlock();
        if (taken)
            continue;
        if (lane->stream == NULL) {
            int least = 0, greatest = 0;
            CUDA("cuCtxGetStreamPriorityRange", cuCtxGetStreamPriorityRange, &least, &greatest);
            CUDA("cuStreamCreateWithPriority", cuStreamCreateWithPriority, &lane->stream, CU_STREAM_NON_BLOCKING,
                 greatest);
            CUDA("cuEventCreate", cuEventCreate, &lane->joins, CU_EVENT_DISABLE_TIMING);
            CUDA("cuEventCreate", cuEventCreate, &lane->reduced, CU_EVENT_DISABLE_TIMING);
            atomic_store(&lane_streams[i], lane->stream);
        }
        return lane;
    }
    stop_job("DDP_STEP stands in more than %d captures at the same time, which is more than ddprun follows",
             CAPTURE_LANES);
}

/* ---- begin and end ---- */

void
capture_begun(CUstream stream, bool into_graph, bool done)
{
    static const struct ddp_site site = {"", "a capture", 0};
    struct capture_answer answer;
    if (!done)
        return;
    device_ensure_driver(&site);
    atomic_fetch_add(&engine_state.stream_changes, 1);
    if (!capture_ask(stream, &answer) || answer.status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return;
    atomic_fetch_add(&engine_state.captures_open, 1);
    struct capture *capture = enter(&answer);
    capture->origin = stream;
    capture->origin_owner = stream == CU_STREAM_PER_THREAD ? gettid() : 0;
    capture->into_graph = into_graph;
    capture->recording->opaque = into_graph;
}

void
capture_changes(CUstream stream)
{
    struct capture *capture;
    if (capture_find(stream, &capture) == CAPTURE_ACTIVE)
        capture->changed_by = "cuStreamUpdateCaptureDependencies";
}

bool
capture_graph_changes(CUgraph graph, const char *call)
{
    bool found = false;
    capture_lock();
    for (struct capture *capture = captures; capture != NULL; capture = capture->next) {
        if (capture->graph != graph)
            continue;
        found = true;
        capture->changed_by = call;
        capture->recording->opaque = true;
    }
    capture_unlock();
    return found;
}

/* With lock held: the capture that began on this stream. */
static struct capture *
find_by_origin(CUstream stream) WITH_CAPTURES
{
    pid_t owner = stream == CU_STREAM_PER_THREAD ? gettid() : 0;
    struct capture *capture = captures;
    while (capture != NULL && (capture->origin != stream || capture->origin_owner != owner))
        capture = capture->next;
    return capture;
}

void *
capture_ends(CUstream stream)
{
    struct capture *capture;
    if (capture_find(stream, &capture) == CAPTURE_BROKEN) { /* the driver no longer tells its number */
        capture_lock();
        capture = find_by_origin(stream);
        capture_unlock();
    }
    return capture;
}

void
capture_leave(struct capture *capture)
{
    capture_lock();
    struct capture **link = &captures;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    if (capture->lane != NULL)
        capture->lane->taken = false;
    free(capture->marks);
    free(capture->last);
    free(capture->nodes);
    free(capture->streams);
    capture_unlock();
    recording_release(capture->recording);
    free(capture);
}

void
capture_list_places(struct capture *capture)
{
    struct recording *recording = capture->recording;
    bool *seen = engine_calloc(capture->place_count + 1, sizeof(*seen));
    recording->places = engine_calloc(capture->place_count + 1, sizeof(*recording->places));
    capture_lock();
    size_t end = recording->step_count > 0 ? recording->steps[0].marks_before : capture->mark_count;
    ASSERT(end <= capture->mark_count);
    for (size_t i = 0; i < end; ++i) {
        size_t place = capture->marks[i].place;
        if (seen[place])
            continue;
        seen[place] = true;
        recording->places[recording->place_count++] = place;
    }
    capture_unlock();
    free(seen);
}

void
capture_abandoned(CUstream stream)
{
    capture_lock();
    struct capture *capture = find_by_origin(stream);
    capture_unlock();
    if (capture == NULL)
        return;
    const struct recording *recording = capture->recording;
    if (recording_steps(recording))
        stop_job("the stream of a capture with DDP_STEP (%s:%d) is destroyed before the capture's end, where the other "
                 "ranks wait",
                 recording->steps[0].site.file, recording->steps[0].site.line);
    capture_leave(capture); /* captures_open continues to count it, as drivers do that refuse to wait for the device */
}

/* ---- steps outside ---- */

bool
captures_touch(const size_t *places, size_t count)
{
    bool touched = false;
    capture_lock();
    for (struct capture *capture = captures; capture != NULL; capture = capture->next) {
        for (size_t i = 0; i < count; ++i)
            touched = touched || (places[i] < capture->place_count && capture->last[places[i]] != NO_MARK &&
                                  !capture->recording->opaque);
    }
    capture_unlock();
    return touched;
}
