/*
 * briefs.h - the operations so far, as far as the likeness of one to another goes: of course.c, which looks for a
 * period in them, and of varying.c, which says what differs from step to step. Only these two include it.
 *
 * Threads: with scout_lock() held.
 */
#ifndef DDPRUN_TOOLS_SCOUT_TRAINER_BRIEFS_H
#define DDPRUN_TOOLS_SCOUT_TRAINER_BRIEFS_H

#include "tools/scout/trainer/scout.h"

struct brief_argument {
    uint64_t name, bytes, offset;
    uint32_t alloc, slot;
    uint32_t begun; /* the operation that was the first one here, */
    uint32_t met;   /* or the first one that got this allocation */
};

/* An operation, as far as its likeness to others goes. */
struct brief {
    uint64_t what;     /* hash of all but its arguments */
    uint64_t any_size; /* the same, without grids and bytes */
    uint64_t lengths;  /* as struct noted's */
    uint32_t first, count;
    uint32_t site;
    const char *words; /* for readers: many of them */
    bool computes;     /* a launch */
    bool is_loaded;    /* a copy from the host */
    bool is_read;      /* a copy to the host */
};

extern struct brief *briefs;
extern size_t brief_count;
extern struct brief_argument *brief_arguments;

/* What is passed over where operations are compared. */
enum likeness { LIKE_IN_ALL, LIKE_BUT_FOR_PLACES, LIKE_BUT_FOR_SIZES };
extern enum likeness briefs_likeness;

/* What it has of an operation without its arguments. */
struct brief briefs_outline(const struct noted *noted);
void briefs_add(const struct noted *noted);
/* Hashes all memory, and compares it with the last time: which of it kernels write counts in a likeness. */
void briefs_compare_memory(void);
/* A hash of what an operation does, as far as that counts. */
uint64_t briefs_what(const struct brief *brief);
bool briefs_are_same_place(const struct brief_argument *a, const struct brief_argument *b);
/* Whether operation i is like the one `lag` operations before. */
bool briefs_are_alike(size_t i, size_t lag);

/* From briefs_narrow() to briefs_settle() the operations are only those that are not `left_out`; after it, too, if they
 * are `kept`; else they are all again. */
void briefs_narrow(bool (*left_out)(const struct brief *brief));
void briefs_settle(bool kept);

/* ---- varying.c ---- */

/* Where launches repeat, and nothing else does: until varying_settle() the operations are those without the copies to
 * the host that differ from step to step, in their number, in their sizes or in their places. False: there are none. */
bool varying_narrow(void);
/* They are left out for good if they are `kept`: varying_leaves_out() of scout.h holds of these. */
void varying_settle(bool kept);
/* At the end of a program that repeated nothing, though its launches do: says what differs. */
void varying_tell(void);

#endif
