/*
 * report.h - from the log of a scouted run to what its user sees.
 */
#ifndef DDPRUN_LAUNCHER_SCOUT_REPORT_REPORT_H
#define DDPRUN_LAUNCHER_SCOUT_REPORT_REPORT_H

#include "base/scout/log.h"
#include "launcher/common/error.h"

#include <stdbool.h>
#include <stdio.h>

/*
 * Finds roles, prints them to `out`, and writes the plan to `json` if it is not NULL, also that of a program that is
 * refused. Error: DDPRUN_EXIT_FAILURE with the reason if the program is refused, or if the file cannot be written.
 * Main thread, without others: the umask changes for a moment.
 */
bool scout_report(FILE *out, const struct scout_log *log, const char *json, struct error *error)
    __attribute__((warn_unused_result));

#endif
