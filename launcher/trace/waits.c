/*
 * waits.c - see waits.h.
 */
#include "launcher/trace/waits.h"

#include <math.h>

enum { MOST_APART = 256 };

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
    struct step_waits waits = {.last = -1, .network_us = INFINITY};
    int count = 0;
    for (size_t i = 0; i < trace->run_count; ++i) {
        const struct trace_run *other = &trace->runs[i];
        const struct trace_step *theirs =
            other->job == run->job ? find_step(other, step, (size_t)(step - run->steps)) : NULL;
        if (theirs == NULL || isnan(theirs->exposed_us))
            continue;
        ++count;
        if (theirs->exposed_us < waits.network_us) {
            waits.last = other->rank;
            waits.network_us = theirs->exposed_us;
        }
    }
    if (count != run->world || isnan(step->exposed_us))
        return (struct step_waits){.last = -1};
    waits.ranks_us = step->exposed_us - waits.network_us;
    return waits;
}
