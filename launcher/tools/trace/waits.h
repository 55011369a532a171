/*
 * waits.h - what a step waited for: the network, and the rank that came last.
 *
 * Only durations are compared, as by launcher/watch/pace.h: how long each rank waited at the same boundary. The rank
 * that waited least came last, and what it waited is the network's part of what the others waited. Pure.
 */
#ifndef DDPRUN_LAUNCHER_TOOLS_TRACE_WAITS_H
#define DDPRUN_LAUNCHER_TOOLS_TRACE_WAITS_H

#include "launcher/tools/trace/read.h"

/* The rank that came last to a boundary, of those added so far. */
struct last_rank {
    int rank;                  /* the first added of several */
    double waited_us, next_us; /* what it waited, and what the rank before it did; INFINITY: there is none */
};

/* Takes a rank that waited so long; NAN: not known, which is left out. */
void last_rank_add(struct last_rank *last, int rank, double waited_us);

/* How much later it came than the rank before it; 0: there is no other. */
double last_rank_gap(const struct last_rank *last);

struct step_waits {
    int last;          /* the rank that came last, the lowest of several; -1: not known */
    double network_us; /* what it waited */
    double ranks_us;   /* what this rank waited longer: for that one */
};

/* Of a step of one run of the trace; not known if a rank's part of that step is not there, or has no times. */
struct step_waits waits_of(const struct trace *trace, const struct trace_run *run, const struct trace_step *step);

#endif
