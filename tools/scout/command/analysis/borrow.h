/*
 * borrow.h - not every period shows all: of a launch with more inputs than the recorder tries at a time each shows
 * other ones, and in a step that a flag leaves out launches do nothing. What one period shows is lent to the others.
 *
 * Pure logic on a log. Threads: one at a time.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_BORROW_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_BORROW_H

#include "tools/scout/format/log.h"

/* What periods show differs with their age, and what stayed open may be one thing or the other. */
enum reading {
    READING_OLD,  /* each operation does what it did in its own period */
    READING_NEW,  /* what it did in the last one that was recorded */
    READING_OPEN, /* as READING_OLD, and what stayed open goes element by element */
};

/* The log with effects that are completed, as far as operations [first, end), which repeat after `period` operations,
 * show it. The log itself stays as it is, and must outlive the other one, which borrow_free() releases. */
void borrow_make(const struct scout_log *log, uint32_t first, uint32_t end, uint32_t period, enum reading reading,
                 struct scout_log *lent);
/* The first operation of [first, end) of which something stayed open; UINT32_MAX: there is none. */
uint32_t borrow_find_open(const struct scout_log *log, uint32_t first, uint32_t end);
void borrow_free(const struct scout_log *log, struct scout_log *lent);

#endif
