/*
 * chrome.h - a trace as Chrome's trace events (Google, "Trace Event Format"), which Perfetto and chrome://tracing show:
 * a process for each rank, with tracks for its trainer, its collectives and its host.
 */
#ifndef DDPRUN_TOOLS_TRACE_CHROME_H
#define DDPRUN_TOOLS_TRACE_CHROME_H

#include "tools/trace/clocks.h"

#include <stdio.h>

/* Slices of one track never overlap: where clocks differ by less than is known of them, one begins where the one
 * before it has ended. */
void chrome_write(FILE *out, const struct trace *trace, const struct run_clock *clocks);

#endif
