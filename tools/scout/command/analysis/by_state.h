/*
 * by_state.h - what ranks average that take turns by state. Of a round's periods rank r makes period r completely,
 * update included, from the state at the round's begin, and drops the others; what its period has changed in the state
 * is averaged. No gradient has to be found: what stays on the device across the border of a period has a class.
 *
 *     constant   no operation of the period writes it
 *     state      numbers with a fraction that are computed from themselves by way of other memory and of data, or that
 *                are computed from such: parameters, momentum, running statistics
 *     stream     written, and not computed from state: counters, random states, batches that are loaded ahead. All
 *                ranks make its operations in each period, and what writes that which they read
 *     sum        computed from state, element by element from itself, and read by nothing else: whole numbers
 *     last       overwritten, and read by the host alone in a later period
 *     hidden     carried from period to period, or whole numbers that are computed from data: --per-rank names it, and
 *                each rank has its own
 *
 * What the recording does not decide is refused, by name. Pure logic on a log. Threads: one at a time.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_BY_STATE_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_BY_STATE_H

#include "tools/plan/format/play.h"
#include "tools/scout/command/analysis/finding.h"
#include "tools/scout/command/analysis/reads.h"

/* Bytes that have a class. */
struct by_state_range {
    enum play_role role;
    uint32_t type;       /* enum scout_type, of what changes */
    bool is_overwritten; /* of what changes: no element comes from its own old value */
    bool may_be_sum;     /* of what changes: nothing but the host reads it, and a trial has to show what it is */
    uint32_t width;      /* bytes of an element, of a sum; 0: of a history, of any kind, each written by one rank */
    uint32_t alloc;      /* of the log */
    uint64_t lo, hi;
};

struct by_state {
    char *reason;          /* why ranks cannot take turns by state; NULL: they can */
    enum play_part *parts; /* [finding->period] */
    struct by_state_range *ranges;
    uint32_t range_count;
    struct reads reads;
};

/* Of a finding whose period is known, whether roles were found or not. `per_rank`: allocations that are each rank's
 * own, "a3,a7"; NULL: none. by_state_free() releases it. */
void by_state_find(const struct scout_log *log, const struct scout_finding *finding, const char *per_rank,
                   struct by_state *by_state);
void by_state_free(struct by_state *by_state);

#endif
