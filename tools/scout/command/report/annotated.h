/*
 * annotated.h - the annotations of a program, held against what was found: what is missing, what is superfluous.
 *
 * Threads: one at a time.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_ANNOTATED_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_ANNOTATED_H

#include "tools/scout/command/analysis/finding.h"
#include "tools/scout/command/report/site.h"

#include <stdio.h>

/* One line for each difference; one line if there is none. */
void annotated_print(FILE *out, const struct scout_log *log, const struct scout_finding *finding);

/*
 * Of a program whose steps are equal on all ranks, what these leave open: parameters without an annotation, where
 * gradients of more elements are annotated, and a step behind an operation that trains with gradients. Returns how many
 * lines it has printed.
 */
uint32_t annotated_print_open(FILE *out, const struct scout_log *log, const struct scout_finding *finding,
                              struct sites *sites);

#endif
