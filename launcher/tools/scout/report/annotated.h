/*
 * annotated.h - the annotations of a program, held against what was found: what is missing, what is superfluous.
 *
 * Threads: one at a time.
 */
#ifndef DDPRUN_LAUNCHER_TOOLS_SCOUT_REPORT_ANNOTATED_H
#define DDPRUN_LAUNCHER_TOOLS_SCOUT_REPORT_ANNOTATED_H

#include "launcher/tools/scout/analysis/finding.h"

#include <stdio.h>

/* One line for each difference; one line if there is none. */
void annotated_print(FILE *out, const struct scout_log *log, const struct scout_finding *finding);

#endif
