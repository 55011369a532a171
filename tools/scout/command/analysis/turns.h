/*
 * turns.h - what ranks that take turns leave out. All run the same program on the same data; of a round's periods each
 * rank plays one, drops the others' operations, and all make one update, from averaged gradients.
 *
 * Dropped is only what leads to gradients: an operation that writes gradients, scratch (overwritten before a later
 * period reads it) and memory that each rank has for itself (statistics, carried state). What writes memory that is the
 * same on all ranks, as counters, random state and rates, is made by all in each period; it may not read what was
 * dropped. The update is made in the last period of a round.
 *
 * Pure logic on a log. Threads: one at a time.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_TURNS_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_TURNS_H

#include "tools/plan/format/play.h"
#include "tools/scout/command/analysis/finding.h"
#include "tools/scout/command/analysis/reads.h"

/* Bytes that are the same on all ranks when a round ends. */
struct turns_range {
    uint32_t alloc; /* of the log */
    uint64_t lo, hi;
    bool is_written; /* by an operation of the period */
    bool is_read;    /* by one: what is neither read nor written can change nothing */
};

struct turns {
    char *reason;          /* why ranks cannot take turns; NULL: they can */
    enum play_part *parts; /* [finding->period] */
    struct turns_range *stays;
    uint32_t stay_count;
    struct reads reads;
    bool is_scaled; /* a gradient is scaled in front of the place where it is averaged, as far as can be told */
};

/* Of a finding that was found, with one group. turns_free() releases it. */
void turns_find(const struct scout_log *log, const struct scout_finding *finding, struct turns *turns);
void turns_free(struct turns *turns);

#endif
