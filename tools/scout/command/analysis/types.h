/*
 * types.h - of which type tensors are.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_TYPES_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_TYPES_H

#include "tools/scout/command/analysis/roles.h"

/* Gives each tensor of a finding whose roles were found its type. ROLES_REFUSED, with the finding's reason: two types
 * are said of a tensor, or of a parameter or gradient none is known. `graph`: of the finding's period and the next. */
enum roles_verdict types_find(const struct graph *graph, struct scout_finding *finding);

#endif
