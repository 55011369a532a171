/*
 * rehearse.c - see prove.h: how many times as fast as one process the ranks are, by rehearsals of both in turn.
 */
#include "base/clock.h"
#include "tools/plan/format/play_json.h"
#include "tools/scout/command/proofs/played.h"

#include <stdio.h>
#include <stdlib.h>

/* What a round takes, or a period of one process; 0 with the reason in `why`. */
static bool
rehearse(const struct scout_order *order, struct play *play, enum play_data data, uint64_t *ns, char *why,
         struct error *error)
{
    struct played played;
    *ns = 0;
    if (!played_make(order, play, data, &played, error))
        return false;
    if (played_stage(&played, 0) == PLAY_OVER)
        *ns = atomic_load(&played.pages[0]->round_ns);
    else
        snprintf(why, PLAY_WHY_BYTES, "%s", played.late ? "it took too long" : played.reason);
    played_release(play, &played);
    return true;
}

static int
by_size(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Takes one more pair into the range. */
static void
widen(struct rehearsal *rehearsal, int ranks, uint64_t round_ns, uint64_t period_ns)
{
    uint64_t times = (uint64_t)ranks * 100 * period_ns / round_ns, most = (uint64_t)ranks * 100;
    uint32_t capped = (uint32_t)(times < most ? times : most);
    rehearsal->low = rehearsal->count == 0 || capped < rehearsal->low ? capped : rehearsal->low;
    rehearsal->high = capped > rehearsal->high ? capped : rehearsal->high;
    rehearsal->is_noisy = times > most || rehearsal->high * 10 > rehearsal->low * 11;
    rehearsal->count += 1;
}

bool
scout_rehearse(const struct scout_order *order, struct json_object *turns, struct rehearsal *rehearsal,
               struct error *error)
{
    enum { LEAST_PAIRS = 2, MOST_PAIRS = 5, LIMIT_MS = 30000 };
    struct play play;
    uint64_t rounds[MOST_PAIRS] = {0}, periods[MOST_PAIRS] = {0};
    int64_t begin_ms = clock_now_ms();
    *rehearsal = (struct rehearsal){0};
    bool ok = true, more = play_json_read(turns, &play, rehearsal->why);
    play.plan.reads_own = order->options->reads == PLAN_READS_OWN;
    while (more) {
        uint32_t i = rehearsal->count;
        ok =
            rehearse(order, &play, PLAY_REHEARSAL, &rounds[i], rehearsal->why, error) &&
            (rehearsal->why[0] != '\0' || rehearse(order, &play, PLAY_ONE_PROCESS, &periods[i], rehearsal->why, error));
        more = ok && rehearsal->why[0] == '\0' && rounds[i] > 0 && periods[i] > 0;
        if (more)
            widen(rehearsal, order->ranks, rounds[i], periods[i]);
        more = more && rehearsal->count < MOST_PAIRS && clock_now_ms() - begin_ms < LIMIT_MS &&
               (rehearsal->count < LEAST_PAIRS || rehearsal->is_noisy);
    }
    qsort(rounds, rehearsal->count, sizeof(rounds[0]), by_size);
    qsort(periods, rehearsal->count, sizeof(periods[0]), by_size);
    rehearsal->round_ns = rounds[rehearsal->count / 2];
    rehearsal->period_ns = periods[rehearsal->count / 2];
    play_free(&play);
    return ok;
}
