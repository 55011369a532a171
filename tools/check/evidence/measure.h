/*
 * measure.h - what the evidence of a check has in common: where it begins to differ, how many tensors do then, and
 * which known shape the differences have. Pure: between items.c and facts.c, which gives each answer its name
 * (facts.h).
 *
 * `evidence` is that of limits_settle() everywhere.
 */
#ifndef DDPRUN_TOOLS_CHECK_EVIDENCE_MEASURE_H
#define DDPRUN_TOOLS_CHECK_EVIDENCE_MEASURE_H

#include "tools/check/evidence/items.h"

/* ---- tolerances.c: up to which difference tensors are equal ---- */
/* The same evidence, with the tolerance that was asked for, or that suits the types of the
 * program, and what is bearable. The rows stay those of `given`. */
struct check_evidence limits_settle(const struct check_evidence *given);

/* ---- pattern.c: what differs first ---- */
struct pattern {
    unsigned moment;                /* of the first difference; 0: no difference */
    const struct check_item *first; /* that differs then; of several, the worst */
    size_t differing[CHECK_ROLES];  /* first differ at that moment */
    size_t all[CHECK_ROLES];
    size_t ever[CHECK_ROLES];        /* differ at some time */
    const struct check_item *memory; /* in a parameter's place among an updater's arguments, and differs; or NULL */
};

/* Of items that are sorted (items_sort()). A gradient that is zero or noise beside the others counts only if it
 * differs. */
struct pattern pattern_find(const struct check_evidence *evidence, const struct check_item *items, size_t count);

/* One tensor of several, or at most a quarter of them. */
bool pattern_is_few(size_t differing, size_t all);

/* The row of a tensor at a step, or NULL. */
const struct check_row *measure_row(const struct check_rows *rows, const struct check_tensor *tensor, uint32_t step);

/* The norm of all of one rank's gradients in a step, squared. */
double measure_gradient_square(const struct check_rows *rows, uint32_t step);

/* ---- factors.c: what differs by a factor ---- */
/* Whether every gradient of the first step is the reference's times one factor. */
bool factor_of_gradients(const struct check_evidence *evidence, double *factor_p);

/* The gradients that first differ at the moment are all N times, or the N-th part of, one rank's; 0: they are not. */
double factor_of_some(const struct check_evidence *evidence, const struct check_item *items, size_t count,
                      unsigned moment);

/* What the update has changed in the item, where it first differs, is so many times one rank's; 0: it is no multiple.
 */
double factor_of_change(const struct check_evidence *evidence, const struct check_item *item);

/* Where the ranks' gradients are a multiple of one rank's, and the update is known to undo that, they do not differ;
 * *pattern is then found again. Returns the factor; 0: it is not so. */
double factor_settle(const struct check_evidence *evidence, struct check_item *items, size_t count,
                     struct pattern *pattern);

/* ---- paces.c: after how many DDP_STEPs is an update? ---- */
struct facts_pace paces_find(const struct check_evidence *evidence);

/* ---- agreement.c: do the ranks have the same bits? ---- */
/* Each of them has left a hash of every parameter, state, averaged gradient and buffer at every step. This asks for no
 * tolerance and no reference. */
struct agreement {
    unsigned moment;             /* of the first difference (items_moment()); 0: none */
    const struct check_row *row; /* of the rank that differs from rank 0 then */
    int rank;
};
struct agreement agreement_find(const struct check_evidence *evidence);
/* Whether it may be noise that the runs so far do not show: one more run of the ranks would tell. */
bool agreement_wants_repeat(const struct check_evidence *evidence, const struct agreement *agreement);

/* ---- shares.c: which part of the batch each rank takes ---- */
/* Whether all ranks had one batch: their engines have found that, or in rounds all have passed the same to DDP_REDUCE
 * in each round in which that was looked at. */
bool shares_are_one_batch(const struct check_evidence *evidence);

/* Each rank has as many items as one rank: N times as many are shared out, or each device gets as many bytes. */
bool shares_are_whole_batches(const struct check_evidence *evidence);

/* Items that DDP_SHARD has shared out for the gradients of a step, and that the ranks do not divide; 0: none. */
uint64_t shares_uneven_items(const struct check_evidence *evidence, uint32_t step);

/* ---- ends.c: how the runs ended ---- */
/* A difference at the moment was there a whole step before ddprun ended the run: it may be why. */
bool ends_after_difference(const struct check_evidence *evidence, unsigned moment);

/* What would have ended the run; NULL: nothing. */
const char *ends_alarm(const struct check_evidence *evidence);

/* One rank's program has ended by itself, twice after as many steps, and a rank's has not: that rank; -1: none. */
int ends_rank_that_continues(const struct check_evidence *evidence);

/* The first row that says that a parameter is infinite or NaN on one rank, too, if nothing has differed before it.
 * `moment`: of the first difference; 0: none. */
const struct check_row *ends_endless(const struct check_evidence *evidence, unsigned moment);

/* ---- repeats.c: how far one process is from itself ---- */
/* The worst of parameters and gradients when it runs again, and of gradients that are not equal where it starts nearby,
 * if rounding cannot make that; not where `first`, which differs first, or NULL, does so beyond any rounding. */
double repeats_worst(const struct check_evidence *evidence, const struct check_item *items, size_t count,
                     const struct check_item *first);

/* ---- reductions.c: what DDP_REDUCE finds ---- */
/* Results that are the number of ranks times one rank's, or that part of it, do not count as different: the program may
 * divide by it. */
void reductions_settle(const struct check_evidence *evidence, struct check_item *items, size_t count);
struct facts_reduced reductions_find(const struct check_evidence *evidence, const struct check_item *items,
                                     size_t count);

/* ---- carried.c: does the host keep what is trained, and copy it to the device, where no annotation names it? ---- */
/* A weight or a state of the host's may differ from rank to rank by too little to show in gradients, as at a small
 * learning rate; its bits tell. Data may differ, too: a run of one rank from parameters that are far away tells them
 * apart, for it copies the same data. */
struct facts_carried carried_find(const struct check_evidence *evidence);

#endif
