/*
 * items.h - from rows to tensors: how far each is from the reference, where it begins to differ, and what its floor is.
 * Pure.
 *
 * Equal is a tensor whose difference from the reference, relative to the larger of the tensor's norm and 1e-4 of the
 * norm of all tensors of its role, scaled to its count (a gradient that is zero in theory is rounding noise), is at
 * most max(ITEMS_FLOOR_FACTOR x floor, tolerance), as a whole and in each block of its elements. The floor of a tensor
 * is what repeating the program on one rank, or starting it one unit in the last place away, makes of it. What began a
 * step with the reference's values is held against what the step has changed (tools/near/change.h). A tolerance
 * that hides mistakes makes nothing equal.
 */
#ifndef DDPRUN_TOOLS_CHECK_EVIDENCE_ITEMS_H
#define DDPRUN_TOOLS_CHECK_EVIDENCE_ITEMS_H

#include "tools/check/evidence/evidence.h"

/* Above ITEMS_BEARABLE times near_tolerance() of a type nothing counts as equal. ITEMS_FLOOR_FACTOR times the floor
 * does. */
enum { ITEMS_BEARABLE = 4, ITEMS_FLOOR_FACTOR = 20 };

/* Every tensor that occurs in the runs, by role and number; `*count_p` of them, malloc'ed. `evidence`: of
 * limits_settle(). `ranked`: the run that is judged. */
struct check_item *items_make(const struct check_evidence *evidence, const struct check_rows *ranked, size_t *count_p);

/* Puts those that differ first, and the worst of them before others. */
void items_sort(struct check_item *items, size_t count);

/* A parameter or a gradient. */
static inline bool
items_is_trained(const struct check_item *item)
{
    return item->tensor.role == CHECK_PARAMETER || item->tensor.role == CHECK_GRADIENT;
}

/* When something is compared, as a number that grows: parameters and unannotated memory when step `step` begins,
 * gradients, buffers and means when its averages are there. 0: never. */
unsigned items_moment(uint32_t role, uint32_t step);
unsigned items_moment_of(const struct check_row *row);

/* The order of pointers to rows by tensor and step, for qsort(). */
int items_compare_rows(const void *a, const void *b);

/* Whether a tensor of the role differs on one rank with gradients, or results, that were multiplied. */
bool items_scaled_differ(const struct check_evidence *evidence, uint32_t role);
/* The same of one tensor. */
bool items_scaled_differs(const struct check_evidence *evidence, const struct check_item *like);

#endif
