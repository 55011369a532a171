/*
 * turns.h - what ranks that take turns play, by gradients or by state. Pure logic on a log. Threads: one at a time.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_TURNS_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_TURNS_H

#include "tools/plan/format/play.h"
#include "tools/scout/command/analysis/rules.h"

/*
 * ---- reads.c: what the host reads in a period, and which step has written it: an owner read
 * (tools/plan/trainer/owner_reads.c) brings what the rank has whose step that was.
 *
 * Of a plan of whatever kind: `parts` says of each operation of the period whether one rank makes it. What all ranks
 * make, and what all have received, is the same on all.
 */
/* What an operation of the period brings to the host. */
struct reads_of {
    enum play_reads kind;
    uint32_t writer; /* operation of the period that has written the bytes last, */
    uint32_t back;   /* so many periods before */
    uint32_t noise;  /* struct turns_noisy, `by`; 0: their bits are the same in all runs */
};

struct reads {
    struct reads_of *by_operation; /* [period] */
    struct play_written *written;  /* by writer, of the period: what operations that one rank makes write in each */
    uint32_t written_count;
};

/* What becomes of a version's memory by state; NULL: by gradients. */
enum reads_class { READS_OF_STEP, READS_OF_STATE, READS_OF_STATE_OR_SUM, READS_OF_SUM, READS_OF_LAST };

/* `graph`: of whole periods. `parts`: [period]; of PLAY_BY_TURN are operations that one rank makes. `classes`: enum
 * reads_class of each version, by state: a step finds state as the round began, so that its reads are of its own rank;
 * what a sum is within a round no rank has; and none of them is looked up between steps, for a round ends there.
 * `state_before`: of a period, the operation after the last that writes state: from there on state is as the round
 * began on all ranks, or the mean. reads_free() releases it. */
void reads_find(const struct graph *graph, const enum play_part *parts, const unsigned char *classes,
                uint32_t state_before, struct reads *reads);
void reads_free(struct reads *reads);

/*
 * ---- turns.c: what ranks that take turns leave out. All run the same program on the same data; of a round's periods
 * each rank plays one, drops the others' operations, and all make one update, from averaged gradients.
 *
 * Dropped is only what leads to gradients: an operation that writes gradients, scratch (overwritten before a later
 * period reads it) and memory that each rank has for itself (statistics, carried state). What writes memory that is the
 * same on all ranks, as counters, random state and rates, is made by all in each period; it may not read what was
 * dropped. The update is made in the last period of a round.
 */
/* Bytes that ranks treat alike. */
struct turns_range {
    enum play_role role;
    uint32_t type;           /* enum scout_type, of what changes by state, and of what has noise */
    bool is_overwritten;     /* of that: no element comes from its own old value alone; */
    bool is_in_place;        /* but launches that write it read it, too */
    bool may_be_sum;         /* and: nothing but the host reads it, and a trial has to show what it is */
    bool may_decide;         /* a sum that decides about a variable of the module, if it counts steps */
    uint32_t width;          /* bytes of an element, of a sum; 0: of a history, of any kind, each written by one rank */
    uint32_t written_before; /* by state: the operation of a step after the last that writes it; 0: none does */
    uint32_t alloc;          /* of the log */
    uint64_t lo, hi;
};

/* Bytes that differ in their last bits from run to run: 1 + the operation of the period whose threads add up in an
 * order of their own. */
struct turns_noisy {
    uint32_t alloc, by;
    uint64_t lo, hi;
};

struct turns {
    char *reason;               /* why ranks cannot take turns; NULL: they can */
    struct scout_bytes scratch; /* what the reason is about, if it may be scratch */
    enum play_by by;            /* what they average */
    enum play_part *parts;      /* [finding->period] */
    struct turns_range
        *ranges; /* by gradients: what is the same on all ranks when a round ends; by state: what has a class */
    uint32_t range_count;
    struct reads reads;
    struct turns_noisy *noisy;
    uint32_t noisy_count;
    bool is_scaled;       /* a gradient is scaled in front of the place where it is averaged, as far as can be told */
    bool host_may_update; /* by state: bytes that are computed from state go to the host, and as many come back */
    uint32_t first;       /* operation of the log with which a step begins */
    uint32_t border; /* by state, of a step: after the last operation that writes what each rank changes in its own */
};

/* Of a finding that was found, with one group. turns_free() releases it. */
void turns_find(const struct scout_log *log, const struct scout_finding *finding, struct turns *turns);
void turns_free(struct turns *turns);
/* Why ranks cannot take turns, in place of an earlier reason. Always false. */
#define turns_refuse(turns, ...) turns_take_reason(turns, xasprintf(__VA_ARGS__))
bool turns_take_reason(struct turns *turns, char *reason);
/* Joins it with the last one, if they are alike and lie side by side. */
void turns_add_range(struct turns *turns, const struct turns_range *range);
/* Whether an operation gets states of cuRAND's generators: all ranks make it, for it may move them in any step. */
bool turns_moves_generators(const struct scout_log *log, uint32_t op);

/*
 * ---- noise.c: what differs in its last bits from run to run: what a kernel writes of which any recorded launch has
 * shown it, all that is computed from that, and what comes from the host and may come of what it has read of that.
 *
 * Returns struct turns_noisy, `by`, of each version, malloc'ed; 0: none. `is_left_out`: [period] operations whose noise
 * does not count; NULL: all count. `is_clean`: [version_count] versions that are the same whatever they are computed
 * from, where the host's numbers are, too; NULL: none is.
 */
uint32_t *noise_find(const struct graph *graph, const bool *is_left_out, const bool *is_clean);
/* Fills in turns->noisy, and what reads bring. */
void noise_note(const struct graph *graph, const uint32_t *marks, struct turns *turns);
/* turns_noisy.by of the first of these bytes that has noise; 0: none has. */
uint32_t noise_at(const struct scout_log *log, const struct turns *turns, uint32_t alloc, uint64_t lo, uint64_t hi);

/* The operation `at` of a period, for readers. Returns `text`. */
const char *turns_op_name(const struct graph *graph, uint32_t at, char text[SCOUT_NAME_BYTES]);

/*
 * ---- by_state.c: what ranks average that take turns by state. Of a round's periods rank r makes period r completely,
 * update included, from the state at the round's begin, and drops the others; what its period has changed in the state
 * is averaged. No gradient has to be found: what stays on the device across the border of a period has a class, by the
 * table of docs/plan.md, "By state". State is parameters, momentum and running statistics; of a stream all ranks make
 * as well what writes that which its operations read.
 */
/* Of a finding whose period is known, whether roles were found or not. `per_rank`: allocations that are each rank's
 * own, "a3,a7"; NULL: none. turns_free() releases it. */
void by_state_find(const struct scout_log *log, const struct scout_finding *finding, const char *per_rank,
                   struct turns *turns);

#endif
