/*
 * closing.c - see closing.h.
 */
#include "launcher/report/closing.h"

#include "launcher/watch/pace.h"
#include "launcher/watch/verdict.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LINE_BYTES = 512, RANKS_SHOWN = 16 };

static void __attribute__((format(printf, 2, 3))) append(char line[LINE_BYTES], const char *format, ...)
{
    size_t used = strlen(line);
    va_list args;
    va_start(args, format);
    vsnprintf(line + used, LINE_BYTES - used, format, args);
    va_end(args);
}

static bool
has_trained(const struct closing *closing)
{
    for (int i = 0; i < closing->rank_count; ++i) {
        if (closing->ranks[i].step > 0)
            return true;
    }
    return false;
}

static void
say_time(const struct closing *closing, void (*say)(const char *format, ...))
{
    const struct rank_view *rank = &closing->ranks[0];
    struct pace pace = pace_of(closing->ranks, closing->rank_count);
    char line[LINE_BYTES] = "";
    append(line, "wall time %.*f s", closing->seconds < 10.0 ? 2 : 1, closing->seconds);
    if (pace.steps_per_s >= 1.0)
        append(line, ", %.1f steps/s", pace.steps_per_s);
    else if (pace.steps_per_s > 0.0)
        append(line, ", %.1f s a step", 1.0 / pace.steps_per_s);
    if (pace.items_per_s > 0.0)
        append(line, ", %.*f items/s", pace.items_per_s < 100.0 ? 1 : 0, pace.items_per_s);
    if (rank->shard_total > 0 && rank->shard_total != UINT64_MAX)
        append(line, "; effective batch: %" PRIu64 " items for each backward pass (DDP_SHARD)", rank->shard_total);
    if (closing->restarts > 0)
        append(line, "; restarts: %u", closing->restarts);
    say("%s", line);
}

/* What each rank's stream waited at the end of a step, for the network and for other ranks. */
static void
say_waits(const struct closing *closing, void (*say)(const char *format, ...))
{
    char line[LINE_BYTES] = "waited per step (median):", ms[32];
    for (int i = 0; i < closing->rank_count; ++i) {
        if (closing->ranks[i].exposed_count == 0)
            return;
        if (i < RANKS_SHOWN)
            append(line, "%s rank %d %s ms", i > 0 ? "," : "", i, pace_ms_text(closing->ranks[i].exposed_ns, ms));
    }
    if (closing->rank_count > RANKS_SHOWN)
        append(line, ", and %d ranks more", closing->rank_count - RANKS_SHOWN);
    say("%s", line);
}

void
closing_say(const struct closing *closing, void (*say)(const char *format, ...))
{
    bool trained = has_trained(closing);
    if (closing->interrupted && !trained)
        return;
    if (trained && closing->summary)
        say_time(closing, say);
    verdict_close(closing->ranks, closing->rank_count, closing->summary, say);
    if (trained && closing->verbose && closing->rank_count > 1)
        say_waits(closing, say);
}
