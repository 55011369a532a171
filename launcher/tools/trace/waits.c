/*
 * waits.c - see waits.h.
 */
#include "launcher/tools/trace/waits.h"

#include <math.h>

enum { MOST_APART = 256 };

void
last_rank_add(struct last_rank *last, int rank, double waited_us)
{
    if (waited_us < last->waited_us) {
        last->next_us = last->waited_us;
        last->waited_us = waited_us;
        last->rank = rank;
    } else if (waited_us < last->next_us) {
        last->next_us = waited_us;
    }
}

double
last_rank_gap(const struct last_rank *last)
{
    return isfinite(last->next_us) ? last->next_us - last->waited_us : 0;
}

static bool
is_same(const struct trace_step *step, const struct trace_step *wanted)
{
    return step->number == wanted->number && step->group == wanted->group && !step->in_graph;
}

/* Ranks write the same steps, in the order of their times: it is near the place that it has in another run. */
static const struct trace_step *
find_step(const struct trace_run *run, const struct trace_step *wanted, size_t place)
{
    for (size_t apart = 0; apart < MOST_APART; ++apart) {
        if (place + apart < run->step_count && is_same(&run->steps[place + apart], wanted))
            return &run->steps[place + apart];
        if (apart <= place && place - apart < run->step_count && is_same(&run->steps[place - apart], wanted))
            return &run->steps[place - apart];
    }
    return NULL;
}

struct step_waits
waits_of(const struct trace *trace, const struct trace_run *run, const struct trace_step *step)
{
    struct last_rank last = {-1, INFINITY, INFINITY};
    int count = 0;
    for (size_t i = 0; i < trace->run_count; ++i) {
        const struct trace_run *other = &trace->runs[i];
        const struct trace_step *theirs =
            other->job == run->job ? find_step(other, step, (size_t)(step - run->steps)) : NULL;
        if (theirs == NULL || isnan(theirs->exposed_us))
            continue;
        ++count;
        last_rank_add(&last, other->rank, theirs->exposed_us);
    }
    if (count != run->world || isnan(step->exposed_us))
        return (struct step_waits){.last = -1};
    return (struct step_waits){last.rank, last.waited_us, step->exposed_us - last.waited_us};
}
