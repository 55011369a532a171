/*
 * shares.h - the lines that give each rank its share of the data.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_SHARES_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_REPORT_SHARES_H

#include "tools/scout/command/report/spots.h"

/* All data, or none: labels that are not shared as their images are wrong. */
void shares_place(struct search *search);

#endif
