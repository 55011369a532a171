/*
 * history.h - what did each interval between two boundaries do to the gradients, and does it repeat?
 *
 * A touch is one enqueued operation that holds a pointer into a gradient. Each gradient's touches are kept in order, by
 * the identity of the call and of its argument; across gradients only the order of their last touches matters, for it
 * is the order in which they become ready. Overlap may start once an interval repeats the one before it; the first
 * interval never counts, because no optimizer has run before it.
 *
 * Some steps do more than others: they clip, or look at norms. A touch that one of two intervals lacks is *optional* if
 * the intervals are equal without it, and it comes in front of the first *fixed* touch. Fixed are the touches that a
 * step cannot do without: the update, and what begins the next backward pass. So whatever makes a gradient ready has
 * come in both intervals, in the same order, after the same update.
 *
 * Pure. Not thread-safe: the owner locks.
 */
#ifndef DDPRUN_BUCKETING_HISTORY_H
#define DDPRUN_BUCKETING_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct touch {
    uint64_t call;     /* identity of the function: the same in every step */
    uint32_t argument; /* which of its arguments */
};

/* In `argument`: the touch is fixed. Its call names a parameter or state, too, or it writes the gradient and is no
 * kernel. */
#define TOUCH_FIXED UINT32_C(0x80000000)

/* The `call` of a touch by which the program itself says that the gradient is complete. */
#define TOUCH_DECLARES UINT64_MAX

/* The touches of one gradient in one interval, in the order of their calls. */
struct touch_list {
    struct touch *touches;
    size_t count;
    size_t capacity;
    bool open; /* others came after them that are not counted: these do not make it ready */
};

enum { OPTIONAL_AT_MOST = 8 };

/* Touches of one gradient that some intervals lack. */
struct optional_touches {
    struct touch touches[OPTIONAL_AT_MOST];
    size_t count;
};

bool touch_is_optional(const struct optional_touches *optional, struct touch touch);

/* Whether two lists hold the same touches in the same order, but for optional ones in front of the first fixed one. */
bool touch_list_equal(const struct touch_list *a, const struct touch_list *b, const struct optional_touches *optional);

struct history {
    struct touch_list *current;  /* [gradient_count]: the interval that is open */
    struct touch_list *previous; /* [gradient_count]: the one before */
    uint64_t *last_touch; /* [gradient_count]: number of the last touch within the current interval, from 1; 0: none */
    uint64_t *previous_last_touch;
    size_t gradient_count;
    uint64_t touch_count;              /* in the current interval, over all gradients */
    uint64_t interval_count;           /* completed intervals */
    bool lost;                         /* memory ran out in the current interval: it equals nothing */
    struct optional_touches *optional; /* [gradient_count]: seen so far */
    bool *ignored;                     /* [gradient_count]: whatever touches it, intervals may be equal */
    uint32_t *changes;                 /* [gradient_count]: how often an interval differed from the one before */
    uint32_t *streak;                  /* [gradient_count]: how often it has not, since then */
    uint64_t *recent;                  /* [gradient_count]: a bit for each of the last 64 intervals, 1: it differed */
    bool *unsteady;                    /* [gradient_count]: history_note_unsteady() */
    bool changed;                      /* some gradient's touches have */
    bool is_followed;                  /* a plan is in force */
};

/* For gradients numbered 0..gradient_count-1. False when memory runs out. history_free() releases it in any case. */
bool history_init(struct history *history, size_t gradient_count) __attribute__((warn_unused_result));
void history_free(struct history *history);

void history_touch(struct history *history, size_t gradient, struct touch touch);

/* A touch that does not count: how many of them there are may differ between intervals. */
void history_touch_uncounted(struct history *history, size_t gradient);

/* The program says that the gradient is complete: whatever touched it before in this interval does not matter. */
void history_declare(struct history *history, size_t gradient);

/* From now on touches of this gradient do not matter: others may still repeat, and it is the last in every order. */
void history_ignore(struct history *history, size_t gradient);

/*
 * Closes the interval. True if it repeated the one before touch by touch, optional ones aside, for every gradient that
 * is neither ignored nor irregular, and there is one, and neither interval was the first of the run. The closed
 * interval is then in `previous`, until the next boundary.
 */
bool history_boundary(struct history *history);

/*
 * Whether the open interval is made of two or more equal parts: each touched gradient's touches are a sequence
 * that repeats, one gradient's at least a sequence of different touches. The sign of a boundary that was left out:
 * where backward only accumulates, no other work comes between its passes. Not in the first interval.
 */
bool history_is_of_several(const struct history *history);

/*
 * Whether the open interval is the one before, and after that backward once more: each touched gradient's touches are
 * those of the interval before, followed by the last of them, in the same order and at least one. The sign of a
 * boundary that was left out with the update after it. Not in the first two intervals.
 */
bool history_has_another_pass(const struct history *history);

/* A plan follows these intervals. A few that differ cost little from now on: a bucket that was launched too early is
 * sent once more. */
void history_follow(struct history *history);

/*
 * Whether the gradient's touches differ between intervals so often that two equal ones prove nothing. While no interval
 * has differed from the one before, two are enough; after that, some more for gradients that never did, and many for
 * one that did. While a plan is in force, one that differs in 2 of 64 intervals is none.
 */
bool history_is_irregular(const struct history *history, size_t gradient);

/* The gradient's last touches did not show that it was complete, in several intervals: as if its touches had differed
 * between many. */
void history_note_unsteady(struct history *history, size_t gradient);

/*
 * The gradients in the order of their last touches in the closed interval, into order[gradient_count]. Gradients that
 * it did not touch come last, in the order of their numbers.
 */
void history_order(const struct history *history, size_t *order);

#endif
