/*
 * period.c - see period.h.
 */
#include "base/scout/period.h"

uint32_t
scout_periods(const uint64_t *tokens, uint32_t count, struct scout_period *periods, uint32_t room)
{
    uint32_t found = 0;
    for (uint32_t lag = 1; lag <= count / 3 && found < room; ++lag) {
        uint32_t run = 0;
        struct scout_period best = {.lag = lag};
        for (uint32_t i = lag; i < count; ++i) {
            run = tokens[i] == tokens[i - lag] ? run + 1 : 0;
            if (run > best.run) {
                best.run = run;
                best.end = i + 1;
            }
        }
        if (best.run >= 2 * lag)
            periods[found++] = best;
    }
    return found;
}
