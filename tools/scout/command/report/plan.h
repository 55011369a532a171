/*
 * plan.h - what a scouted run showed, for programs: the JSON of `ddprun scout --json`. docs/scout.md has its schema.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_PLAN_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_PLAN_H

#include "launcher/common/error.h"
#include "tools/scout/command/analysis/finding.h"
#include "tools/scout/command/report/proofs.h"

#include <stdbool.h>

#define SCOUT_PLAN_VERSION 1

/* The plan as text; free() releases it. */
char *plan_text(const struct scout_log *log, const struct scout_finding *finding, const struct scout_proofs *proofs);

/* Writes it, with mode 0600: it names files and addresses of the program. Error: the file cannot be written. */
bool plan_write(const char *path, const struct scout_log *log, const struct scout_finding *finding,
                const struct scout_proofs *proofs, struct error *error) __attribute__((warn_unused_result));

#endif
