/*
 * lines.h - the annotation lines that a finding comes to, and where they stand.
 */
#ifndef DDPRUN_LAUNCHER_TOOLS_SCOUT_REPORT_LINES_H
#define DDPRUN_LAUNCHER_TOOLS_SCOUT_REPORT_LINES_H

#include "launcher/tools/scout/analysis/finding.h"
#include "launcher/tools/scout/report/site.h"

#include <stdio.h>

/* The patch-like listing. */
void lines_print(FILE *out, const struct scout_log *log, const struct scout_finding *finding, struct sites *sites);

#endif
