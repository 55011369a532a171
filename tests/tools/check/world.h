/*
 * world.h - evidence of a right program, as runs of `ddprun check` would give it, and changes of it, for the test
 * of the verdict.
 */
#ifndef DDPRUN_TESTS_TOOLS_CHECK_WORLD_H
#define DDPRUN_TESTS_TOOLS_CHECK_WORLD_H

#include "tools/check/evidence/evidence.h"
#include "tools/check/verdict/verdict.h"

#include <stdint.h>

enum { TENSORS = 6, STEPS = 3, MOST_RANKS = 4, ANY = -1 };

/* Everything that a scene may change; evidence points into it. */
struct world {
    struct check_evidence evidence;
    struct check_rows ranked[MOST_RANKS], plain[MOST_RANKS], repeats[CHECK_REPEATS][MOST_RANKS];
    unsigned steps;
};

enum run { RANKS, AGAIN, PERTURBED, ALONE, PROBE, PLAIN, SCALED, FAR, NUDGED, TWICE, THRICE, FOURTH };

enum what {
    NOTHING,
    DIFFERENCE, /* `value`: relative */
    BLOCK,      /* the same of one block alone */
    FACTOR,     /* `value` times the reference */
    NORM,       /* `value`: of the reference; the relative difference stays */
    UNBOUNDED,  /* `value` elements */
    INFINITE,   /* norms that a double does not hold */
    IN_PLACE,   /* of memory: where the same call gets annotated parameters */
    MISSING,    /* rows are not there */
    UNMOVED,    /* no step has changed it on one rank */
    MOVED,      /* one has */
    CHANGED,    /* `value`: relative to what a step changes */
    TIMES,      /* `value` times what a step changes on one rank */
    COUNT,      /* `value` elements */
    ENDLESS,    /* `value` elements of the reference are infinite or NaN */
    FLIPPED,    /* the same, where 3.2e-5 is what the tolerance explains */
    TOO_SMALL,  /* `value` of its change, all of it rounding */
    HASH,       /* `value`: of what the rank has */
    NARROW,     /* of bfloat16 */
    WIDE,       /* of float64 */
    ADDED,      /* a tensor row is added, with this difference */
    /* Notes: `from` is the step */
    SHARD,
    UNEVEN,
    COPIED,
    OWN,
    ALARM,
    ON_HOST,   /* 64 bytes that every rank copies in step `from`; `value`: their content, of one rank 1 */
    TYPES,     /* no --tolerance, and calls have named types: `value` */
    FORCED,    /* every step began from the reference, with `value` times its gradients */
    UNSTEPPED, /* gradient number `first` is of a group that makes no step */
    NAN_ALONE, /* parameter number `first` is NaN on one rank */
    READS,     /* the date */
    RETAINED,  /* of memory number `first`: `value` is left */
    OVERLAPPED,
    STOPPED,
    STOPPED_ALIKE, /* all ranks have ended by themselves after step `value` */
    UPDATED_AFTER, /* parameter number `first`, `value` times after the last DDP_STEP of one process */
    ENDED,         /* one rank's program ends by itself behind the last step, and the ranks' does not */
    COMPRESSED,
    SUMS,
    SAME_DATA, /* the engines say so */
    BY_PLAN,
    REFUTED,  /* by a proof of the plan; nothing else was run */
    UNPROVED, /* a proof of the plan is not possible */
    ROUNDS    /* no DDP_STEP: reductions 0 (float32, sum), 1 (int32, sum), 2 (maximum) and 3 (mean), of which later ones
                 depend on those before; `value` 1: of which no run has shown that */
};

struct edit {
    enum what what;
    enum run run;
    double value;
    int role, first, last; /* tensors; ANY for role: all; `last` 0 with `first` > 0: that one alone */
    uint32_t from;         /* step; 0: every one */
    int rank;              /* from 1; 0: all */
};

#define ROLE(name)     .role = CHECK_##name
#define EVERY(name)    .role = CHECK_##name, .first = 0, .last = TENSORS - 1
#define ONE(name, nth) .role = CHECK_##name, .first = (nth), .last = (nth)

/* Evidence of `ranks` ranks that agree with one process up to rounding; free_world() frees it. Each has parameters,
 * gradients and ranges of unannotated memory 0 to TENSORS - 1, buffer 0, and mean k - 1 of step k; parameters change in
 * each step, and there are rows of them before step 1 and after each one. Ranks have shares of 24 items. */
void make_world(struct world *world, int ranks, unsigned steps);
void free_world(struct world *world);

void apply(struct world *world, const struct edit *edit);

/* The parts of apply(), on the rows of one run: what `edit` says of tensors, and a note in the place of one that is
 * there. */
void change_tensors(struct check_rows *rows, const struct edit *edit);
void set_note(struct check_rows *rows, const struct edit *edit, enum check_row_kind kind);

/* A row that differs by `relative` from the reference. */
void add_tensor(struct check_rows *rows, uint32_t role, uint32_t number, uint32_t step, double relative);

#endif
