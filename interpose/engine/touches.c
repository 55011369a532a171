/*
 * touches.c - which gradients does an operation touch, and what follows from it?
 *
 * Before the operation goes to the driver: whatever it must wait for (the last reduction; a bucket that has left
 * already). After it is enqueued: it counts as a touch, and may make buckets ready. Called from the hooks in every
 * thread of the trainer; an operation that touches nothing costs a few comparisons.
 */
#include "interpose/engine/state.h"

#include "base/message.h"
#include "base/mutant.h"

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
    bool begun; /* readiness was told, at this boundary: */
    uint64_t boundary;
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
    if (free_at == STREAMS_AT_MOST)
        stop_job("gradients are touched on more than %d streams between two steps, which is more than ddprun follows",
                 STREAMS_AT_MOST);
    engine_state.streams[free_at] = (struct stream_entry){
        .handle = handle,
        .owner = handle == CU_STREAM_PER_THREAD ? gettid() : 0,
        .event = engine_state.streams[free_at].event, /* an event may serve another stream */
    };
    return free_at;
}

/* Makes the stream wait for the last reduction, once after each boundary. */
static void
wait_for_reduction(CUstream handle)
{
    pthread_mutex_lock(&engine_state.lock);
    uint64_t boundary = engine_state.boundary_count;
    bool waits = engine_state.streams[stream_index(handle)].waited_for < boundary;
    pthread_mutex_unlock(&engine_state.lock);
    if (!waits || MUTANT(NO_BOUNDARY_WAIT))
        return;

    /* Noted only now: another thread on this stream must not believe in a wait that is not there yet. */
    require_cuda(engine_state.driver.cuStreamWaitEvent_p(handle, engine_state.reduced, 0),
                 "waiting for the last reduction");
    pthread_mutex_lock(&engine_state.lock);
    struct stream_entry *entry = &engine_state.streams[stream_index(handle)];
    if (entry->waited_for < boundary)
        entry->waited_for = boundary;
    pthread_mutex_unlock(&engine_state.lock);
}

void
touches_before_stream_destroy(CUstream stream)
{
    if (!atomic_load(&engine_state.driver_ready))
        return;
    issue_take_role(); /* nobody else names the handle from here on */
    pthread_mutex_lock(&engine_state.lock);
    struct stream_entry *entry = NULL;
    for (unsigned i = 0; i < STREAMS_AT_MOST; ++i) {
        if (is_same_stream(&engine_state.streams[i], stream))
            entry = &engine_state.streams[i];
    }
    pthread_mutex_unlock(&engine_state.lock);

    /* Its work goes on after the handle is gone; the event remembers it until the boundary. */
    if (entry != NULL) {
        require_cuda(engine_state.driver.cuEventRecord_p(entry->event, stream),
                     "cuEventRecord on a stream that is destroyed");
        pthread_mutex_lock(&engine_state.lock);
        entry->destroyed = true;
        pthread_mutex_unlock(&engine_state.lock);
    }
    issue_give_role();
}

/* ---- before the operation ---- */

static bool
is_captured(CUstream stream)
{
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
    return engine_state.driver.cuStreamIsCapturing_p(stream, &capture) != CUDA_SUCCESS ||
           capture != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* A captured operation runs when its graph does, which nobody here sees: refused, before anything is wrong. */
static void
refuse_capture(const struct operation *operation, const struct hits *hits)
{
    if (!is_captured(operation->stream))
        return;
    struct ddp_site site = hits->items[0].site;
    stop_job("%s on gradient `%s` (%s:%d) is captured into a CUDA graph, which ddprun cannot follow; "
             "run the trainer without CUDA graphs",
             hits->call_name, site.text, site.file, site.line);
}

/* The touches are on their way. Returns whether a gradient among them has left already. */
static bool
begin_touches(struct hits *hits)
{
    bool late = false;
    pthread_mutex_lock(&engine_state.lock);
    hits->begun = engine_state.overlapping;
    hits->boundary = engine_state.boundary_count;
    for (size_t i = 0; hits->begun && i < hits->count; ++i) {
        struct touch touch = {hits->call, hits->items[i].argument};
        hits->items[i].late = readiness_begin(&engine_state.readiness, hits->items[i].gradient, touch) == TOUCH_LATE;
        late = late || hits->items[i].late;
    }
    pthread_mutex_unlock(&engine_state.lock);
    return late;
}

/* Makes the stream wait for the buckets that have left with pieces of the gradient; the first of them in *bucket_p. */
static void
wait_for_buckets(CUstream stream, size_t gradient, size_t *bucket_p)
{
    pthread_mutex_lock(&engine_state.lock);
    size_t first = engine_state.plan->bucket_of[gradient], end = engine_state.plan->last_bucket_of[gradient] + 1;
    end = end < engine_state.readiness.next_bucket ? end : engine_state.readiness.next_bucket;
    pthread_mutex_unlock(&engine_state.lock);
    for (size_t k = first; k < end; ++k)
        require_cuda(engine_state.driver.cuStreamWaitEvent_p(stream, engine_state.bucket_done[k], 0),
                     "waiting for a bucket");
    *bucket_p = first;
}

/* A touch after its bucket has left waits for the bucket, and it is measured whether it writes. */
static void
begin_late(const struct operation *operation, struct hits *hits)
{
    for (size_t i = 0; i < hits->count; ++i) {
        struct hit *hit = &hits->items[i];
        if (!hit->late)
            continue;
        size_t bucket;
        issue_take_role(); /* whoever is sending a bucket has then recorded its event */
        pthread_mutex_lock(&engine_state.lock);
        struct tensor tensor = *tensor_gradient(hit->gradient);
        pthread_mutex_unlock(&engine_state.lock);
        wait_for_buckets(operation->stream, hit->gradient, &bucket);
        issue_give_role();
        hit->measured = checks_late_begin(operation, hits->call_name, &tensor, bucket);
    }
}

/*
 * Work that cannot be looked into may touch any gradient: nothing leaves before the boundary, which waits for its
 * stream. If gradients have left already, it may be overwriting averages.
 */
static void
note_opaque(const struct operation *operation)
{
    if (is_captured(operation->stream))
        return; /* it runs when its graph is launched, and that launch comes here too */
    wait_for_reduction(operation->stream);

    pthread_mutex_lock(&engine_state.lock);
    engine_state.opaque_streams |= UINT64_C(1) << stream_index(operation->stream);
    engine_state.history.lost = true;
    engine_state.readiness.deviates = true;
    bool too_late = engine_state.early_buckets > 0;
    pthread_mutex_unlock(&engine_state.lock);
    if (too_late)
        stop_job(
            "%s came after gradients had been averaged, and ddprun cannot see what it writes; the steps before did "
            "without it. Run with --no-overlap",
            operation->name);
}

/* Said by rank 0, once: everything works, but nothing overlaps. */
static void
say_unreadable(const char *kernel)
{
    static _Atomic bool said;
    if (engine_state.rendezvous.rank == 0 && !atomic_exchange(&said, true))
        message_line(
            "the driver does not tell the parameters of kernels (%s): gradients are averaged at DDP_STEP, without "
            "overlap; a driver for CUDA 12.4 or newer does",
            kernel);
}

/* Whether anything that the engine follows can be touched at all. */
static bool
is_relevant(const struct operation *operation)
{
    atomic_fetch_add_explicit(&engine_state.operation_count, 1, memory_order_relaxed);
    return atomic_load_explicit(&engine_state.highest, memory_order_relaxed) != 0 &&
           !atomic_load_explicit(&engine_state.context_ended, memory_order_relaxed) &&
           /* NCCL's own launches, where they pass the hooks: the issuer must never wait for itself. */
           (!atomic_load_explicit(&engine_state.collectives_ready, memory_order_acquire) ||
            operation->stream != engine_state.collectives.stream);
}

void
touches_begin(struct operation *operation)
{
    struct hits *hits = &thread_hits;
    operation->notes = NULL;
    if (!is_relevant(operation))
        return;
    if (operation->host_source != NULL)
        batches_copied(operation->host_source, operation->host_bytes);

    clear_hits(hits);
    hits->call_name = operation->name;
    bool opaque = operation->opaque;
    for (unsigned i = 0; i < operation->operand_count; ++i)
        look_at(hits, operation->operands[i].argument, operation->operands[i].address, operation->operands[i].bytes);
    if (operation->function != NULL && !look_at_launch(hits, operation)) {
        say_unreadable(hits->call_name);
        opaque = true;
    }
    if (operation->function == NULL && hits->count > 0)
        hits->call = call_identity(operation->name);
    if (opaque)
        note_opaque(operation);
    if (hits->count == 0)
        return;

    operation->notes = hits;
    refuse_capture(operation, hits);
    wait_for_reduction(operation->stream);
    if (begin_touches(hits))
        begin_late(operation, hits);
}

/* ---- after it ---- */

/* With lock held: one touch is enqueued. */
static void
count_touch(const struct hits *hits, const struct hit *hit, uint64_t stream_mask)
{
    if (engine_state.annotations_changed) { /* not agreed on yet: the boundary waits for the stream */
        engine_state.opaque_streams |= stream_mask;
        return;
    }
    tensor_gradient(hit->gradient)->touched_by |= stream_mask;
    history_touch(&engine_state.history, hit->gradient, (struct touch){hits->call, hit->argument});
    if (!engine_state.overlapping)
        return;
    if (!hits->begun || hits->boundary != engine_state.boundary_count)
        readiness_refused(&engine_state.readiness); /* a boundary came between, in another thread */
    else if (!hit->late)
        readiness_enqueued(&engine_state.readiness, hit->gradient);
}

static void
count_touches(const struct operation *operation, struct hits *hits, bool enqueued)
{
    pthread_mutex_lock(&engine_state.lock);
    uint64_t stream_mask = UINT64_C(1) << stream_index(operation->stream);
    for (size_t i = 0; i < hits->count && enqueued; ++i)
        count_touch(hits, &hits->items[i], stream_mask);
    if (enqueued)
        engine_state.touch_count += hits->count;
    else if (engine_state.overlapping)
        readiness_refused(&engine_state.readiness);
    bool overlapping = engine_state.overlapping;
    pthread_mutex_unlock(&engine_state.lock);
    if (overlapping)
        issue_ready();
}

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

    /* Another thread cannot name this one's default stream: its state is kept in the event, before the touch counts. */
    if (operation->stream == CU_STREAM_PER_THREAD) {
        pthread_mutex_lock(&engine_state.lock);
        CUevent event = engine_state.streams[stream_index(operation->stream)].event;
        pthread_mutex_unlock(&engine_state.lock);
        require_cuda(engine_state.driver.cuEventRecord_p(event, operation->stream), "cuEventRecord");
    }
    count_touches(operation, hits, enqueued);
    clear_hits(hits);
}
