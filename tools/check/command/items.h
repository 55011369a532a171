/*
 * items.h - from rows to tensors: how far each is from the reference, where it begins to differ, and what its floor is.
 * Between verdict.c, which says what that means, and the rows. Pure.
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_ITEMS_H
#define DDPRUN_TOOLS_CHECK_COMMAND_ITEMS_H

#include "tools/check/command/verdict.h"

/* Every tensor that occurs in the runs, by role and number; `*count_p` of them, malloc'ed. `ranked`: the run that is
 * judged. */
struct check_item *items_make(const struct check_evidence *evidence, const struct check_rows *ranked, size_t *count_p);

/*
 * When something is compared, as a number that grows: parameters and unannotated memory when step `step` begins,
 * gradients, buffers and means when its averages are there. 0: never.
 */
unsigned items_moment(uint32_t role, uint32_t step);
unsigned items_moment_of(const struct check_row *row);

/* The step that made the first difference: of a parameter or memory the one whose update left it so, 0: none had. */
uint32_t items_step(const struct check_item *item);

/* The relative difference that counts as equal in a type of element.h; above ITEMS_BEARABLE times that, nothing does.
 */
enum { ITEMS_BEARABLE = 4 };
double items_tolerance(int type);

/* Puts those that differ first, and the worst of them before others. */
void items_sort(struct check_item *items, size_t count);

#endif
