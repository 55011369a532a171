/*
 * reads.h - what the host reads in a period, and which step has written it: an owner read (tools/plan/trainer/reads.c)
 * brings what the rank has whose step that was.
 *
 * Of a plan of whatever kind: `parts` says of each operation of the period whether one rank makes it. What all ranks
 * make, and what all have received, is the same on all.
 *
 * Pure logic on a graph. Threads: one at a time.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_READS_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_READS_H

#include "tools/plan/format/play.h"
#include "tools/scout/command/analysis/graph.h"

/* What an operation of the period brings to the host. */
struct reads_of {
    enum play_reads kind;
    uint32_t writer; /* operation of the period that has written the bytes last, */
    uint32_t back;   /* so many periods before */
};

/* Bytes that an operation which one rank makes writes in each period. */
struct reads_written {
    uint32_t alloc; /* of the log */
    uint64_t lo, hi;
    uint32_t writer; /* operation of the period */
    bool moves;      /* not the same bytes in each period */
    bool unread;     /* a number in managed memory that nothing on the device reads: for the host */
};

struct reads {
    struct reads_of *of;           /* [period] */
    struct reads_written *written; /* by writer */
    uint32_t written_count;
};

/* What becomes of a version's memory by state; NULL: by gradients. */
enum reads_class { READS_OF_STEP, READS_OF_STATE, READS_OF_SUM, READS_OF_LAST };

/*
 * `graph`: of whole periods. `parts`: [period]; of PLAY_BY_TURN are operations that one rank makes. `classes`: enum
 * reads_class of each version, by state: a step finds state as the round began, so that its reads are of its own rank;
 * what a sum is within a round no rank has; and none of them is looked up between steps, for a round ends there.
 * reads_free() releases it.
 */
void reads_find(const struct graph *graph, uint32_t period, const enum play_part *parts, const unsigned char *classes,
                struct reads *reads);
void reads_free(struct reads *reads);

#endif
