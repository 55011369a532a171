/*
 * period.h - after how many operations a trainer repeats itself.
 *
 * Pure logic. Threads: any.
 */
#ifndef DDPRUN_BASE_SCOUT_PERIOD_H
#define DDPRUN_BASE_SCOUT_PERIOD_H

#include <stdint.h>

/* Operations [end - run - lag, end) repeat after `lag` operations: each of the last `run` is as the one `lag` before.
 */
struct scout_period {
    uint32_t lag, run, end;
};

/* All lags whose longest run is at least twice the lag, so that three periods are alike, ascending: up to `room` of
 * them are stored. `tokens` are equal where operations are. Returns their number. Time: count * count / 3. */
uint32_t scout_periods(const uint64_t *tokens, uint32_t count, struct scout_period *periods, uint32_t room);

#endif
