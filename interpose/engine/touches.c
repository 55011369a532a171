/*
 * touches.c - which gradients does an operation touch, and what follows from it?
 *
 * Before the operation goes to the driver: whatever it must wait for (the last reduction; a bucket that has left
 * already). After it is enqueued: it counts as a touch, and may make buckets ready. Called from the hooks in every
 * thread of the trainer; an operation that touches nothing costs a few comparisons.
 */
#include "interpose/engine/measure.h"
#include "interpose/engine/state.h"

#include "base/message.h"
#include "base/mutant.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HITS_AT_HAND = 16 };

struct hit {
    struct group *group;
    size_t gradient; /* number in the group */
    struct ddp_site site;
    uint32_t argument;
    const char *operand_name; /* as in struct operand */
    bool uncounted;           /* it is between DDP_NO_SYNC_BEGIN and its end */
    bool declared;            /* the program itself says when the gradient is ready */
    bool begun;               /* the group's readiness was told, in the interval after: */
    uint64_t boundary;
    bool late;
    struct late_touch *measured; /* of a late touch whose effect is not known yet */
    CUevent ready_event;         /* to record after the touch that makes the gradient ready, where that is measured */
};

/* What one operation touches; one for each thread, because operations do not nest. */
struct hits {
    struct hit *items; /* few[], or malloc'ed while an operation touches more than fit there */
    struct hit few[HITS_AT_HAND];
    size_t count;
    size_t capacity;
    uint64_t call;
    const char *call_name;
    uint64_t agreements; /* when the gradients got their numbers */
    bool is_library;     /* it is a call of a library, not of the driver */
    bool on_buffer;      /* it touches a buffer */
    bool unseen;         /* it may touch held gradients besides, on a stream that the boundary does not know of yet */
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
add_hit(struct hits *hits, const struct tensor *tensor, const struct operand *operand)
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
    hits->items[hits->count++] = (struct hit){.group = &engine_state.groups[tensor->group],
                                              .gradient = tensor->member,
                                              .site = tensor->site,
                                              .argument = operand->argument,
                                              .operand_name = operand->name};
    hits->agreements = engine_state.agreements;
}

/* Adds every gradient that shares a byte with the operand. */
static void
look_at(struct hits *hits, const struct operand *operand)
{
    if (!may_hit(operand->address, operand->bytes))
        return;
    pthread_mutex_lock(&engine_state.lock);
    size_t count;
    const struct range *range = ranges_find(&engine_state.ranges, operand->address, operand->bytes, &count);
    for (size_t i = 0; i < (MUTANT(ONE_OF_MANY) && count > 1 ? 1 : count); ++i) {
        const struct tensor *tensor = &engine_state.tensors[range[i].id];
        if (tensor->role == TENSOR_PARAMETER ||
            !operand_reaches(operand, tensor->address, tensor->address + tensor->bytes))
            continue;
        if (tensor->role == TENSOR_GRADIENT)
            add_hit(hits, tensor, operand);
        else
            hits->on_buffer = true;
    }
    pthread_mutex_unlock(&engine_state.lock);
}

/* What the host has copied there may be overwritten. */
static void
forget_table(uint64_t address, size_t bytes)
{
    pthread_mutex_lock(&engine_state.lock);
    tables_touched(address, bytes);
    pthread_mutex_unlock(&engine_state.lock);
}

/* Every aligned word of the argument may be a pointer. */
static void
look_at_words(struct hits *hits, uint32_t argument, const void *value, size_t bytes)
{
    for (size_t at = 0; at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, (const char *)value + at, sizeof(word));
        if (visible_may_hold(word))
            visible_look_behind(word);
        if (tables_may_hold(word, 1))
            forget_table(word, 1);
        if (may_hit(word, 1) && !(MUTANT(STRUCTS_UNSEEN) && at > 0))
            look_at(hits, &(struct operand){.argument = argument | (uint32_t)(at / sizeof(word)) << WORD_SHIFT,
                                            .address = word,
                                            .bytes = 1});
    }
}

/* Returns false if the launch's arguments cannot be read. */
static bool
look_at_launch(struct hits *hits, const struct operation *operation)
{
    const struct function_layout *layout = function_layout(operation->function);
    hits->call = layout->call;
    hits->call_name = layout->name;
    if (!layout->known) {
        escape_blind_kernel(layout->name);
        return true;
    }
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

/* ---- before the operation ---- */

/* The call and, where it has a name, its operand, for a message: "cublasSgemm_v2 argument C". Returns `text`. */
static const char *
describe_hit(const struct hits *hits, const struct hit *hit, char text[CALL_TEXT_BYTES])
{
    bool named = hit->operand_name != NULL;
    snprintf(text, CALL_TEXT_BYTES, "%s%s%s", hits->call_name, named ? " argument " : "",
             named ? hit->operand_name : "");
    return text;
}

/* A captured operation runs when its graph does, which nobody here sees: refused, before anything is wrong. */
static void
refuse_capture(const struct operation *operation, const struct hits *hits)
{
    if (!stream_is_captured(operation->stream))
        return;
    struct ddp_site site = hits->items[0].site;
    char call[CALL_TEXT_BYTES];
    stop_job("%s on gradient `%s` (%s:%d) is captured into a CUDA graph, which ddprun cannot follow; "
             "run the trainer without CUDA graphs",
             describe_hit(hits, &hits->items[0], call), site.text, site.file, site.line);
}

/* With lock held: a touch is on its way. Returns whether its gradient has left already. */
static bool
begin_touch(const struct hits *hits, struct hit *hit)
{
    struct group *group = hit->group;
    hit->begun = group->overlapping && hits->agreements == engine_state.agreements;
    hit->boundary = group->boundary_count;
    if (engine_state.no_sync) {
        hit->late = hit->begun && readiness_has_left(&group->readiness, hit->gradient);
        hit->uncounted = true;
    } else if (hit->begun) {
        enum touch_verdict verdict =
            readiness_begin(&group->readiness, hit->gradient, (struct touch){hits->call, hit->argument});
        hit->late = verdict == TOUCH_LATE;
        hit->declared = verdict == TOUCH_UNCOUNTED;
    }
    return hit->late;
}

static bool
begin_touches(struct hits *hits)
{
    bool late = false;
    pthread_mutex_lock(&engine_state.lock);
    for (size_t i = 0; i < hits->count; ++i)
        late = begin_touch(hits, &hits->items[i]) || late;
    pthread_mutex_unlock(&engine_state.lock);
    return late;
}

/* Makes the stream wait for the buckets that have left with pieces of the gradient; the first of them in *bucket_p. */
static void
wait_for_buckets(CUstream stream, const struct hit *hit, size_t *bucket_p)
{
    const struct group *group = hit->group;
    pthread_mutex_lock(&engine_state.lock);
    size_t first = group->plan->bucket_of[hit->gradient], end = group->plan->last_bucket_of[hit->gradient] + 1;
    end = end < group->readiness.next_bucket ? end : group->readiness.next_bucket;
    pthread_mutex_unlock(&engine_state.lock);
    for (size_t k = first; k < end && !MUTANT(LATE_NOT_WAITED); ++k)
        require_cuda(engine_state.driver.cuStreamWaitEvent_p(stream, group->bucket_done[k], 0), "waiting for a bucket");
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
        struct tensor tensor = *tensor_gradient(hit->group, hit->gradient);
        pthread_mutex_unlock(&engine_state.lock);
        wait_for_buckets(operation->stream, hit, &bucket);
        issue_give_role();
        char call[CALL_TEXT_BYTES];
        hit->measured = checks_late_begin(operation, describe_hit(hits, hit, call), &tensor, bucket);
        flight_note(FLIGHT_LATE_TOUCH, bucket, 0, call);
    }
}

/*
 * Work that cannot be looked into may touch any gradient: nothing leaves before the boundary, which waits for its
 * stream. If gradients have left already, it may be overwriting averages. Returns whether the work is to be noted when
 * it is enqueued.
 */
static bool
note_opaque(const struct operation *operation)
{
    if (stream_is_captured(operation->stream))
        return false; /* it runs when its graph is launched, and that launch comes here too */
    stream_wait_for_reduction(operation->stream);

    bool too_late = false;
    pthread_mutex_lock(&engine_state.lock);
    uint64_t stream_mask = UINT64_C(1) << stream_index(operation->stream);
    for (int g = 0; g < GROUPS_AT_MOST; ++g) {
        struct group *group = &engine_state.groups[g];
        if (group->gradient_count == 0)
            continue; /* a first agreement waits for the whole device */
        group->opaque_streams |= stream_mask;
        group->history.lost = true;
        group->readiness.deviates = true;
        too_late = too_late || group->early_buckets > 0;
    }
    pthread_mutex_unlock(&engine_state.lock);
    if (too_late)
        stop_job(
            "%s came after gradients had been averaged, and ddprun cannot see what it writes; the steps before did "
            "without it. Run with --no-overlap",
            operation->name);
    return true;
}

static bool
is_copy(const struct operation *operation)
{
    static const char begin[] = "cuMemcpy";
    return operation->function == NULL && strncmp(operation->name, begin, sizeof(begin) - 1) == 0;
}

/* What a copy brings to the device may be addresses of gradients. The destination is a copy's first argument. */
static void
look_at_source(const struct operation *operation)
{
    for (unsigned i = 0; i < operation->operand_count; ++i) {
        const struct operand *operand = &operation->operands[i];
        if ((operand->argument & ((1u << OPERAND_LIST_SHIFT) - 1)) != 0)
            escape_from_anywhere(operand->address, operand->bytes);
    }
    if (operation->host_source == NULL)
        return;
    bool has_addresses = escape_from_host(operation->host_source, operation->host_bytes);
    const struct operand *to = operation->operand_count > 0 ? &operation->operands[0] : NULL;
    if (to == NULL || !(has_addresses || tables_may_hold(to->address, to->bytes)))
        return;
    pthread_mutex_lock(&engine_state.lock);
    tables_copied(to->address, to->bytes, has_addresses);
    pthread_mutex_unlock(&engine_state.lock);
}

/* Arrays of pointers: whether nobody knows what is in this one. */
static bool
is_unknown_array(const struct operand *operand)
{
    if (visible_has(operand->address, operand->bytes)) {
        visible_look_through(operand->address, operand->bytes);
        return false;
    }
    pthread_mutex_lock(&engine_state.lock);
    bool known = tables_know(operand->address, operand->bytes);
    pthread_mutex_unlock(&engine_state.lock);
    return !known;
}

/* Looks at what the call names. Returns whether it goes through pointers: *unknown_p, whether nobody knows which. */
static bool
look_at_operands(struct hits *hits, const struct operation *operation, bool *unknown_p)
{
    bool through_pointers = false;
    for (unsigned i = 0; i < operation->operand_count; ++i) {
        const struct operand *operand = &operation->operands[i];
        if (!MUTANT(OPERANDS_UNSEEN))
            look_at(hits, operand);
        if (operand->pointer_count > 0) {
            through_pointers = true;
            *unknown_p = is_unknown_array(operand) || *unknown_p;
        } else if (operation->host_source == NULL && operand->access != ACCESS_READ &&
                   tables_may_hold(operand->address, operand->bytes)) {
            forget_table(operand->address, operand->bytes);
        }
    }
    return through_pointers;
}

/* Said by rank 0, once. */
static void
say_unknown_array(const char *call)
{
    static _Atomic bool said;
    if (engine_state.rendezvous.rank == 0 && !atomic_exchange(&said, true))
        message_line("%s goes through an array of pointers that a kernel has made: nobody can see which gradients it "
                     "touches, and all are averaged at DDP_STEP, without overlap; an array that is copied from the "
                     "host can be followed",
                     call);
}

/* Whether anything that the engine follows can be touched at all. */
static bool
is_relevant(const struct operation *operation)
{
    return atomic_load_explicit(&engine_state.highest, memory_order_relaxed) != 0 &&
           !atomic_load_explicit(&engine_state.context_ended, memory_order_relaxed) &&
           /* NCCL's own launches, where they pass the hooks: the issuer must never wait for itself. */
           (!atomic_load_explicit(&engine_state.collectives_ready, memory_order_acquire) ||
            !collectives_own_stream(&engine_state.collectives, operation->stream));
}

void
touches_begin(struct operation *operation)
{
    struct hits *hits = &thread_hits;
    operation->notes = NULL;
    atomic_fetch_add_explicit(&engine_state.operation_count, 1, memory_order_relaxed);
    if (is_copy(operation))
        look_at_source(operation);
    if (!is_relevant(operation))
        return;
    miss_refresh();
    if (operation->host_source != NULL)
        batches_copied(operation->host_source, operation->host_bytes);

    clear_hits(hits);
    hits->call_name = operation->name;
    hits->on_buffer = false;
    hits->is_library = strncmp(operation->name, "cu", 2) != 0 || islower((unsigned char)operation->name[2]);
    bool opaque = operation->opaque, unknown = false;
    bool through_pointers = look_at_operands(hits, operation, &unknown);
    if (unknown) {
        say_unknown_array(operation->name);
        opaque = true;
    }
    if (operation->function != NULL && !look_at_launch(hits, operation))
        opaque = true;
    if (operation->function == NULL && hits->count > 0)
        hits->call = call_identity(operation->name);
    if (operation->opaque)
        flight_note(FLIGHT_GRAPH_LAUNCH, 0, 0, operation->name);
    bool noted = opaque && note_opaque(operation);
    hits->unseen = atomic_load_explicit(&engine_state.holds, memory_order_relaxed) &&
                   (operation->function != NULL || through_pointers) && escape_begin_kernel(operation->stream);
    if (hits->on_buffer && !stream_is_captured(operation->stream))
        stream_wait_for_reduction(operation->stream);
    if (hits->count > 0 || hits->unseen || hits->on_buffer || noted)
        operation->notes = hits;
    if (hits->count == 0)
        return;

    refuse_capture(operation, hits);
    stream_wait_for_reduction(operation->stream);
    if (begin_touches(hits))
        begin_late(operation, hits);
}

/* ---- after it ---- */

/* With lock held: one touch is enqueued. */
static void
count_touch(const struct hits *hits, struct hit *hit, uint64_t stream_mask)
{
    struct group *group = hit->group;
    ++group->touch_count;
    /* Not agreed on yet, or an agreement came between, in another thread: the boundary waits for the stream. */
    if (engine_state.annotations_changed || hits->agreements != engine_state.agreements) {
        group->opaque_streams |= stream_mask;
        return;
    }
    struct tensor *tensor = tensor_gradient(group, hit->gradient);
    tensor->touched_by |= stream_mask;
    tensor->by_library = tensor->by_library || hits->is_library;
    if (hit->uncounted) {
        history_touch_uncounted(&group->history, hit->gradient);
        return;
    }
    history_touch(&group->history, hit->gradient, (struct touch){hits->call, hit->argument});
    if (!group->overlapping || hit->declared)
        return;
    if (!hit->begun || hit->boundary != group->boundary_count)
        readiness_refused(&group->readiness); /* a boundary came between, in another thread */
    else if (!hit->late && readiness_enqueued(&group->readiness, hit->gradient))
        hit->ready_event = measure_ready_event(group, hit->gradient);
}

static void
count_touches(const struct operation *operation, struct hits *hits, bool enqueued)
{
    bool overlapping = false;
    pthread_mutex_lock(&engine_state.lock);
    uint64_t stream_mask = UINT64_C(1) << stream_index(operation->stream);
    if (hits->on_buffer)
        engine_state.buffer_streams |= stream_mask;
    if (hits->unseen)
        escape_end_kernel(stream_mask);
    for (size_t i = 0; i < hits->count; ++i) {
        struct hit *hit = &hits->items[i];
        overlapping = overlapping || hit->group->overlapping;
        if (enqueued)
            count_touch(hits, hit, stream_mask);
        else if (hit->group->overlapping)
            readiness_refused(&hit->group->readiness);
    }
    pthread_mutex_unlock(&engine_state.lock);
    for (size_t i = 0; i < hits->count; ++i) {
        if (hits->items[i].ready_event != NULL)
            require_cuda(engine_state.driver.cuEventRecord_p(hits->items[i].ready_event, operation->stream),
                         "cuEventRecord after a gradient");
    }
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

    stream_note_work(operation->stream); /* before the touch counts */
    count_touches(operation, hits, enqueued);
    clear_hits(hits);
}
