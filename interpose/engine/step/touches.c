/*
 * touches.c - which gradients does an operation touch, and what follows from it?
 *
 * Before the operation goes to the driver: its stream waits for the last averages. After it is enqueued: it counts as a
 * touch, and may make buckets ready. Called from the hooks in every
 * thread of the trainer; an operation that touches nothing costs a few comparisons.
 */
#include "interpose/engine/core/observer.h"
#include "interpose/engine/measure/measure.h"
#include "interpose/engine/memory/escapes.h"
#include "interpose/engine/memory/memory.h"
#include "interpose/engine/send/send.h"
#include "interpose/engine/step/step.h"

/* One operation, from before it to after it; one for each thread, because operations do not nest. */
struct touches {
    unsigned watching; /* mask of enum watch: who was notified of its begin */
    struct hits hits;
    struct recording *recording; /* of a graph that is launched, with a reference; or NULL */
    struct capture *capture;     /* the operation is captured; else NULL */
    enum capture_state state;
    bool opaque; /* what it touches is unknown */
    bool unseen; /* it may touch deferred gradients besides, on a stream that the boundary does not know of yet */
};

static __thread struct touches thread_touches;

/* ---- before the operation ---- */

/* With lock held: a touch is on its way. */
static void
begin_touch(const struct hits *hits, struct hit *hit) WITH_LOCK
{
    struct group *group = hit->group;
    hit->begun = group->overlapping && hits->agreements == memory_state.agreements;
    hit->boundary = group->boundary_count;
    hit->plan = group->readiness.plan;
    if (memory_state.no_sync) {
        hit->uncounted = true;
        return;
    }
    if (!hit->begun)
        return;
    enum touch_verdict verdict =
        readiness_begin(&group->readiness, hit->gradient, (struct touch){hits->call, hit->argument});
    hit->unfollowed = verdict == TOUCH_UNCOUNTED;
}

static void
begin_touches(struct hits *hits)
{
    engine_lock();
    for (size_t i = 0; i < hits->count; ++i)
        begin_touch(hits, &hits->items[i]);
    engine_unlock();
}

/* Work that cannot be looked into may touch any gradient: the boundary waits for its stream. */
static void
note_opaque(const struct operation *operation)
{
    stream_wait_for_reduction(operation->stream);

    engine_lock();
    uint64_t stream_mask = UINT64_C(1) << stream_index(operation->stream);
    for (int g = 0; g < GROUPS_AT_MOST; ++g) {
        struct group *group = &memory_state.groups[g];
        if (group->gradient_count == 0)
            continue; /* a first agreement waits for the whole device */
        group->opaque_streams |= stream_mask;
        group->history.lost = true;
        if (group->overlapping)
            readiness_close(&group->readiness);
    }
    engine_unlock();
}

/* Whether there is anything that the operation can touch and the engine follows; or was, when a graph was captured. */
static bool
is_relevant(const struct operation *operation)
{
    bool graph = operation->graph != NULL && atomic_load_explicit(&engine_state.graph_count, memory_order_relaxed) > 0;
    return (graph || atomic_load_explicit(&memory_state.highest, memory_order_relaxed) != 0) &&
           !atomic_load_explicit(&engine_state.context_ended, memory_order_relaxed) &&
           /* NCCL's own launches, where they pass the hooks: the issuer must never wait for itself. */
           (!atomic_load_explicit(&engine_state.collectives_ready, memory_order_acquire) ||
            !(collectives_own_stream(&engine_state.collectives, operation->stream) ||
              capture_own_stream(operation->stream)));
}

/* It becomes a node of a graph: what it touches is noted when the driver has taken it. */
static void
begin_captured(const struct operation *operation, const struct touches *touches)
{
    const struct hits *hits = &touches->hits;
    if (hits->count > 0 || hits->on_buffer || touches->opaque || touches->unseen)
        capture_before_touch(touches->capture, operation->stream);
}

/* It runs in its stream's turn: whatever it must wait for. */
static void
begin_at_once(const struct operation *operation, struct touches *touches)
{
    struct hits *hits = &touches->hits;
    if (touches->opaque)
        note_opaque(operation);
    if (touches->unseen)
        escape_mark(operation->stream);
    if (hits->on_buffer || hits->on_state || hits->count > 0)
        stream_wait_for_reduction(operation->stream);
    if (hits->count > 0)
        begin_touches(hits);
}

void
touches_copied_from_host(const void *source, size_t bytes, size_t pitch, size_t rows)
{
    if (source == NULL || bytes == 0 || rows == 0)
        return;
    OBSERVED(copied, source, bytes, pitch, rows);
    turn_copies_from_host();
    turn_batch_copied(source, bytes);
    if (pitch > 0 && atomic_load(&engine_state.captures_open) > 0)
        capture_source(source, pitch * (rows - 1) + bytes);
    if (pitch == bytes) {
        bytes *= rows;
        rows = 1;
    }
    for (size_t row = 0; row < rows; ++row)
        (void)escape_from_host((const char *)source + row * pitch, bytes);
}

/* What was captured into the graph, while places mean what they did. Returns whether that is not all that it does. */
static bool
look_at_graph(struct touches *touches)
{
    struct hits *hits = &touches->hits;
    const struct recording *recording = touches->recording;
    if (recording == NULL)
        return true;
    for (size_t i = 0; i < recording->source_count; ++i) {
        uint64_t address = (uint64_t)(uintptr_t)recording->sources[i].address;
        if (recording->sources[i].bytes > 0)
            (void)host_accessible_look_through(address, recording->sources[i].bytes);
        else
            host_accessible_look_behind(address);
    }
    hits->call = recording->call;
    if (recording_steps(recording)) /* graph_launch.c knows what to do */
        return false;

    engine_lock();
    bool known = !recording->opaque && recording->placements == engine_state.placements;
    for (size_t i = 0; i < recording->place_count && known; ++i)
        hits_add(hits, &memory_state.tensors[recording->places[i]],
                 &(struct operand){.argument = (uint32_t)i | TOUCH_FIXED});
    engine_unlock();
    hits->on_buffer = hits->on_buffer || recording->on_buffer;
    return !known;
}

/* While there are captures: the memory of the host that the operation reads, which each launch of a graph may. */
static void
keep_sources(const struct operation *operation, const struct hits *hits)
{
    for (size_t i = 0; i < hits->source_count; ++i)
        capture_source(hits->sources[i], 0);
    if (operation->host_source != NULL && atomic_load(&engine_state.captures_open) > 0)
        capture_source(operation->host_source, operation->host_bytes);
}

/* Not analysed: the launch of a graph with DDP_STEP takes the role here, which touches_end() gives back. */
static void NOT_ANALYSED
begin(struct operation *operation, struct touches *touches)
{
    struct hits *hits = &touches->hits;
    bool through_pointers;
    if (atomic_load_explicit(&memory_state.filter_is_old, memory_order_relaxed))
        launch_filter_refresh();
    touches->recording = operation->graph != NULL ? recording_find(operation->graph) : NULL;
    touches->opaque = hits_look(hits, operation, &through_pointers);
    if ((trust_is_awaited() || (touches->watching >> WATCH_COMMIT & 1) != 0) &&
        exits_by(operation, hits, touches->opaque)) {
        commit_wait_close();
        speculation_await_verdict();
    }
    if (operation->graph != NULL) {
        touches->opaque = look_at_graph(touches) || touches->opaque;
        flight_note(FLIGHT_GRAPH_LAUNCH, touches->recording != NULL ? touches->recording->number : 0, 0,
                    operation->name);
    }
    touches->unseen = atomic_load_explicit(&memory_state.any_escaped, memory_order_relaxed) &&
                      (operation->function != NULL || operation->graph != NULL || through_pointers) &&
                      !escape_is_marked(operation->stream);
    bool concerns =
        hits->count > 0 || hits->on_buffer || hits->on_state || touches->opaque || recording_steps(touches->recording);
    keep_sources(operation, hits);
    if (!concerns && !touches->unseen && !capture_has_sources()) {
        recording_release(touches->recording);
        return;
    }

    operation->notes = touches;
    touches->state = capture_find(operation->stream, &touches->capture);
    if (touches->state == CAPTURE_ACTIVE)
        begin_captured(operation, touches);
    else if (touches->state == CAPTURE_NONE && recording_steps(touches->recording))
        launch_begin(touches->recording, operation->stream);
    else if (touches->state == CAPTURE_NONE)
        begin_at_once(operation, touches);
}

bool
touches_leave_out(struct operation *operation)
{
    struct touches *touches = &thread_touches;
    operation->notes = NULL;
    touches->watching = atomic_load_explicit(&engine_state.watching, memory_order_relaxed);
    atomic_fetch_add_explicit(&engine_state.operation_count, 1, memory_order_relaxed);
    if (operation->host_source != NULL)
        turn_batch_copied(operation->host_source, operation->host_bytes);
    if (!atomic_load_explicit(&turn_any_open, memory_order_relaxed) || !turn_leaves_out(operation))
        return false;
    touches->watching = 0;
    capture_drop_sources();
    return true;
}

void
touches_follow(struct operation *operation)
{
    struct touches *touches = &thread_touches;
    if (is_relevant(operation)) {
        begin(operation, touches);
    } else {
        scan_copied_pointers(operation);
        capture_drop_sources();
    }
    WATCHED(touches->watching, operation_begins, operation);
}

void
touches_begin(struct operation *operation)
{
    if (!touches_leave_out(operation))
        touches_follow(operation);
}

const struct group *
touches_complete(const struct operation *operation)
{
    const struct touches *touches = operation->notes;
    const struct group *group = NULL;
    if (touches == NULL || touches->state != CAPTURE_NONE)
        return NULL;
    engine_lock();
    for (size_t i = 0; i < touches->hits.count && group == NULL; ++i) {
        const struct hit *hit = &touches->hits.items[i];
        bool followed = hit->begun && !hit->unfollowed && hit->boundary == hit->group->boundary_count;
        if (followed && readiness_completes(&hit->group->readiness, hit->gradient))
            group = hit->group;
    }
    engine_unlock();
    return group;
}

/* ---- after it ---- */

/* With lock held: one touch is enqueued. */
static void
count_touch(const struct hits *hits, struct hit *hit, uint64_t stream_mask) WITH_LOCK
{
    struct group *group = hit->group;
    ++group->touch_count;
    /* Not agreed on yet, or an agreement came between, in another thread: the boundary waits for the stream. */
    if (memory_state.annotations_changed || hits->agreements != memory_state.agreements) {
        group->opaque_streams |= stream_mask;
        return;
    }
    struct tensor *tensor = tensor_gradient(group, hit->gradient);
    tensor->touched_by |= stream_mask;
    if (hit->uncounted) {
        history_touch_uncounted(&group->history, hit->gradient);
        return;
    }
    history_touch(&group->history, hit->gradient, (struct touch){hits->call, hit->argument});
    if (!group->overlapping || hit->unfollowed)
        return;
    if (!hit->begun || hit->boundary != group->boundary_count || hit->plan != group->readiness.plan)
        readiness_close(&group->readiness); /* a boundary, or a vote there, came between, in another thread */
    else if (readiness_enqueued(&group->readiness, hit->gradient))
        hit->ready_event = measure_ready_event(group, hit->gradient);
}

static void
count_touches(const struct operation *operation, struct touches *touches, bool enqueued)
{
    struct hits *hits = &touches->hits;
    bool overlapping = false;
    engine_lock();
    uint64_t stream_mask = UINT64_C(1) << stream_index(operation->stream);
    if (hits->on_buffer || hits->on_state)
        memory_state.buffer_streams |= stream_mask;
    if (touches->unseen)
        escape_end_kernel(stream_mask);
    for (size_t i = 0; i < hits->count; ++i) {
        struct hit *hit = &hits->items[i];
        overlapping = overlapping || hit->group->overlapping;
        if (enqueued)
            count_touch(hits, hit, stream_mask);
        else if (hit->group->overlapping)
            readiness_close(&hit->group->readiness); /* the driver has refused a touch that had begun */
    }
    engine_unlock();
    for (size_t i = 0; i < hits->count; ++i) {
        if (hits->items[i].ready_event != NULL)
            stream_record(operation->stream, hits->items[i].ready_event, "cuEventRecord after a gradient");
    }
    if (overlapping)
        launch_ready();
}

static void
end_captured(const struct operation *operation, const struct touches *touches)
{
    const struct hits *hits = &touches->hits;
    struct captured_touch touch = {
        .count = hits->count, .everything = touches->opaque, .on_buffer = hits->on_buffer, .call = hits->call};
    size_t *places = engine_calloc(hits->count + 1, sizeof(*places));
    for (size_t i = 0; i < hits->count; ++i)
        places[i] = hits->items[i].place;
    touch.places = places;
    capture_touch(touches->capture, operation->stream, &touch);
    free(places);
}

static void
end_at_once(const struct operation *operation, struct touches *touches, bool enqueued)
{
    struct hits *hits = &touches->hits;
    if (!touches->opaque && !touches->unseen && !hits->on_buffer && !hits->on_state && hits->count == 0)
        return;
    stream_note_work(operation->stream); /* before the touch counts */
    count_touches(operation, touches, enqueued);
}

/* Not analysed, as begin(). */
static void NOT_ANALYSED
end(const struct operation *operation, struct touches *touches, bool enqueued)
{
    struct hits *hits = &touches->hits;
    bool is_step = recording_steps(touches->recording);
    if (touches->state == CAPTURE_ACTIVE && enqueued)
        end_captured(operation, touches);
    else if (touches->state == CAPTURE_NONE && is_step)
        launch_end(touches->recording, operation->stream, enqueued);
    else if (touches->state == CAPTURE_NONE)
        end_at_once(operation, touches, enqueued);
    else if (touches->state == CAPTURE_BROKEN && enqueued &&
             (hits->count > 0 || hits->on_buffer || touches->opaque || is_step))
        stop_job("%s: the driver does not report whether its stream is being captured, although it took work on "
                 "gradients; run the trainer without CUDA graphs",
                 operation->name);
    capture_drop_sources();
    if (touches->recording != NULL)
        recording_release(touches->recording);
    hits_clear(hits);
}

void
touches_end(struct operation *operation, bool enqueued)
{
    struct touches *touches = operation->notes;
    bool runs = enqueued, any = false;
    if (touches != NULL) {
        runs = enqueued && touches->state == CAPTURE_NONE && !recording_steps(touches->recording);
        any = touches->hits.count > 0 || touches->opaque;
        end(operation, touches, enqueued);
    }
    WATCHED(thread_touches.watching, operation_ends, operation, runs, any);
}
