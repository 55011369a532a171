/*
 * readings.h - where the program of a check reads the date or random bytes, from the rows that its ranks have left.
 */
#ifndef DDPRUN_LAUNCHER_TOOLS_CHECK_READINGS_H
#define DDPRUN_LAUNCHER_TOOLS_CHECK_READINGS_H

#include "launcher/tools/check/evidence.h"

/* Fills in `readings` and `reading_places`. Reads the program's debug information. */
void readings_describe(struct check_evidence *evidence);

#endif
