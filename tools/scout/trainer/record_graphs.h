/*
 * record_graphs.h - graphs: the arguments of what was captured are those of the graph's launches.
 *
 * Called with scout_lock() held.
 */
#ifndef DDPRUN_TOOLS_SCOUT_TRAINER_RECORD_GRAPHS_H
#define DDPRUN_TOOLS_SCOUT_TRAINER_RECORD_GRAPHS_H

#include "tools/scout/trainer/scout.h"

bool graphs_capture_is_open(void);
/* An operation that was captured. */
void graphs_capture(const struct noted *noted);
/* The launch of a graph: its kind, its name, its arguments. */
void graphs_describe(struct noted *noted, CUgraphExec graph);

#endif
