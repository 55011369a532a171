/*
 * history.c - see history.h.
 */
#include "bucketing/history.h"

#include "base/assertion.h"

#include <stdlib.h>
#include <string.h>

/* A touch costs 16 bytes; a gradient touched more often than this in one interval is not worth following. */
enum { TOUCHES_AT_MOST = 1 << 16 };

/* How many intervals in a row must be equal, once some have not been. */
enum { STREAK_OF_OTHERS = 8, STREAK_FOR_EACH_CHANGE = 64 };

/* While a plan is in force: of 64 intervals two may be others. Each differs from the one before, and so does the one
 * after it. */
enum { DIFFERENCES_AT_MOST = 4 };

bool
history_init(struct history *history, size_t gradient_count)
{
    *history = (struct history){.gradient_count = gradient_count};
    history->current = calloc(gradient_count + 1, sizeof(*history->current));
    history->previous = calloc(gradient_count + 1, sizeof(*history->previous));
    history->last_touch = calloc(gradient_count + 1, sizeof(*history->last_touch));
    history->previous_last_touch = calloc(gradient_count + 1, sizeof(*history->previous_last_touch));
    history->ignored = calloc(gradient_count + 1, sizeof(*history->ignored));
    history->optional = calloc(gradient_count + 1, sizeof(*history->optional));
    history->changes = calloc(gradient_count + 1, sizeof(*history->changes));
    history->streak = calloc(gradient_count + 1, sizeof(*history->streak));
    history->recent = calloc(gradient_count + 1, sizeof(*history->recent));
    history->unsteady = calloc(gradient_count + 1, sizeof(*history->unsteady));
    const void *const made[] = {history->current, history->previous, history->last_touch, history->previous_last_touch,
                                history->ignored, history->optional, history->changes,    history->streak,
                                history->recent,  history->unsteady};
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); ++i) {
        if (made[i] == NULL)
            return false;
    }
    return true;
}

static void
free_lists(struct touch_list *lists, size_t count)
{
    for (size_t i = 0; lists != NULL && i < count; ++i)
        free(lists[i].touches);
    free(lists);
}

void
history_free(struct history *history)
{
    free_lists(history->current, history->gradient_count);
    free_lists(history->previous, history->gradient_count);
    free(history->last_touch);
    free(history->previous_last_touch);
    free(history->optional);
    free(history->ignored);
    free(history->changes);
    free(history->streak);
    free(history->recent);
    free(history->unsteady);
    *history = (struct history){0};
}

static bool
append_touch(struct touch_list *list, struct touch touch)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 8 : 2 * list->capacity;
        if (capacity > TOUCHES_AT_MOST)
            return false;
        struct touch *grown = realloc(list->touches, capacity * sizeof(*grown));
        if (grown == NULL)
            return false;
        list->touches = grown;
        list->capacity = capacity;
    }
    list->touches[list->count++] = touch;
    return true;
}

void
history_touch(struct history *history, size_t gradient, struct touch touch)
{
    ASSERT(gradient < history->gradient_count);
    if (history->ignored[gradient])
        return;
    history->last_touch[gradient] = ++history->touch_count;
    history->current[gradient].open = false;
    if (!append_touch(&history->current[gradient], touch))
        history->lost = true;
}

void
history_touch_uncounted(struct history *history, size_t gradient)
{
    ASSERT(gradient < history->gradient_count);
    history->current[gradient].open = true;
}

void
history_declare(struct history *history, size_t gradient)
{
    ASSERT(gradient < history->gradient_count);
    history->ignored[gradient] = false;
    history->current[gradient].count = 0;
    history_touch(history, gradient, (struct touch){TOUCH_DECLARES, 0});
}

void
history_ignore(struct history *history, size_t gradient)
{
    ASSERT(gradient < history->gradient_count);
    history->ignored[gradient] = true;
    history->last_touch[gradient] = history->previous_last_touch[gradient] = 0;
}

static bool
touch_equal(const struct touch *a, const struct touch *b)
{
    return a->call == b->call && a->argument == b->argument;
}

/* ---- touches that some intervals lack ---- */

bool
touch_is_optional(const struct optional_touches *optional, struct touch touch)
{
    for (size_t i = 0; i < optional->count; ++i) {
        if (touch_equal(&optional->touches[i], &touch))
            return true;
    }
    return false;
}

static size_t
skip_optional(const struct touch_list *list, size_t at, const struct optional_touches *optional)
{
    while (at < list->count && touch_is_optional(optional, list->touches[at]))
        ++at;
    return at;
}

/* Whether the lists are equal without what is optional, wherever that is. If not: *at_a, *at_b, where they differ. */
static bool
find_difference(const struct touch_list *a, const struct touch_list *b, const struct optional_touches *optional,
                size_t *at_a, size_t *at_b)
{
    size_t i = skip_optional(a, 0, optional), j = skip_optional(b, 0, optional);
    while (i < a->count && j < b->count && touch_equal(&a->touches[i], &b->touches[j])) {
        i = skip_optional(a, i + 1, optional);
        j = skip_optional(b, j + 1, optional);
    }
    *at_a = i;
    *at_b = j;
    return i == a->count && j == b->count && a->open == b->open;
}

/* Whether what is optional comes in front of the first fixed touch. */
static bool
is_in_front(const struct touch_list *list, const struct optional_touches *optional)
{
    bool fixed = false, any = false;
    for (size_t i = 0; i < list->count && optional->count > 0; ++i) {
        bool is_optional = touch_is_optional(optional, list->touches[i]);
        if (is_optional && fixed)
            return false;
        any = any || is_optional;
        fixed = fixed || (list->touches[i].argument & TOUCH_FIXED) != 0;
    }
    return fixed || !any;
}

bool
touch_list_equal(const struct touch_list *a, const struct touch_list *b, const struct optional_touches *optional)
{
    size_t at_a, at_b;
    return find_difference(a, b, optional, &at_a, &at_b) && is_in_front(a, optional) && is_in_front(b, optional);
}

static bool
has_touch(const struct touch_list *list, const struct touch *touch)
{
    size_t at = 0;
    while (at < list->count && !touch_equal(&list->touches[at], touch))
        ++at;
    return at < list->count;
}

/* Of two touches where the lists differ, the one to do without: not one of the other list, if it can be helped. */
static const struct touch *
choose_odd(const struct touch_list *a, size_t i, const struct touch_list *b, size_t j)
{
    const struct touch *of_a = i < a->count ? &a->touches[i] : NULL, *of_b = j < b->count ? &b->touches[j] : NULL;
    if (of_a != NULL && !has_touch(b, of_a))
        return of_a;
    if (of_b != NULL && !has_touch(a, of_b))
        return of_b;
    return of_a != NULL && (of_a->argument & TOUCH_FIXED) == 0 ? of_a : of_b;
}

/* The lists differ. Makes touches optional, if the lists are then equal. */
static bool
explain_difference(const struct touch_list *a, const struct touch_list *b, struct optional_touches *optional)
{
    struct optional_touches grown = *optional;
    size_t i, j;
    while (!find_difference(a, b, &grown, &i, &j)) {
        const struct touch *odd = choose_odd(a, i, b, j);
        if (odd == NULL || grown.count == OPTIONAL_AT_MOST || odd->call == TOUCH_DECLARES ||
            (odd->argument & TOUCH_FIXED) != 0)
            return false;
        grown.touches[grown.count++] = *odd;
    }
    if (!touch_list_equal(a, b, &grown))
        return false;
    *optional = grown;
    return true;
}

/* The length of the shortest sequence of which the list consists, repeated. */
static size_t
period_of(const struct touch_list *list)
{
    for (size_t period = 1; period <= list->count / 2; ++period) {
        size_t at = list->count % period == 0 ? period : SIZE_MAX;
        while (at < list->count && touch_equal(&list->touches[at], &list->touches[at - period]))
            ++at;
        if (at == list->count)
            return period;
    }
    return list->count;
}

bool
history_is_of_several(const struct history *history)
{
    bool differ = false;
    for (size_t i = 0; i < history->gradient_count && history->interval_count > 0 && !history->lost; ++i) {
        const struct touch_list *list = &history->current[i];
        if (history->ignored[i] || list->count == 0)
            continue;
        size_t period = period_of(list);
        if (period == list->count)
            return false;
        differ = differ || period > 1;
    }
    return differ;
}

/* Whether `list` is `before`, followed by one or more of its last touches. */
static bool
goes_on_with_end(const struct touch_list *list, const struct touch_list *before)
{
    if (list->count <= before->count || list->count > 2 * before->count)
        return false;
    for (size_t i = 0; i < list->count; ++i) {
        size_t same = i < before->count ? i : i + before->count - list->count;
        if (!touch_equal(&list->touches[i], &before->touches[same]))
            return false;
    }
    return true;
}

bool
history_has_another_pass(const struct history *history)
{
    bool any = false;
    for (size_t i = 0; i < history->gradient_count && history->interval_count > 1 && !history->lost; ++i) {
        if (history->ignored[i] || history->current[i].count == 0)
            continue;
        if (!goes_on_with_end(&history->current[i], &history->previous[i]))
            return false;
        any = true;
    }
    return any;
}

void
history_follow(struct history *history)
{
    history->is_followed = true;
}

static bool
differs_rarely(const struct history *history, size_t gradient)
{
    return history->is_followed && !history->unsteady[gradient] &&
           __builtin_popcountll(history->recent[gradient]) <= DIFFERENCES_AT_MOST;
}

bool
history_is_irregular(const struct history *history, size_t gradient)
{
    if (!history->changed || history->ignored[gradient] || differs_rarely(history, gradient))
        return false;
    uint64_t changes = history->changes[gradient];
    return history->streak[gradient] < (changes == 0 ? STREAK_OF_OTHERS : changes * STREAK_FOR_EACH_CHANGE);
}

static void
note_change(struct history *history, size_t gradient)
{
    ++history->changes[gradient];
    history->streak[gradient] = 0;
    history->changed = history->changed || !history->ignored[gradient];
}

void
history_note_unsteady(struct history *history, size_t gradient)
{
    ASSERT(gradient < history->gradient_count);
    note_change(history, gradient);
    history->unsteady[gradient] = true;
}

/* Compares the interval with the one before, gradient by gradient. */
static void
compare_intervals(struct history *history)
{
    for (size_t i = 0; i < history->gradient_count; ++i) {
        const struct touch_list *closed = &history->current[i], *before = &history->previous[i];
        history->recent[i] <<= 1;
        if (touch_list_equal(closed, before, &history->optional[i]) ||
            explain_difference(closed, before, &history->optional[i])) {
            ++history->streak[i];
            continue;
        }
        note_change(history, i);
        history->recent[i] |= 1;
    }
}

static bool
intervals_equal(const struct history *history)
{
    bool any = false;
    for (size_t i = 0; i < history->gradient_count; ++i) {
        if (history->ignored[i] || history_is_irregular(history, i))
            continue;
        if (history->streak[i] == 0)
            return false;
        any = true;
    }
    return any;
}

bool
history_boundary(struct history *history)
{
    /* Interval 0 lacks the optimizer's reads; 1 is the first whole one, 2 the first that can repeat another. */
    bool comparable = history->interval_count >= 2 && !history->lost;
    if (comparable)
        compare_intervals(history);
    bool repeats = comparable && intervals_equal(history);

    struct touch_list *closed = history->current;
    history->current = history->previous;
    history->previous = closed;
    uint64_t *closed_last = history->last_touch;
    history->last_touch = history->previous_last_touch;
    history->previous_last_touch = closed_last;

    for (size_t i = 0; i < history->gradient_count; ++i)
        history->current[i].count = history->current[i].open = 0;
    memset(history->last_touch, 0, history->gradient_count * sizeof(history->last_touch[0]));
    if (history->lost && history->interval_count >= 1) /* what was lost cannot be compared with the next one either */
        history->interval_count = 0;
    history->lost = false;
    history->touch_count = 0;
    ++history->interval_count;
    return repeats;
}

static int
compare_last_touch(const void *a, const void *b, void *last_touch)
{
    size_t left = *(const size_t *)a, right = *(const size_t *)b;
    uint64_t left_touch = ((const uint64_t *)last_touch)[left] - 1; /* none: wraps to the largest */
    uint64_t right_touch = ((const uint64_t *)last_touch)[right] - 1;
    if (left_touch != right_touch)
        return left_touch < right_touch ? -1 : 1;
    return left < right ? -1 : left > right;
}

void
history_order(const struct history *history, size_t *order)
{
    for (size_t i = 0; i < history->gradient_count; ++i)
        order[i] = i;
    qsort_r(order, history->gradient_count, sizeof(order[0]), compare_last_touch, history->previous_last_touch);
}
