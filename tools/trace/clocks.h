/*
 * clocks.h - the clocks of all ranks of a trace on one: that of the lowest rank.
 *
 * In an exchange each rank gets what all have sent. So rank r's end of it is never before rank 0's begin, nor rank 0's
 * end before rank r's begin; each exchange bounds the difference of two clocks from both sides. The tightest bounds of
 * a minute are taken together, for clocks drift: their middle is the difference, half their distance the error. This is
 * what F. Cristian's algorithm (Probabilistic clock synchronization, 1989) does with one message and its answer.
 */
#ifndef DDPRUN_TOOLS_TRACE_CLOCKS_H
#define DDPRUN_TOOLS_TRACE_CLOCKS_H

#include "tools/trace/read.h"

#include <stdio.h>

/* What is to be taken from a rank's clock, at some times of it. */
struct clock_difference {
    int64_t at_ns, difference_ns, error_ns;
};

/* Of one run. */
struct run_clock {
    struct clock_difference *points; /* [count], by time; none: the clock stays as it is, and is not compared */
    size_t count;
    int64_t error_ns; /* the greatest; INT64_MAX: not known */
};

/* One for each run of the trace; malloc'ed. clocks_free() releases them. */
struct run_clock *clocks_align(const struct trace *trace);
void clocks_free(struct run_clock *clocks, const struct trace *trace);

/* A time of the rank's clock on that of the lowest rank. */
int64_t clock_common(const struct run_clock *clock, int64_t ns);

/* ---- chrome.c ---- */
/* A trace as Chrome's trace events (Google, "Trace Event Format"), which Perfetto and chrome://tracing show: a
 * process for each rank, with tracks for its trainer, its collectives and its host. Slices of one track never overlap:
 * where clocks differ by less than is known of them, one begins where the one before it has ended. */
void chrome_write(FILE *out, const struct trace *trace, const struct run_clock *clocks);

#endif
