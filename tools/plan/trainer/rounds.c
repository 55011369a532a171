/*
 * rounds.c - see player.h: what a round by turns takes, by the host's clock: from one average to the next, the median
 * of up to 16 stretches of the newest rounds. A validation pass or a checkpoint now and then does not change a median,
 * and a stretch is longer than what a host is ahead of its device.
 *
 * The same figure is the forecast, in a rehearsal, and what it is held against when a training ends.
 */
#include "base/clock.h"
#include "base/message.h"
#include "tools/plan/trainer/player.h"

#include <stdlib.h>

enum {
    KEPT = 256, /* rounds */
    STRETCHES = 16,
    WANTED = 60, /* of a rehearsal: the engine has learned when gradients are ready long before */
    LEAST = 8,   /* fewer give no time */
    LIMIT_S = 3  /* after which a rehearsal has to do with the rounds that it has made, */
};
static const int64_t last_limit_s = 40; /* and after which it ends with less than LEAST of them */
/* And no less than this: a process that has just begun is interrupted less often than others on a busy machine. */
static const int64_t least_ns = 500000000;

static int64_t times[KEPT]; /* in nanoseconds, by number of the round */
static uint64_t count;
static int64_t first_ns;

static int
by_size(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* 0: not known. */
static uint64_t
median_ns(void)
{
    uint64_t usable = count > KEPT ? KEPT - 1 : count / 2, each = usable / STRETCHES > 0 ? usable / STRETCHES : 1;
    int64_t stretches[STRETCHES];
    size_t made = 0;
    if (count < LEAST)
        return 0;
    for (uint64_t end = count - 1; made < STRETCHES && (made + 1) * each <= usable; end -= each)
        stretches[made++] = (times[end % KEPT] - times[(end - each) % KEPT]) / (int64_t)each;
    qsort(stretches, made, sizeof(stretches[0]), by_size);
    return (uint64_t)stretches[made / 2];
}

void
rounds_note(void)
{
    int64_t now = clock_now_ns();
    if (count == 0)
        first_ns = now;
    times[count++ % KEPT] = now;
    int64_t seconds = (now - first_ns) / 1000000000;
    bool is_short = count < WANTED || now - first_ns < least_ns;
    if (player.play.plan.data < PLAY_REHEARSAL || player.page_count == 0)
        return;
    if (is_short && (seconds < LIMIT_S || count < LEAST) && seconds < last_limit_s)
        return;
    atomic_store(&player.pages[0]->round_ns, median_ns());
    player_wait_for_end(PLAY_OVER);
}

void
rounds_end(void)
{
    const struct play_plan *plan = &player.play.plan;
    uint64_t now = median_ns();
    if (plan->data >= PLAY_REHEARSAL) {
        if (player.page_count > 0)
            atomic_store(&player.pages[0]->round_ns, now);
        player_set_stage(PLAY_OVER);
    } else if (plan->data == PLAY_TRAINING && plan->forecast_ns > 0 && now > 0) {
        double ms = (double)now / 1e6, said = (double)plan->forecast_ns / 1e6;
        double times = (double)plan->forecast_one / 1e6 * plan->forecast_ranks / ms;
        message_line("plan: a round took %.3g ms, %.2f times as fast as the rehearsed process; the forecast was %.3g "
                     "ms, %.2f to %.2f times (%+.1f %%)",
                     ms, times < plan->forecast_ranks ? times : plan->forecast_ranks, said, plan->forecast_low / 100.0,
                     plan->forecast_high / 100.0, (ms / said - 1) * 100);
    }
}
