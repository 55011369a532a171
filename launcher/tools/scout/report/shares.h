/*
 * shares.h - the lines that give each rank its share of the data.
 */
#ifndef DDPRUN_LAUNCHER_TOOLS_SCOUT_REPORT_SHARES_H
#define DDPRUN_LAUNCHER_TOOLS_SCOUT_REPORT_SHARES_H

#include "launcher/tools/scout/report/spots.h"

/* All data, or none: labels that are not shared as their images are wrong. */
void shares_place(struct search *search);

#endif
