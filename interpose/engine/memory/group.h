/*
 * group.h - a group of gradients: what one optimizer uses at one boundary.
 *
 * Where the boundary is DDP_STEP_PARAMETERS, the members of the group are parameters and states of float types instead.
 * Backward updates them as it writes gradients elsewhere: all that is said here of gradients holds for them.
 *
 * Most programs have one group, number 0; one with two optimizers has two, each with its own boundaries, intervals,
 * plan and buckets. All groups share the communication stream and the trainer's streams. Within a group gradients are
 * numbered 0..gradient_count-1 in the order of their annotation.
 *
 * Only the group whose boundary is expected next (bucketing/sequence.h) sends buckets early: so the order of
 * collectives is the same on all ranks.
 *
 * Each field says what guards it (state.h). group_fields: the issuer writes it under the lock, either may read.
 */
#ifndef DDPRUN_INTERPOSE_ENGINE_MEMORY_GROUP_H
#define DDPRUN_INTERPOSE_ENGINE_MEMORY_GROUP_H

#include "bucketing/history.h"
#include "bucketing/readiness.h"
#include "bucketing/sequence.h"
#include "interpose/engine/core/state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GROUPS_AT_MOST = 16 }; /* ids 0..15, as ddprun.h says */
_Static_assert((int)GROUPS_AT_MOST <= (int)SEQUENCE_IDS, "a sequence keeps each id");

struct group {
    int id;
    bool of_parameters;                             /* its boundary is DDP_STEP_PARAMETERS; set once */
    size_t gradient_count GUARDED_BY(group_fields); /* as of the last agreement on annotations */
    size_t *places
        GUARDED_BY(group_fields); /* [gradient_count]: by number in the group, the place in memory_state.tensors[] */

    uint64_t boundary_count GUARDED_BY(group_fields); /* of this group, since the start */
    uint64_t intervals GUARDED_BY(group_fields);      /* its boundaries since the annotations last changed */
    uint64_t opaque_streams
        GUARDED_BY(engine_mutex); /* mask: operations on them since its last boundary could not be looked into */
    uint64_t hidden_streams GUARDED_BY(
        engine_mutex); /* mask: kernels on them since its last boundary may have touched deferred gradients */
    uint64_t touch_count GUARDED_BY(engine_mutex); /* of its gradients since its last boundary */
    struct weight weight GUARDED_BY(engine_mutex); /* of this rank's gradients, since its last boundary */
    uint64_t weighed GUARDED_BY(engine_mutex), weighed_before GUARDED_BY(engine_mutex); /* calls; in the step before */

    struct history history GUARDED_BY(engine_mutex);
    const struct plan *plan GUARDED_BY(group_fields);
    struct readiness readiness GUARDED_BY(engine_mutex);
    _Atomic bool overlapping; /* written under the lock: `plan` was learned; else everything waits for the boundary */
    bool measured GUARDED_BY(group_fields);             /* and it is what the measured times make best */
    bool chosen GUARDED_BY(group_fields);               /* or what a trial has preferred to that */
    uint64_t overlapped_steps GUARDED_BY(group_fields); /* boundaries passed while overlapping */
    uint64_t early_buckets GUARDED_BY(engine_mutex);    /* of the current interval */
    bool asks_for_vote GUARDED_BY(group_fields);        /* buckets were stale too often: at the next boundary */

    /* ---- the issuer's role; of the current interval ---- */
    bool direct GUARDED_BY(issuer_role);  /* each bucket is sent at the boundary, as at steps without overlap */
    bool tried GUARDED_BY(issuer_role);   /* it is a step of a trial (plan/trials.c), */
    bool control GUARDED_BY(issuer_role); /* in which it goes another way than steps do otherwise */

    /* ---- the issuer's role ---- */
    struct shipment shipment GUARDED_BY(issuer_role); /* of `plan` */
};

/* The issuer: whether buckets of this interval are sent on the guess that nothing writes them any more
 * (send/speculation.c); the same on all ranks. */
static inline bool
group_speculates(const struct group *group) REQUIRES(issuer_role)
{
    return group->overlapping && !group->direct && group->shipment.packed != 0;
}

/* The issuer: how the bucket is sent in this interval. */
static inline struct bucket_wire *
group_wire(const struct group *group, size_t bucket) REQUIRES(issuer_role)
{
    struct speculation *speculation = &group->shipment.speculations[bucket];
    bool speculates = group_speculates(group) && speculation->is_allowed;
    return speculates ? &speculation->wire : &group->shipment.wires[bucket];
}

#endif
