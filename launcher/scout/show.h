/*
 * show.h - what was recorded, as a table.
 */
#ifndef DDPRUN_LAUNCHER_SCOUT_SHOW_H
#define DDPRUN_LAUNCHER_SCOUT_SHOW_H

#include "base/scout/log.h"
#include "launcher/scout/analysis/finding.h"

#include <stdio.h>

/* The operations of one period, with what repeating them showed. */
void scout_show(FILE *out, const struct scout_log *log, uint64_t period);

/* The roles of memory, and where gradients are complete. */
void scout_show_finding(FILE *out, const struct scout_log *log, const struct scout_finding *finding);

#endif
