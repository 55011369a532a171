/*
 * waits.c - what a step waited for: the network, and the rank that came last (read.h).
 */
#include "tools/trace/read.h"

#include <math.h>

enum { MOST_APART = 256 };

static bool
is_same_step(const struct trace_step *step, const struct trace_step *wanted)
{
    return step->number == wanted->number && step->group == wanted->group && !step->in_graph;
}

/* Ranks write the same steps, in the order of their times: it is near the place that it has in another run. */
const struct trace_step *
trace_same_step(const struct trace_run *run, const struct trace_step *wanted, size_t place)
{
    for (size_t k = 0; k < 2 * (size_t)MOST_APART; ++k) {
        size_t at = k % 2 == 0 ? place + k / 2 : place - (k + 1) / 2; /* in front of the first one it is too large */
        if (at < run->step_count && is_same_step(&run->steps[at], wanted))
            return &run->steps[at];
    }
    return NULL;
}

struct last_rank
waits_of(const struct trace *trace, const struct trace_run *run, const struct trace_step *step)
{
    struct last_rank last = last_rank_none();
    FOR_EACH(other, trace->runs, trace->run_count) {
        if (other->job != run->job)
            continue;
        const struct trace_step *theirs = trace_same_step(other, step, (size_t)(step - run->steps));
        if (theirs != NULL)
            last_rank_add(&last, other->rank, fmax(theirs->released_us, 0));
    }
    return last.count == run->world ? last : last_rank_none();
}
