/* order_model.c - see order_model.h. */
#include "order_model.h"

#include <string.h>

/* ---- sets ---- */

static void
unite(struct set *set, const struct set *other)
{
    for (int i = 0; i < WORDS; ++i)
        set->words[i] |= other->words[i];
}

static void
intersect(struct set *set, const struct set *other)
{
    for (int i = 0; i < WORDS; ++i)
        set->words[i] &= other->words[i];
}

static void
include(struct set *set, int number)
{
    set->words[number / 64] |= UINT64_C(1) << number % 64;
}

/* ---- the model ---- */

static bool
surely_before(const struct operation *first, const struct operation *second)
{
    return first->back < second->call;
}

/* Takes part in the order of its stream. A wait that may have been for nothing does not: see model_wait(). */
static bool
is_command(const struct operation *operation)
{
    return is_work(operation) || operation->kind == FILL || operation->kind == RECORD ||
           operation->kind == WAIT_EVENT || operation->kind == COPY;
}

/* Rules 1, 2 and 3: what the calls before `operation` imply for it if it goes into `stream`. */
static void
model_stream(const struct program *program, const struct operation *operation, int stream, struct set *set)
{
    for (int i = 0; i < OPERATIONS; ++i) {
        const struct operation *earlier = &program->operations[i];
        if (!is_command(earlier) || !surely_before(earlier, operation))
            continue;
        bool barrier = (stream == LEGACY_STREAM && blocking(earlier->stream)) ||
                       (blocking(stream) && earlier->stream == LEGACY_STREAM);
        if (earlier->stream == stream || barrier)
            unite(set, &earlier->after);
    }
}

/*
 * Rule 4: what the latest record of the event at the time of `operation` covers, and nothing if there may have been
 * none. Candidates are the records that may be before it and have no other record surely in between.
 */
static bool
model_event(const struct program *program, const struct operation *operation, struct set *set)
{
    struct set common;
    bool any = false, sure = false;
    memset(&common, 0xff, sizeof common);
    for (int i = 0; i < OPERATIONS; ++i) {
        const struct operation *record = &program->operations[i];
        if (record->kind != RECORD || record->event != operation->event || record->call > operation->back)
            continue;
        bool replaced = false;
        for (int k = 0; k < OPERATIONS && !replaced; ++k) {
            const struct operation *other = &program->operations[k];
            replaced = other->kind == RECORD && other->event == operation->event && surely_before(record, other) &&
                       surely_before(other, operation);
        }
        if (replaced)
            continue;
        any = true;
        sure = sure || surely_before(record, operation);
        intersect(&common, &record->before);
    }
    if (!any || !sure)
        return false;
    unite(set, &common);
    return true;
}

/* Rule 5: what the host has waited for before this call. */
static void
model_host(const struct program *program, const struct operation *operation, struct set *set)
{
    for (int i = 0; i < OPERATIONS; ++i) {
        const struct operation *wait = &program->operations[i];
        if (host_waited(wait) && surely_before(wait, operation))
            unite(set, &wait->after);
    }
}

static void
model_host_wait(const struct program *program, struct operation *operation)
{
    switch (operation->kind) {
    case SYNC_EVENT:
        (void)model_event(program, operation, &operation->after);
        break;
    case SYNC_CONTEXT:
        for (int i = 0; i < STREAMS; ++i)
            model_stream(program, operation, i, &operation->after);
        break;
    default:
        model_stream(program, operation, operation->stream, &operation->after);
    }
}

static void
model_operation(const struct program *program, struct operation *operation, int number)
{
    if (operation->kind == NOTHING)
        return;
    if (host_waited(operation)) {
        model_host_wait(program, operation);
        operation->before = operation->after;
        return;
    }
    model_host(program, operation, &operation->before);
    if (operation->kind == WAIT_EVENT && !model_event(program, operation, &operation->before)) {
        memset(&operation->before, 0, sizeof operation->before); /* no promise, not even a barrier */
        return;
    }
    model_stream(program, operation, operation->stream, &operation->before);
    operation->after = operation->before;
    if (is_work(operation))
        include(&operation->after, number);
}

static int
by_call(const void *left, const void *right)
{
    const struct operation *a = *(struct operation *const *)left, *b = *(struct operation *const *)right;
    return a->call < b->call ? -1 : a->call > b->call;
}

/*
 * In the order in which the calls began: what is surely before a call has begun before it. A candidate record that
 * began later than the wait it may belong to still lacks its sets, which then have nothing in common: no promise.
 */
void
model_program(struct program *program)
{
    struct operation *order[OPERATIONS];
    for (int i = 0; i < OPERATIONS; ++i)
        order[i] = &program->operations[i];
    qsort(order, OPERATIONS, sizeof order[0], by_call);
    for (int i = 0; i < OPERATIONS; ++i)
        model_operation(program, order[i], (int)(order[i] - program->operations));
}
