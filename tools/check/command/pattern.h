/*
 * pattern.h - what the evidence of a check has in common: where it begins to differ, how many tensors do then, and
 * which known shape the differences have. Between items.c and verdict.c, which draws the conclusions. Pure.
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_PATTERN_H
#define DDPRUN_TOOLS_CHECK_COMMAND_PATTERN_H

#include "tools/check/command/verdict.h"

struct pattern {
    unsigned moment;                /* of the first difference; 0: no difference */
    const struct check_item *first; /* that differs then; of several, the worst */
    size_t differing[CHECK_ROLES];  /* first differ at that moment */
    size_t all[CHECK_ROLES];
    size_t ever[CHECK_ROLES];        /* differ at some time */
    const struct check_item *memory; /* in a parameter's place among an updater's arguments, and differs; or NULL */
};

/* The row of a tensor at a step, or NULL. */
const struct check_row *pattern_row(const struct check_rows *rows, const struct check_tensor *tensor, uint32_t step);

/* Whether all ranks had the same bits in their own gradients, in each step in which that was looked at. */
bool pattern_has_one_batch(const struct check_evidence *evidence);

/* Of items that are sorted (items_sort()). A gradient that is zero or noise beside the others counts only if it
 * differs. */
struct pattern pattern_find(const struct check_evidence *evidence, const struct check_verdict *verdict);

/* One tensor of several, or at most a quarter of them. */
bool pattern_is_few(size_t differing, size_t all);

/* Whether every gradient of the first step is the reference's times one factor. */
bool pattern_is_scaled(const struct check_evidence *evidence, double *factor_p);

/* Whether in all steps the ranks' gradients are `factor` times the reference's. */
bool pattern_factor_holds(const struct check_evidence *evidence, double factor);

/* Whether the update of one rank differs where gradients are so many times the reference's: else it knows no factors.
 */
bool pattern_sees_factor(const struct check_evidence *evidence);

/* One rank's gradients whose norm is the same in several steps, and never larger, were clipped; *norm_p. */
bool pattern_is_clipped(const struct check_evidence *evidence, double *norm_p);

/* Whether some gradients of the first step, and not of zeros, are one rank's. */
bool pattern_some_are_equal(const struct check_evidence *evidence, const struct check_verdict *verdict);

/* Whether each rank's own share, on one rank, has gradients whose mean is not that of the whole batch. */
bool pattern_depends_on_batch(const struct check_evidence *evidence);

/* The whole batch's gradient is a sum of the shares', which count as different parts of it, [*least_p, *most_p], and
 * the ranks average them as equals. */
bool pattern_parts(const struct check_evidence *evidence, double *least_p, double *most_p);

/* Each rank has as many items as one rank: N times as many are shared out, or each device gets as many bytes. */
bool pattern_takes_whole_batches(const struct check_evidence *evidence);

/* DDP_SHARD shared out *total_p items that the ranks do not divide. */
bool pattern_has_uneven_shares(const struct check_evidence *evidence, uint64_t *total_p);

/* Of the runs on one rank: the worst difference of a parameter or gradient from the reference. */
double pattern_worst(const struct check_evidence *evidence, const struct check_rows *run);

#endif
