/*
 * dates.h - what ranks do otherwise because they see other dates, and draw other random bytes.
 *
 * A program that has read the date or random bytes is run again as another rank would see them, and its operations are
 * held against those that were recorded. What a third run, with the same date, does otherwise too is left out.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_DATES_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_DATES_H

#include "tools/scout/command/analysis/finding.h"
#include "tools/scout/command/run.h"

/* Adds to a finding: ROLE_INPUT for memory that steps read, and that gets other contents before them; what is left by
 * hand where steps themselves do otherwise; notes. `readings`: lines of FILES_READINGS; "": nothing is added. Main
 * thread; takes two further runs of the program at most. */
void dates_compare(const struct scout_order *order, const char *readings, const struct scout_log *log,
                   struct scout_finding *finding);

#endif
