/*
 * readiness.h - which bucket may leave now?
 *
 * Follows one interval against what was learned: a gradient is ready after the touch that was its last in the interval
 * that the plan was learned from; a bucket when all its gradients are; and buckets are launched in order, so a ready
 * bucket may have to wait for an earlier one. A touch that was not expected makes the interval deviate: no bucket
 * is launched early any more, and the boundary flushes what is left, in the plan's order.
 *
 * States of a bucket within an interval: filling -> ready -> launched. None goes back from launched; readiness_hold()
 * and readiness_switch() alone go back from ready.
 *
 * Pure. Not thread-safe: the owner locks.
 */
#ifndef DDPRUN_BUCKETING_READINESS_H
#define DDPRUN_BUCKETING_READINESS_H

#include "bucketing/history.h"
#include "bucketing/plan.h"

#include <stdbool.h>
#include <stddef.h>

enum bucket_state { BUCKET_FILLING = 0, BUCKET_READY, BUCKET_LAUNCHED };

struct readiness {
    const struct plan *plan;           /* borrowed */
    struct touch_list *expected;       /* [gradient_count]: own copy of what was learned */
    struct optional_touches *optional; /* [gradient_count]: may come in front of the first fixed touch of `expected` */
    size_t *begun;    /* [gradient_count]: touches in this interval, those on their way to the driver included */
    size_t *enqueued; /* [gradient_count]: those that the driver has taken */
    size_t *anew;     /* [gradient_count]: late touches that an interval begins with, in their order */
    size_t *late; /* [gradient_count]: when it was touched after its bucket was launched, first in this interval: 1 for
                     the first gradient, 2 for the second; 0: not at all */
    size_t late_count;
    size_t *pending;           /* [bucket_count]: gradients with a piece in the bucket that are not ready */
    enum bucket_state *states; /* [bucket_count] */
    size_t next_bucket;        /* the first that is not launched */
    bool *held;                /* [gradient_count]: never ready before the boundary, whatever touches it */
    bool deviates;
};

enum touch_verdict {
    TOUCH_EXPECTED = 0,
    TOUCH_DEVIATES,  /* not what was learned, but the gradient's bucket is not launched */
    TOUCH_LATE,      /* the gradient's bucket is launched */
    TOUCH_UNCOUNTED, /* optional, or the program itself says when the gradient is ready: no readiness_enqueued() */
};

/*
 * Prepares to follow `plan`, learned in the interval that `history` has just closed. False when memory runs out;
 * readiness_free() in any case. Without history (NULL) nothing is ever ready before the boundary.
 */
bool readiness_init(struct readiness *readiness, const struct plan *plan, const struct history *history)
    __attribute__((warn_unused_result));
void readiness_free(struct readiness *readiness);

/*
 * From now on, until readiness_free(), nothing makes this gradient ready before the boundary, and no touch of it
 * deviates. Its bucket, and those after it, are flushed at the boundary.
 */
void readiness_hold(struct readiness *readiness, size_t gradient);

/* Whether it is the program's word that makes the gradient ready, in the interval that was learned. */
bool readiness_is_declared(const struct readiness *readiness, size_t gradient);

/* Whether late touches of the gradient were those that an interval begins with: its boundary was left out. */
bool readiness_begins_anew(const struct readiness *readiness, size_t gradient);

/* Whether all gradients whose bucket is launched were touched after that, in the plan's order: as by another backward
 * pass.
 */
bool readiness_is_another_pass(const struct readiness *readiness);

/* Whether the gradient's bucket is launched. */
bool readiness_has_left(const struct readiness *readiness, size_t gradient);

/* At a boundary: `history` may have learned by it that some expected touches are optional, or others than those. */
void readiness_learn_optional(struct readiness *readiness, const struct history *history);

/* Whether the interval that `history` has just closed was what is expected of each, deferred gradients aside. */
bool readiness_fits(const struct readiness *readiness, const struct history *history);

/*
 * `touch` of `gradient` is on its way to the driver. A touch that is not what was learned makes the interval deviate at
 * once, so that no bucket is launched between this and readiness_enqueued(). A late touch does not count, nor does any
 * of a gradient that a touch of TOUCH_DECLARES made ready when the plan was learned, but such a touch.
 */
enum touch_verdict readiness_begin(struct readiness *readiness, size_t gradient, struct touch touch);

/* Whether the touches that have begun make the gradient ready, once they are enqueued. */
bool readiness_completes(const struct readiness *readiness, size_t gradient);

/* A touch that has begun in this interval, and was not late, is enqueued (asserted: not more than have begun). True if
 * it was the one that makes the gradient ready. */
bool readiness_enqueued(struct readiness *readiness, size_t gradient);

/* While no bucket of the interval is launched (asserted): from now on it follows another plan of the same gradients.
 * False when memory runs out: it follows the one that it did. */
bool readiness_switch(struct readiness *readiness, const struct plan *plan) __attribute__((warn_unused_result));

/* No bucket is launched any more before the interval's boundary: at its beginning, or because the driver has refused a
 * touch that had begun. */
void readiness_withhold(struct readiness *readiness);

/*
 * Takes the next bucket that may be launched before the boundary: returns true, and it counts as launched. False when
 * the next one in order is not ready or the interval deviates.
 */
bool readiness_launch(struct readiness *readiness, size_t *bucket_p);

/* The same at the boundary, where every bucket that is left may leave. */
bool readiness_flush(struct readiness *readiness, size_t *bucket_p);

/* The boundary is passed, and all buckets have been launched (asserted): the next interval begins. */
void readiness_boundary(struct readiness *readiness);

/* The same of a boundary in a graph, which averages all gradients itself: no bucket has been launched (asserted). */
void readiness_boundary_in_graph(struct readiness *readiness);

#endif
