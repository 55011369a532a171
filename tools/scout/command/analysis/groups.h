/*
 * groups.h - which gradients are complete together, and before which operation they must be averaged.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_GROUPS_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_GROUPS_H

#include "tools/scout/command/analysis/finding.h"
#include "tools/scout/command/analysis/graph.h"

/* Adds groups to a finding whose tensors are known, and joins tensors that lie side by side. `graph`: of its period and
 * the next. */
void groups_find(const struct graph *graph, uint32_t period, struct scout_finding *finding);

#endif
