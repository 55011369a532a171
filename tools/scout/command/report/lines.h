/*
 * lines.h - the annotation lines that a finding comes to, and where they stand.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_LINES_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_LINES_H

#include "tools/scout/command/analysis/finding.h"
#include "tools/scout/command/report/site.h"

#include <stdio.h>

/* The patch-like listing. */
void lines_print(FILE *out, const struct scout_log *log, const struct scout_finding *finding, struct sites *sites);

#endif
