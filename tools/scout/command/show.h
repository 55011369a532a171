/*
 * show.h - what was recorded, as a table.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_SHOW_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_SHOW_H

#include "tools/scout/format/log.h"

#include <stdio.h>

/* The operations of one period, with what repeating them showed. */
void scout_show(FILE *out, const struct scout_log *log, uint64_t period);

#endif
