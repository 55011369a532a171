/*
 * plan.h - what a scouted run showed, for programs: the JSON of `ddprun scout --json`. docs/scout.md has its schema.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_PLAN_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_PLAN_H

#include "launcher/common/error.h"
#include "tools/scout/command/analysis/finding.h"
#include "tools/scout/command/report/proofs.h"

#include <stdbool.h>
#include <stdio.h>

#define SCOUT_PLAN_VERSION 1

/* The plan as text; free() releases it. */
char *plan_text(const struct scout_log *log, const struct scout_finding *finding, const struct scout_proofs *proofs);

/* Writes it, with mode 0600: it names files and addresses of the program. Error: the file cannot be written. */
bool plan_write(const char *path, const struct scout_log *log, const struct scout_finding *finding,
                const struct scout_proofs *proofs, struct error *error) __attribute__((warn_unused_result));

/* ---- print.c: what a scouted run showed, for people ---- */
/* Of a program whose gradients are found: the period, the table of tensors, the evidence, and the lines to add, or, if
 * it is annotated, what is missing and superfluous. */
void scout_print(FILE *out, const struct scout_log *log, const struct scout_finding *finding);

#endif
