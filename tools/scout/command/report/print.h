/*
 * print.h - what a scouted run showed, for people.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_PRINT_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_PRINT_H

#include "tools/scout/command/analysis/finding.h"

#include <stdio.h>

/* Of a program whose gradients are found: the period, the table of tensors, the evidence, and the lines to add, or, if
 * it is annotated, what is missing and superfluous. */
void scout_print(FILE *out, const struct scout_log *log, const struct scout_finding *finding);

#endif
