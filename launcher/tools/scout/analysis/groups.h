/*
 * groups.h - which gradients are complete together, and before which operation they must be averaged.
 */
#ifndef DDPRUN_LAUNCHER_TOOLS_SCOUT_ANALYSIS_GROUPS_H
#define DDPRUN_LAUNCHER_TOOLS_SCOUT_ANALYSIS_GROUPS_H

#include "launcher/tools/scout/analysis/finding.h"
#include "launcher/tools/scout/analysis/graph.h"

/* Adds groups to a finding whose tensors are known, and joins tensors that lie side by side. `graph`: of its period and
 * the next. */
void groups_find(const struct graph *graph, uint32_t period, struct scout_finding *finding);

#endif
