/*
 * trace.h - `ddprun trace DIR -o FILE`: what `ddprun --trace DIR` has written, for a viewer of timelines.
 *
 * Called by main() when "trace" stands where a program would. Starts nothing.
 */
#ifndef DDPRUN_TOOLS_TRACE_TRACE_H
#define DDPRUN_TOOLS_TRACE_TRACE_H

#include "launcher/options/command.h"

/* Exit code 1: there is no trace to be read. Main thread. */
extern const struct command trace_command;

#endif
