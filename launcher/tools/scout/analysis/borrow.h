/*
 * borrow.h - not every period shows all: of a launch with more inputs than the recorder tries at a time each shows
 * other ones, and in a step that a flag leaves out launches do nothing. What one period shows is lent to the others.
 *
 * Pure logic on a log. Threads: one at a time.
 */
#ifndef DDPRUN_LAUNCHER_TOOLS_SCOUT_ANALYSIS_BORROW_H
#define DDPRUN_LAUNCHER_TOOLS_SCOUT_ANALYSIS_BORROW_H

#include "base/tools/scout/log.h"

/* The log with effects that are completed, as far as operations [first, end), which repeat after `period` operations,
 * show it. The log itself stays as it is, and must outlive the other one, which borrow_free() releases. */
void borrow_make(const struct scout_log *log, uint32_t first, uint32_t end, uint32_t period, struct scout_log *lent);
void borrow_free(const struct scout_log *log, struct scout_log *lent);

#endif
