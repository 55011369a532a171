/*
 * readiness.c - see readiness.h.
 */
#include "bucketing/readiness.h"

#include "base/assertion.h"

#include <stdlib.h>
#include <string.h>

static bool
copy_list(struct touch_list *to, const struct touch_list *from)
{
    to->touches = malloc((from->count + 1) * sizeof(to->touches[0]));
    if (to->touches == NULL)
        return false;
    if (from->count > 0)
        memcpy(to->touches, from->touches, from->count * sizeof(to->touches[0]));
    to->count = to->capacity = from->count;
    to->open = from->open;
    return true;
}

/* Of each bucket, how many of its gradients are not ready. */
static void
count_pending(struct readiness *readiness)
{
    const struct plan *plan = readiness->plan;
    for (size_t k = 0; k < plan->bucket_count; ++k) {
        readiness->pending[k] = plan->buckets[k].count;
        readiness->states[k] = BUCKET_FILLING;
    }
    for (size_t i = 0; i < plan->gradient_count; ++i) {
        for (size_t k = plan->bucket_of[i]; readiness->ready[i] && k <= plan->last_bucket_of[i]; ++k) {
            ASSERT(readiness->pending[k] > 0);
            if (--readiness->pending[k] == 0)
                readiness->states[k] = BUCKET_READY;
        }
    }
    readiness->launched = 0;
    readiness->next_bucket = 0;
}

static void
begin_interval(struct readiness *readiness)
{
    const struct plan *plan = readiness->plan;
    memset(readiness->begun, 0, plan->gradient_count * sizeof(readiness->begun[0]));
    memset(readiness->enqueued, 0, plan->gradient_count * sizeof(readiness->enqueued[0]));
    memset(readiness->ready, 0, plan->gradient_count * sizeof(readiness->ready[0]));
    memset(readiness->unlike, 0, plan->gradient_count * sizeof(readiness->unlike[0]));
    count_pending(readiness);
    readiness->deviates = readiness->closed = false;
}

bool
readiness_init(struct readiness *readiness, const struct plan *plan, const struct history *history)
{
    ASSERT(history == NULL || history->gradient_count == plan->gradient_count);
    *readiness = (struct readiness){.plan = plan};
    readiness->expected = calloc(plan->gradient_count + 1, sizeof(readiness->expected[0]));
    readiness->optional = calloc(plan->gradient_count + 1, sizeof(readiness->optional[0]));
    readiness->begun = calloc(plan->gradient_count + 1, sizeof(readiness->begun[0]));
    readiness->enqueued = calloc(plan->gradient_count + 1, sizeof(readiness->enqueued[0]));
    readiness->ready = calloc(plan->gradient_count + 1, sizeof(readiness->ready[0]));
    readiness->unlike = calloc(plan->gradient_count + 1, sizeof(readiness->unlike[0]));
    readiness->held = calloc(plan->gradient_count + 1, sizeof(readiness->held[0]));
    readiness->pending = calloc(plan->bucket_count + 1, sizeof(readiness->pending[0]));
    readiness->states = calloc(plan->bucket_count + 1, sizeof(readiness->states[0]));
    readiness->last = calloc(plan->bucket_count + 1, sizeof(readiness->last[0]));
    const void *const made[] = {readiness->expected, readiness->optional, readiness->begun, readiness->enqueued,
                                readiness->ready,    readiness->unlike,   readiness->held,  readiness->pending,
                                readiness->states,   readiness->last};
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); ++i) {
        if (made[i] == NULL)
            return false;
    }

    for (size_t i = 0; history != NULL && i < plan->gradient_count; ++i) {
        if (!copy_list(&readiness->expected[i], &history->previous[i]))
            return false;
    }
    if (history != NULL)
        readiness_learn_optional(readiness, history);
    begin_interval(readiness);
    return true;
}

void
readiness_free(struct readiness *readiness)
{
    for (size_t i = 0; readiness->expected != NULL && i < readiness->plan->gradient_count; ++i)
        free(readiness->expected[i].touches);
    free(readiness->expected);
    free(readiness->optional);
    free(readiness->begun);
    free(readiness->enqueued);
    free(readiness->ready);
    free(readiness->unlike);
    free(readiness->held);
    free(readiness->pending);
    free(readiness->states);
    free(readiness->last);
    *readiness = (struct readiness){0};
}

void
readiness_learn_optional(struct readiness *readiness, const struct history *history)
{
    for (size_t i = 0; i < readiness->plan->gradient_count; ++i) {
        struct touch_list *expected = &readiness->expected[i];
        size_t kept = 0;
        if (readiness->optional[i].count == history->optional[i].count)
            continue;
        readiness->optional[i] = history->optional[i];
        for (size_t at = 0; at < expected->count; ++at) {
            if (!touch_is_optional(&readiness->optional[i], expected->touches[at]))
                expected->touches[kept++] = expected->touches[at];
        }
        expected->count = kept;
    }
}

bool
readiness_fits(const struct readiness *readiness, const struct history *history)
{
    for (size_t i = 0; i < readiness->plan->gradient_count; ++i) {
        if (!readiness->held[i] &&
            !touch_list_equal(&readiness->expected[i], &history->previous[i], &history->optional[i]))
            return false;
    }
    return true;
}

/* Whether it is the touch that was learned after `before` others. */
static bool
is_expected(const struct readiness *readiness, size_t gradient, size_t before, struct touch touch)
{
    const struct touch_list *expected = &readiness->expected[gradient];
    return before < expected->count && expected->touches[before].call == touch.call &&
           expected->touches[before].argument == touch.argument;
}

/* Whether it is optional, and no fixed touch has come. */
static bool
may_be_left_out(const struct readiness *readiness, size_t gradient, struct touch touch)
{
    const struct touch_list *expected = &readiness->expected[gradient];
    if (!touch_is_optional(&readiness->optional[gradient], touch))
        return false;
    for (size_t i = 0; i < readiness->begun[gradient]; ++i) {
        if (i >= expected->count || (expected->touches[i].argument & TOUCH_FIXED) != 0)
            return false;
    }
    return true;
}

bool
readiness_is_declared(const struct readiness *readiness, size_t gradient)
{
    const struct touch_list *expected = &readiness->expected[gradient];
    return expected->count > 0 && expected->touches[0].call == TOUCH_DECLARES;
}

/* Whether a piece of it is on its way. */
static bool
is_launched(const struct readiness *readiness, size_t gradient)
{
    return readiness->states[readiness->plan->bucket_of[gradient]] == BUCKET_LAUNCHED;
}

/* The gradient is not ready any more: nor are its buckets. */
static void
make_unready(struct readiness *readiness, size_t gradient)
{
    const struct plan *plan = readiness->plan;
    if (!readiness->ready[gradient])
        return;
    readiness->ready[gradient] = false;
    for (size_t k = plan->bucket_of[gradient]; k <= plan->last_bucket_of[gradient]; ++k) {
        ++readiness->pending[k];
        if (readiness->states[k] == BUCKET_READY)
            readiness->states[k] = BUCKET_FILLING;
    }
}

enum touch_verdict
readiness_begin(struct readiness *readiness, size_t gradient, struct touch touch)
{
    ASSERT(gradient < readiness->plan->gradient_count);
    if (is_launched(readiness, gradient)) {
        readiness->deviates = true;
        return TOUCH_UNCOUNTED;
    }
    if (readiness_is_declared(readiness, gradient) && (touch.call != TOUCH_DECLARES || readiness->begun[gradient] > 0))
        return TOUCH_UNCOUNTED;
    if (!readiness->held[gradient] && may_be_left_out(readiness, gradient, touch))
        return TOUCH_UNCOUNTED;
    bool expected = readiness->held[gradient] || is_expected(readiness, gradient, readiness->begun[gradient], touch);
    ++readiness->begun[gradient];
    if (expected)
        return TOUCH_EXPECTED;
    readiness->deviates = readiness->unlike[gradient] = true;
    make_unready(readiness, gradient);
    return TOUCH_DEVIATES;
}

/* How many touches make the gradient ready; 0: none ever does, it waits for the boundary. */
static size_t
touches_until_ready(const struct readiness *readiness, size_t gradient)
{
    if (readiness->held[gradient] || readiness->unlike[gradient])
        return 0;
    if (readiness_is_declared(readiness, gradient))
        return 1;
    return readiness->expected[gradient].open ? 0 : readiness->expected[gradient].count;
}

bool
readiness_completes(const struct readiness *readiness, size_t gradient)
{
    size_t until = touches_until_ready(readiness, gradient);
    return until > 0 && readiness->begun[gradient] == until;
}

bool
readiness_enqueued(struct readiness *readiness, size_t gradient)
{
    const struct plan *plan = readiness->plan;
    ASSERT(readiness->enqueued[gradient] < readiness->begun[gradient]);
    if (++readiness->enqueued[gradient] != touches_until_ready(readiness, gradient))
        return false;
    ASSERT(!readiness->ready[gradient]);
    readiness->ready[gradient] = true;
    for (size_t k = plan->bucket_of[gradient]; k <= plan->last_bucket_of[gradient]; ++k) {
        ASSERT(readiness->pending[k] > 0);
        if (--readiness->pending[k] == 0 && readiness->states[k] == BUCKET_FILLING)
            readiness->states[k] = BUCKET_READY;
    }
    return true;
}

void
readiness_hold(struct readiness *readiness, size_t gradient)
{
    make_unready(readiness, gradient);
    readiness->held[gradient] = true;
}

void
readiness_put_last(struct readiness *readiness, size_t bucket)
{
    ASSERT(readiness->launched == 0 && bucket < readiness->plan->bucket_count);
    readiness->last[bucket] = true;
}

bool
readiness_switch(struct readiness *readiness, const struct plan *plan)
{
    ASSERT(readiness->launched == 0 && readiness->plan->gradient_count == plan->gradient_count);
    size_t *pending = calloc(plan->bucket_count + 1, sizeof(*pending));
    enum bucket_state *states = calloc(plan->bucket_count + 1, sizeof(*states));
    bool *last = calloc(plan->bucket_count + 1, sizeof(*last));
    if (pending == NULL || states == NULL || last == NULL) {
        free(pending);
        free(states);
        free(last);
        return false;
    }
    free(readiness->pending);
    free(readiness->states);
    free(readiness->last);
    readiness->pending = pending;
    readiness->states = states;
    readiness->last = last;
    readiness->plan = plan;
    count_pending(readiness);
    return true;
}

void
readiness_close(struct readiness *readiness)
{
    readiness->closed = true;
}

void
readiness_take_back(struct readiness *readiness)
{
    count_pending(readiness);
    readiness->closed = true;
}

/* The next bucket in order of those that are launched last, or of the others; bucket_count: there is none. */
static size_t
find_next(const struct readiness *readiness, size_t from, bool last)
{
    size_t next = from;
    while (next < readiness->plan->bucket_count &&
           (readiness->last[next] != last || readiness->states[next] == BUCKET_LAUNCHED))
        ++next;
    return next;
}

static bool
launch(struct readiness *readiness, size_t bucket, size_t *bucket_p)
{
    if (bucket == readiness->plan->bucket_count)
        return false;
    ASSERT(readiness->states[bucket] != BUCKET_LAUNCHED);
    readiness->states[bucket] = BUCKET_LAUNCHED;
    ++readiness->launched;
    *bucket_p = bucket;
    return true;
}

bool
readiness_launch(struct readiness *readiness, size_t *bucket_p)
{
    readiness->next_bucket = find_next(readiness, readiness->next_bucket, false);
    size_t next = readiness->next_bucket;
    if (readiness->closed || next == readiness->plan->bucket_count || readiness->states[next] != BUCKET_READY)
        return false;
    ASSERT(readiness->pending[next] == 0);
    return launch(readiness, next, bucket_p);
}

bool
readiness_launch_unready(struct readiness *readiness, size_t *bucket_p)
{
    readiness->next_bucket = find_next(readiness, readiness->next_bucket, false);
    return launch(readiness, readiness->next_bucket, bucket_p);
}

bool
readiness_launch_last(struct readiness *readiness, size_t *bucket_p)
{
    return launch(readiness, find_next(readiness, 0, true), bucket_p);
}

void
readiness_boundary(struct readiness *readiness)
{
    ASSERT(readiness->launched == readiness->plan->bucket_count);
    begin_interval(readiness);
}

void
readiness_boundary_in_graph(struct readiness *readiness)
{
    ASSERT(readiness->launched == 0);
    begin_interval(readiness);
}
