/*
 * readiness.h - which bucket is worth launching now?
 *
 * Follows one interval against the one that was learned: a gradient is ready after the touch that was its last there; a
 * bucket when all its gradients are. Buckets are launched in order, so a ready bucket may have to wait for an earlier
 * one. A launch may be wrong: a gradient that is touched afterwards is compared at the boundary (engine/send), and
 * nothing here depends on it. A touch that was not expected leaves its gradient unready until the boundary, where all
 * buckets that are left are launched, in the same order.
 *
 * Some buckets are launched at boundaries only, after all others: which ones, all ranks have agreed on, and so the
 * order of launches is the same on all ranks.
 *
 * States of a bucket within an interval: filling -> ready -> launched. None goes back from launched.
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
    bool *ready;      /* [gradient_count]: its last expected touch is enqueued */
    bool *unlike;     /* [gradient_count]: it is touched in this interval as it was not in the learned one */
    bool *held;       /* [gradient_count]: never ready before the boundary, whatever touches it */
    size_t *pending;  /* [bucket_count]: gradients with a piece in the bucket that are not ready */
    enum bucket_state *states; /* [bucket_count] */
    bool *last;                /* [bucket_count]: launched at the boundary only, after all others */
    size_t launched;           /* buckets of this interval */
    size_t next_bucket;        /* the first of those that may be launched before the boundary and are not */
    bool deviates;             /* a touch of this interval was not what was learned */
    bool closed;               /* no bucket of this interval is launched before its boundary */
};

enum touch_verdict {
    TOUCH_EXPECTED = 0,
    TOUCH_DEVIATES,  /* not what was learned; to be counted by readiness_enqueued() */
    TOUCH_UNCOUNTED, /* no readiness_enqueued(): it is optional, or comes after the launch of the gradient's bucket, or
                        the program itself says when the gradient is ready */
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
 * deviates. Its bucket, and those after it, are launched at the boundary.
 */
void readiness_hold(struct readiness *readiness, size_t gradient);

/* Until readiness_free() or readiness_switch(): this bucket is launched at boundaries only, after all others. While
 * none of the interval is launched (asserted). */
void readiness_put_last(struct readiness *readiness, size_t bucket);

/* Whether it is the program's word that makes the gradient ready, in the interval that was learned. */
bool readiness_is_declared(const struct readiness *readiness, size_t gradient);

/* At a boundary: `history` may have learned by it that some expected touches are optional, or others than those. */
void readiness_learn_optional(struct readiness *readiness, const struct history *history);

/* Whether the interval that `history` has just closed was what is expected of each, deferred gradients aside. */
bool readiness_fits(const struct readiness *readiness, const struct history *history);

/*
 * `touch` of `gradient` is on its way to the driver. One that is not what was learned makes the gradient unready at
 * once, so that its bucket is not launched between this and readiness_enqueued(). Of a gradient that a touch of
 * TOUCH_DECLARES made ready when the plan was learned, no touch counts but such a one.
 */
enum touch_verdict readiness_begin(struct readiness *readiness, size_t gradient, struct touch touch);

/* Whether the touches that have begun make the gradient ready, once they are enqueued. */
bool readiness_completes(const struct readiness *readiness, size_t gradient);

/* A touch that has begun in this interval, and was counted, is enqueued (asserted: not more than have begun). True if
 * it was the one that makes the gradient ready. */
bool readiness_enqueued(struct readiness *readiness, size_t gradient);

/* While no bucket of the interval is launched (asserted): from now on it follows another plan of the same gradients.
 * False when memory runs out: it follows the one that it did. */
bool readiness_switch(struct readiness *readiness, const struct plan *plan) __attribute__((warn_unused_result));

/* No bucket is launched any more before the interval's boundary. */
void readiness_close(struct readiness *readiness);

/* What is launched of this interval is taken back: it is as if nothing were, and closed. */
void readiness_take_back(struct readiness *readiness);

/*
 * Takes the next bucket that may be launched before the boundary: returns true, and it counts as launched. False when
 * the next one in order is not ready, or the interval is closed.
 */
bool readiness_launch(struct readiness *readiness, size_t *bucket_p);

/* The same where it does not matter whether it is ready: at the boundary, or because another rank waits for it. */
bool readiness_launch_unready(struct readiness *readiness, size_t *bucket_p);

/* At the boundary, when that returns false: the next of those that are launched last. */
bool readiness_launch_last(struct readiness *readiness, size_t *bucket_p);

/* The boundary is passed, and all buckets have been launched (asserted): the next interval begins. */
void readiness_boundary(struct readiness *readiness);

/* The same of a boundary in a graph, which averages all gradients itself: no bucket has been launched (asserted). */
void readiness_boundary_in_graph(struct readiness *readiness);

#endif
