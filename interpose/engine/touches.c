/*
 * touches.c - which gradients does an operation touch, and what follows from it?
 *
 * Before the operation goes to the driver: whatever it must wait for (the last reduction; a bucket that has left
 * already). After it is enqueued: it counts as a touch, and may make buckets ready. Called from the hooks in every
 * thread of the trainer; an operation that touches nothing costs a few comparisons.
 */
#include "interpose/engine/state.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HITS_AT_HAND = 16 };

struct hit {
    size_t gradient;
    struct ddp_site site;
    uint32_t argument;
    bool late;
    struct late_touch *measured; /* of a late touch whose effect is not known yet */
};

/* What one operation touches; one for each thread, because operations do not nest. */
struct hits {
    struct hit *items; /* few[], or malloc'ed while an operation touches more than fit there */
    struct hit few[HITS_AT_HAND];
    size_t count;
    size_t capacity;
    uint64_t call;
    const char *call_name;
    unsigned stream; /* index of the entry */
};

static __thread struct hits thread_hits;

/* A struct's words are told apart from whole arguments by what stands above these bits. */
enum { WORD_SHIFT = 16 };

static bool
may_hit(uint64_t address, size_t bytes)
{
    return address < atomic_load_explicit(&engine_state.highest, memory_order_relaxed) &&
           address + bytes > atomic_load_explicit(&engine_state.lowest, memory_order_relaxed);
}

static void
clear_hits(struct hits *hits)
{
    if (hits->items != hits->few)
        free(hits->items);
    hits->items = hits->few;
    hits->capacity = HITS_AT_HAND;
    hits->count = 0;
}

static void
add_hit(struct hits *hits, const struct tensor *tensor, uint32_t argument)
{
    if (hits->count == hits->capacity) {
        size_t capacity = 4 * hits->capacity;
        struct hit *grown = malloc(capacity * sizeof(*grown));
        if (grown == NULL)
            stop_job("out of memory");
        memcpy(grown, hits->items, hits->count * sizeof(*grown));
        size_t count = hits->count;
        clear_hits(hits);
        hits->items = grown;
        hits->capacity = capacity;
        hits->count = count;
    }
    hits->items[hits->count++] = (struct hit){.gradient = tensor->index, .site = tensor->site, .argument = argument};
}

/* Adds every gradient that shares a byte with [address, address + bytes). */
static void
look_at(struct hits *hits, uint32_t argument, uint64_t address, size_t bytes)
{
    if (!may_hit(address, bytes))
        return;
    pthread_mutex_lock(&engine_state.lock);
    size_t count;
    const struct range *range = ranges_find(&engine_state.ranges, address, bytes, &count);
    for (size_t i = 0; i < count; ++i) {
        const struct tensor *tensor = &engine_state.tensors[range[i].id];
        if (tensor->role == TENSOR_GRADIENT)
            add_hit(hits, tensor, argument);
    }
    pthread_mutex_unlock(&engine_state.lock);
}

/* Every aligned word of the argument may be a pointer. */
static void
look_at_words(struct hits *hits, uint32_t argument, const void *value, size_t bytes)
{
    for (size_t at = 0; at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, (const char *)value + at, sizeof(word));
        if (may_hit(word, 1))
            look_at(hits, argument | (uint32_t)(at / sizeof(word)) << WORD_SHIFT, word, 1);
    }
}

/* Returns false if the launch's arguments cannot be read. */
static bool
look_at_launch(struct hits *hits, const struct operation *operation)
{
    const struct function_layout *layout = function_layout(operation->function);
    hits->call = layout->call;
    hits->call_name = layout->name;
    if (!layout->known)
        return false;

    if (operation->params != NULL) {
        for (unsigned i = 0; i < layout->param_count; ++i)
            look_at_words(hits, i, operation->params[i], layout->params[i].bytes);
        return true;
    }
    if (operation->extra == NULL)
        return layout->param_count == 0;

    const char *buffer = NULL;
    size_t bytes = 0;
    for (void *const *word = operation->extra; *word != CU_LAUNCH_PARAM_END; word += 2) {
        if (*word == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = word[1];
        else if (*word == CU_LAUNCH_PARAM_BUFFER_SIZE)
            bytes = *(const size_t *)word[1];
    }
    for (unsigned i = 0; i < layout->param_count; ++i) {
        if (buffer == NULL || layout->params[i].offset + layout->params[i].bytes > bytes)
            return false;
        look_at_words(hits, i, buffer + layout->params[i].offset, layout->params[i].bytes);
    }
    return true;
}

/* ---- streams ---- */

static bool
is_same_stream(const struct stream_entry *entry, CUstream handle)
{
    return entry->handle == handle && !entry->destroyed && (handle != CU_STREAM_PER_THREAD || entry->owner == gettid());
}

unsigned
stream_index(CUstream handle)
{
    unsigned free_at = STREAMS_AT_MOST;
    for (unsigned i = 0; i < STREAMS_AT_MOST; ++i) {
        if (is_same_stream(&engine_state.streams[i], handle))
            return i;
        if (engine_state.streams[i].handle == NULL && free_at == STREAMS_AT_MOST)
            free_at = i;
    }
    if (free_at < STREAMS_AT_MOST)
        engine_state.streams[free_at] = (struct stream_entry){
            .handle = handle,
            .owner = handle == CU_STREAM_PER_THREAD ? gettid() : 0,
            .event = engine_state.streams[free_at].event, /* an event may serve another stream */
        };
    return free_at;
}

/* The entry of the operation's stream, with an event; ends the job when there are too many streams. */
static unsigned
enter_stream(CUstream handle, bool *waits_p)
{
    pthread_mutex_lock(&engine_state.lock);
    unsigned index = stream_index(handle);
    struct stream_entry *entry = index < STREAMS_AT_MOST ? &engine_state.streams[index] : NULL;
    if (entry != NULL) {
        *waits_p = entry->waited_for < engine_state.boundary_count;
        entry->waited_for = engine_state.boundary_count;
    }
    bool needs_event = entry != NULL && entry->event == NULL;
    pthread_mutex_unlock(&engine_state.lock);

    if (entry == NULL)
        stop_job("gradients are touched on more than %d streams between two steps, which is more than ddprun follows",
                 STREAMS_AT_MOST);
    if (needs_event) {
        CUevent event;
        require_cuda(engine_state.driver.cuEventCreate_p(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
        pthread_mutex_lock(&engine_state.lock);
        engine_state.streams[index].event = event;
        pthread_mutex_unlock(&engine_state.lock);
    }
    return index;
}

void
touches_before_stream_destroy(CUstream stream)
{
    pthread_mutex_lock(&engine_state.lock);
    unsigned index = STREAMS_AT_MOST;
    for (unsigned i = 0; i < STREAMS_AT_MOST; ++i) {
        if (is_same_stream(&engine_state.streams[i], stream))
            index = i;
    }
    CUevent event = index < STREAMS_AT_MOST ? engine_state.streams[index].event : NULL;
    pthread_mutex_unlock(&engine_state.lock);
    if (event == NULL)
        return;

    /* Its work goes on after the handle is gone; the event remembers it until the boundary. */
    require_cuda(engine_state.driver.cuEventRecord_p(event, stream), "cuEventRecord on a stream that is destroyed");
    pthread_mutex_lock(&engine_state.lock);
    engine_state.streams[index].destroyed = true;
    pthread_mutex_unlock(&engine_state.lock);
}

/* ---- before the operation ---- */

/* A captured operation runs when its graph does, which nobody here sees: refused, before anything is reduced wrongly.
 */
static void
refuse_capture(const struct operation *operation, const struct hits *hits)
{
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult result = engine_state.driver.cuStreamIsCapturing_p(operation->stream, &capture);
    if (result == CUDA_SUCCESS && capture == CU_STREAM_CAPTURE_STATUS_NONE)
        return;

    struct ddp_site site = hits->items[0].site;
    stop_job("%s on gradient `%s` (%s:%d) is captured into a CUDA graph, which ddprun cannot follow; "
             "run the trainer without CUDA graphs",
             hits->call_name, site.text, site.file, site.line);
}

/* With lock held: marks the late ones; returns whether there are any. */
static bool
mark_late(struct hits *hits)
{
    bool any = false;
    if (!engine_state.overlapping)
        return false;
    for (size_t i = 0; i < hits->count; ++i) {
        struct touch touch = {hits->call, hits->items[i].argument};
        hits->items[i].late = readiness_verdict(&engine_state.readiness, hits->items[i].gradient, touch) == TOUCH_LATE;
        any = any || hits->items[i].late;
    }
    return any;
}

/* A touch after its bucket has left: waits for the bucket, and is measured until it is known to be a read. */
static void
begin_late(const struct operation *operation, struct hits *hits)
{
    for (size_t i = 0; i < hits->count; ++i) {
        struct hit *hit = &hits->items[i];
        if (!hit->late)
            continue;
        issue_take_role(); /* whoever is sending the bucket has then recorded its event */
        pthread_mutex_lock(&engine_state.lock);
        struct tensor tensor = *tensor_gradient(hit->gradient);
        CUevent done = engine_state.bucket_done[engine_state.plan->bucket_of[hit->gradient]];
        pthread_mutex_unlock(&engine_state.lock);
        require_cuda(engine_state.driver.cuStreamWaitEvent_p(operation->stream, done, 0), "waiting for a bucket");
        issue_give_role();
        hit->measured = checks_late_begin(operation, (struct touch){hits->call, hit->argument}, hits->call_name,
                                          &tensor, engine_state.plan->bucket_of[hit->gradient]);
    }
}

static void
note_opaque(const struct operation *operation)
{
    bool waits;
    unsigned index = enter_stream(operation->stream, &waits);
    pthread_mutex_lock(&engine_state.lock);
    engine_state.opaque_streams |= UINT64_C(1) << index;
    engine_state.history.lost = true;
    engine_state.readiness.deviates = true;
    pthread_mutex_unlock(&engine_state.lock);
    /* What it touches is not known, so it waits for the last reduction as if it touched a gradient. */
    if (waits)
        require_cuda(engine_state.driver.cuStreamWaitEvent_p(operation->stream, engine_state.reduced, 0),
                     "waiting for the last reduction");
}

void
touches_begin(struct operation *operation)
{
    struct hits *hits = &thread_hits;
    operation->notes = NULL;
    if (atomic_load_explicit(&engine_state.highest, memory_order_relaxed) == 0 ||
        atomic_load_explicit(&engine_state.context_ended, memory_order_relaxed))
        return; /* no gradient yet, or none any more */

    clear_hits(hits);
    hits->call_name = operation->name;
    bool opaque = operation->opaque;
    for (unsigned i = 0; i < operation->operand_count; ++i)
        look_at(hits, operation->operands[i].argument, operation->operands[i].address, operation->operands[i].bytes);
    if (operation->function != NULL)
        opaque = !look_at_launch(hits, operation) || opaque;
    else if (hits->count > 0)
        hits->call = call_identity(operation->name);
    if (opaque)
        note_opaque(operation);
    if (hits->count == 0)
        return;

    bool waits;
    operation->notes = hits;
    hits->stream = enter_stream(operation->stream, &waits);
    refuse_capture(operation, hits);
    if (waits)
        require_cuda(engine_state.driver.cuStreamWaitEvent_p(operation->stream, engine_state.reduced, 0),
                     "waiting for the last reduction");

    pthread_mutex_lock(&engine_state.lock);
    bool late = mark_late(hits);
    pthread_mutex_unlock(&engine_state.lock);
    if (late)
        begin_late(operation, hits);
}

/* ---- after it ---- */

void
touches_end(struct operation *operation, bool enqueued)
{
    struct hits *hits = operation->notes;
    if (hits == NULL)
        return;
    for (size_t i = 0; i < hits->count; ++i) {
        if (hits->items[i].measured != NULL)
            checks_late_end(hits->items[i].measured, operation->stream);
    }
    if (!enqueued)
        return;

    pthread_mutex_lock(&engine_state.lock);
    bool agreed = !engine_state.annotations_changed;
    for (size_t i = 0; i < hits->count; ++i) {
        size_t gradient = hits->items[i].gradient;
        struct touch touch = {hits->call, hits->items[i].argument};
        if (agreed) {
            tensor_gradient(gradient)->touched_by |= UINT64_C(1) << hits->stream;
            if (engine_state.overlapping)
                readiness_touch(&engine_state.readiness, gradient, touch);
            else
                history_touch(&engine_state.history, gradient, touch);
        } else {
            engine_state.opaque_streams |= UINT64_C(1) << hits->stream;
        }
    }
    engine_state.touch_count += hits->count;
    const struct stream_entry entry = engine_state.streams[hits->stream];
    bool overlapping = engine_state.overlapping;
    pthread_mutex_unlock(&engine_state.lock);

    /* Another thread cannot name this one's default stream: its state is kept in the event. */
    if (entry.handle == CU_STREAM_PER_THREAD)
        require_cuda(engine_state.driver.cuEventRecord_p(entry.event, entry.handle), "cuEventRecord");
    if (overlapping)
        issue_ready();
}
