/*
 * readings.h - where the program of a check reads the date or random bytes, from the rows that its ranks have left.
 */
#ifndef DDPRUN_TOOLS_CHECK_COMMAND_READINGS_H
#define DDPRUN_TOOLS_CHECK_COMMAND_READINGS_H

#include "tools/check/command/evidence.h"

/* Fills in `readings` and `reading_places`. Reads the program's debug information. */
void readings_describe(struct check_evidence *evidence);

#endif
