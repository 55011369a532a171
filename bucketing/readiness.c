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

static void
begin_interval(struct readiness *readiness)
{
    const struct plan *plan = readiness->plan;
    memset(readiness->begun, 0, plan->gradient_count * sizeof(readiness->begun[0]));
    memset(readiness->enqueued, 0, plan->gradient_count * sizeof(readiness->enqueued[0]));
    memset(readiness->anew, 0, plan->gradient_count * sizeof(readiness->anew[0]));
    memset(readiness->late, 0, plan->gradient_count * sizeof(readiness->late[0]));
    readiness->late_count = 0;
    for (size_t k = 0; k < plan->bucket_count; ++k) {
        readiness->pending[k] = plan->buckets[k].count;
        readiness->states[k] = BUCKET_FILLING;
    }
    readiness->next_bucket = 0;
    readiness->deviates = false;
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
    readiness->anew = calloc(plan->gradient_count + 1, sizeof(readiness->anew[0]));
    readiness->late = calloc(plan->gradient_count + 1, sizeof(readiness->late[0]));
    readiness->held = calloc(plan->gradient_count + 1, sizeof(readiness->held[0]));
    readiness->pending = calloc(plan->bucket_count + 1, sizeof(readiness->pending[0]));
    readiness->states = calloc(plan->bucket_count + 1, sizeof(readiness->states[0]));
    const void *const made[] = {readiness->expected, readiness->optional, readiness->begun,
                                readiness->enqueued, readiness->anew,     readiness->late,
                                readiness->held,     readiness->pending,  readiness->states};
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
    free(readiness->anew);
    free(readiness->late);
    free(readiness->held);
    free(readiness->pending);
    free(readiness->states);
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

enum touch_verdict
readiness_begin(struct readiness *readiness, size_t gradient, struct touch touch)
{
    ASSERT(gradient < readiness->plan->gradient_count);
    if (readiness->states[readiness->plan->bucket_of[gradient]] == BUCKET_LAUNCHED) {
        readiness->deviates = true;
        if (readiness->late[gradient] == 0)
            readiness->late[gradient] = ++readiness->late_count;
        readiness->anew[gradient] += is_expected(readiness, gradient, readiness->anew[gradient], touch);
        return TOUCH_LATE;
    }
    if (readiness_is_declared(readiness, gradient) && (touch.call != TOUCH_DECLARES || readiness->begun[gradient] > 0))
        return TOUCH_UNCOUNTED;
    if (!readiness->held[gradient] && may_be_left_out(readiness, gradient, touch))
        return TOUCH_UNCOUNTED;
    bool expected = readiness->held[gradient] || is_expected(readiness, gradient, readiness->begun[gradient], touch);
    ++readiness->begun[gradient];
    if (!expected)
        readiness->deviates = true;
    return expected ? TOUCH_EXPECTED : TOUCH_DEVIATES;
}

/* How many touches make the gradient ready; 0: none ever does, it waits for the boundary. */
static size_t
touches_until_ready(const struct readiness *readiness, size_t gradient)
{
    size_t count = readiness->expected[gradient].open ? 0 : readiness->expected[gradient].count;
    if (readiness_is_declared(readiness, gradient))
        return 1;
    return count;
}

bool
readiness_completes(const struct readiness *readiness, size_t gradient)
{
    return !readiness->held[gradient] && readiness->begun[gradient] == touches_until_ready(readiness, gradient);
}

bool
readiness_enqueued(struct readiness *readiness, size_t gradient)
{
    ASSERT(readiness->enqueued[gradient] < readiness->begun[gradient]);
    if (++readiness->enqueued[gradient] != touches_until_ready(readiness, gradient) || readiness->held[gradient])
        return false;
    for (size_t k = readiness->plan->bucket_of[gradient]; k <= readiness->plan->last_bucket_of[gradient]; ++k) {
        ASSERT(readiness->pending[k] > 0);
        if (--readiness->pending[k] == 0 && readiness->states[k] == BUCKET_FILLING)
            readiness->states[k] = BUCKET_READY;
    }
    return true;
}

bool
readiness_begins_anew(const struct readiness *readiness, size_t gradient)
{
    return readiness->anew[gradient] > 0;
}

bool
readiness_is_another_pass(const struct readiness *readiness)
{
    const struct plan *plan = readiness->plan;
    size_t end = 0; /* pieces of launched buckets */
    for (size_t k = 0; k < readiness->next_bucket; ++k)
        end = plan->buckets[k].first + plan->buckets[k].count;
    size_t before = 1; /* when the piece before was touched */
    for (size_t i = 0; i < end; ++i) {
        size_t late = readiness->late[plan->pieces[i].gradient];
        if (late < before)
            return false;
        before = late;
    }
    return end > 0;
}

bool
readiness_has_left(const struct readiness *readiness, size_t gradient)
{
    return readiness->states[readiness->plan->bucket_of[gradient]] == BUCKET_LAUNCHED;
}

void
readiness_hold(struct readiness *readiness, size_t gradient)
{
    size_t until = touches_until_ready(readiness, gradient);
    bool was_ready = until > 0 && readiness->enqueued[gradient] >= until;
    if (readiness->held[gradient])
        return;
    readiness->held[gradient] = true;
    for (size_t k = readiness->plan->bucket_of[gradient]; k <= readiness->plan->last_bucket_of[gradient]; ++k) {
        readiness->pending[k] += was_ready;
        if (readiness->states[k] == BUCKET_READY)
            readiness->states[k] = BUCKET_FILLING;
    }
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
        size_t until = touches_until_ready(readiness, i);
        bool ready = until > 0 && readiness->enqueued[i] >= until && !readiness->held[i];
        for (size_t k = plan->bucket_of[i]; ready && k <= plan->last_bucket_of[i]; ++k) {
            ASSERT(readiness->pending[k] > 0);
            if (--readiness->pending[k] == 0)
                readiness->states[k] = BUCKET_READY;
        }
    }
    readiness->next_bucket = 0;
}

bool
readiness_switch(struct readiness *readiness, const struct plan *plan)
{
    ASSERT(readiness->next_bucket == 0 && readiness->plan->gradient_count == plan->gradient_count);
    size_t *pending = calloc(plan->bucket_count + 1, sizeof(*pending));
    enum bucket_state *states = calloc(plan->bucket_count + 1, sizeof(*states));
    if (pending == NULL || states == NULL) {
        free(pending);
        free(states);
        return false;
    }
    free(readiness->pending);
    free(readiness->states);
    readiness->pending = pending;
    readiness->states = states;
    readiness->plan = plan;
    count_pending(readiness);
    return true;
}

void
readiness_withhold(struct readiness *readiness)
{
    readiness->deviates = true;
}

static bool
launch_next(struct readiness *readiness, size_t *bucket_p)
{
    ASSERT(readiness->states[readiness->next_bucket] != BUCKET_LAUNCHED);
    readiness->states[readiness->next_bucket] = BUCKET_LAUNCHED;
    *bucket_p = readiness->next_bucket++;
    return true;
}

bool
readiness_launch(struct readiness *readiness, size_t *bucket_p)
{
    if (readiness->deviates || readiness->next_bucket == readiness->plan->bucket_count ||
        readiness->states[readiness->next_bucket] != BUCKET_READY)
        return false;
    ASSERT(readiness->pending[readiness->next_bucket] == 0);
    return launch_next(readiness, bucket_p);
}

bool
readiness_flush(struct readiness *readiness, size_t *bucket_p)
{
    return readiness->next_bucket < readiness->plan->bucket_count && launch_next(readiness, bucket_p);
}

void
readiness_boundary(struct readiness *readiness)
{
    ASSERT(readiness->next_bucket == readiness->plan->bucket_count);
    begin_interval(readiness);
}

void
readiness_boundary_in_graph(struct readiness *readiness)
{
    ASSERT(readiness->next_bucket == 0);
    begin_interval(readiness);
}
