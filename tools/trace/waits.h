/*
 * waits.h - what a step of a trace waited for: the network, and the rank that came last (launcher/common/waiting.h).
 */
#ifndef DDPRUN_TOOLS_TRACE_WAITS_H
#define DDPRUN_TOOLS_TRACE_WAITS_H

#include "launcher/common/waiting.h"
#include "tools/trace/read.h"

/* Of a step of one run of the trace, by the numbers of ranks; none if a rank's part of that step is not there, or has
 * no times. */
struct last_rank waits_of(const struct trace *trace, const struct trace_run *run, const struct trace_step *step);

#endif
