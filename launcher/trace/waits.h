/*
 * waits.h - what a step waited for: the network, and the rank that came last.
 *
 * Only durations are compared, as by launcher/watch/pace.h: how long each rank waited at the same boundary. The rank
 * that waited least came last, and what it waited is the network's part of what the others waited. Pure.
 */
#ifndef DDPRUN_LAUNCHER_TRACE_WAITS_H
#define DDPRUN_LAUNCHER_TRACE_WAITS_H

#include "launcher/trace/read.h"

struct step_waits {
    int last;          /* the rank that came last, the lowest of several; -1: not known */
    double network_us; /* what it waited */
    double ranks_us;   /* what this rank waited longer: for that one */
};

/* Of a step of one run of the trace; not known if a rank's part of that step is not there, or has no times. */
struct step_waits waits_of(const struct trace *trace, const struct trace_run *run, const struct trace_step *step);

#endif
