/*
 * trace.h - `ddprun trace DIR -o FILE`: what `ddprun --trace DIR` has written, for a viewer of timelines.
 *
 * Called by main() when "trace" stands where a program would. Starts nothing.
 */
#ifndef DDPRUN_LAUNCHER_TRACE_TRACE_H
#define DDPRUN_LAUNCHER_TRACE_TRACE_H

#include "launcher/options/options.h"

/* Reads, writes, and returns the exit code: 0; 1 if there is no trace to be read; 2 for a mistake on the command line.
 * Main thread. */
int trace_command(const struct options *options);

#endif
