/*
 * period.h - after how many operations a trainer repeats itself.
 *
 * Pure logic on a log. Threads: one at a time.
 */
#ifndef DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_PERIOD_H
#define DDPRUN_TOOLS_SCOUT_COMMAND_ANALYSIS_PERIOD_H

#include "tools/scout/format/log.h"

#include <stdint.h>

/* Operations [end - run - lag, end) of the log repeat after `lag` operations: each of the last `run` is like the one
 * `lag` before. */
struct period {
    uint32_t lag, run, end;
};

/* All lags of operations [first, end) of the log, which have effects, whose longest run is at least twice the lag, so
 * that three periods are alike, ascending: up to `room` of them are stored. Without `sizes` grids of launches and bytes
 * of copies may be any. Returns their number. Time: count squared divided by 3. */
uint32_t periods_find(const struct scout_log *log, uint32_t first, uint32_t end, bool sizes, struct period *periods,
                      uint32_t room);

#endif
