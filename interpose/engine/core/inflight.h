/*
 * inflight.h - which collectives are on their way: between inflight.c, which notes them, and watchdog.c, which looks at
 * them.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_CORE_INFLIGHT_H
#define DDPRUN_INTERPOSE_ENGINE_CORE_INFLIGHT_H

#include "interpose/engine/core/core.h"

/* Something that is being sent, as text: "bucket 3 of step 8". */
struct traveller {
    const char *what;
    uint64_t number, step;
};

enum { AWAITED_AT_MOST = 32 };

/*
 * Collectives on their way through one communicator, as the watch thread sees them: a ring of those that were sent
 * last, between two events each. When it is full, what follows is only known to have been sent, until all of it is
 * done.
 */
struct awaited {
    struct {
        CUevent begin, end; /* recorded before they are counted, and not again before they have come */
        struct traveller of;
    } sent[AWAITED_AT_MOST];
    unsigned first, count;
    bool more;                /* others were sent since, without events */
    bool tail_pending;        /* `tail` was recorded after all of those */
    CUevent tail;             /* the watch thread's */
    struct traveller last;    /* of them */
    struct traveller calling; /* what the issuer sends now, around NCCL's call; what == NULL: nothing */

    /* The watch thread's own: what it saw last. */
    enum rank_collective state;
    struct traveller of;
    uint64_t since_ns;
};

/* Of each communicator; guarded by the engine's lock. */
extern struct awaited awaited_of[DDPRUN_MOST_COMMUNICATORS + 1];

#endif
