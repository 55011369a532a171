/*
 * looked.h - every operation of a step, as one process or one rank has made it: what tools/check/format/look.h keeps in
 * a file, read. Which operation of a rank is which of the one process's?
 */
#ifndef DDPRUN_TOOLS_CHECK_EVIDENCE_LOOKED_H
#define DDPRUN_TOOLS_CHECK_EVIDENCE_LOOKED_H

#include "tools/check/format/look.h"
#include "tools/near/numbers.h"

#include <stddef.h>

/* An operation: its header and [header->arguments] arguments, both in the file that was read. */
struct looked_operation {
    struct look_operation *header;
    struct look_argument *arguments;
};

/* What one process has made. */
struct looked {
    char *file;
    struct contents *contents;           /* [content_count] */
    struct looked_operation *operations; /* [count] */
    size_t content_count, count;
    int *matches; /* of a rank, [operations of the one process]: which of these it is; -1: none */
};

/* Reads "<results>-<rank>.look", and removes the file. False: it does not tell, or, *lost_p, is not there. To be freed
 * by looked_free() in any case. */
bool looked_load(const char *results, int rank, struct looked *looked, bool *lost_p);
void looked_free(struct looked *looked);

/* Finds `rank->matches`: what a call makes for the n-th time in an interval is what it makes there for the n-th time in
 * one process. What the rank changes counts as changed in one process, too. Both are loaded. */
void looked_align(struct looked *one, struct looked *rank);

/* NULL: they were not kept. */
const struct contents *looked_find_contents(const struct looked *looked, uint64_t hash);

/* One call of the program's has made both, in one interval between two DDP_STEPs. */
bool looked_is_one_call(const struct looked_operation *a, const struct looked_operation *b);

#endif
