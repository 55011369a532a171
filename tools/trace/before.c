/*
 * before.c - what comes before backward, on the host and on the device of each rank: copies of the batch divide it.
 *
 * Of the steps that count and whose parts are known, but for those with an evaluation, which launch more than others.
 */
#include "tools/trace/step_table.h"

#include "launcher/common/xcalloc.h"
#include "tools/common/owned.h"

#include <math.h>

bool
facts_is_evaluation(double launches, double usual, double steps)
{
    return launches > (steps + 0.25) * usual;
}

/* Sums of parts, and of how many steps. */
struct sums {
    struct trace_before of;
    double count;
};

static void
add_parts(struct sums *sums, struct trace_before parts)
{
    sums->of.other_us += parts.other_us;
    sums->of.loader_us += parts.loader_us;
    sums->of.copies_us += parts.copies_us;
    sums->of.forward_us += parts.forward_us;
    ++sums->count;
}

static struct trace_before
mean_of(const struct sums *sums)
{
    double count = sums->count > 0 ? sums->count : NAN;
    return (struct trace_before){sums->of.other_us / count, sums->of.loader_us / count, sums->of.copies_us / count,
                                 sums->of.forward_us / count};
}

/* False where one is not known, too. */
static bool
are_times(const struct trace_before *parts)
{
    return parts->other_us >= 0 && parts->loader_us >= 0 && parts->copies_us >= 0 && parts->forward_us >= 0;
}

/* On the device; it has no loader. Negative where copies did not come between the step's begin and its backward. */
static struct trace_before
on_device(const struct trace_step *step)
{
    return (struct trace_before){step->copies_begin_us - step->begin_us, 0, step->copies_end_us - step->copies_begin_us,
                                 step->backward_us - step->copies_end_us};
}

static double
usual_launches(const struct rank_facts *rank)
{
    OWNED double *launches = xcalloc(rank->step_count + 1, sizeof(*launches));
    for (size_t i = 0; i < rank->step_count; ++i)
        launches[i] = rank->steps[i]->launches;
    return waiting_median(launches, rank->step_count);
}

/* The rank's own of a step that all ranks have: at *at_p, or after it. */
static const struct trace_step *
own_step(const struct rank_facts *rank, uint64_t number, size_t *at_p)
{
    while (*at_p + 1 < rank->step_count && rank->steps[*at_p]->number < number)
        ++*at_p;
    return rank->steps[*at_p];
}

void
facts_find_before(const struct facts *facts, struct rank_facts *rank)
{
    struct sums host = {0}, device = {0};
    double usual = usual_launches(rank);
    size_t at = 0;
    FOR_EACH(step, facts->steps, facts->step_count) {
        const struct trace_step *own = own_step(rank, step->number, &at);
        if (!step->counts || facts_is_evaluation(own->launches, usual, 1) || !are_times(&own->host))
            continue;
        add_parts(&host, own->host);
        struct trace_before parts = on_device(own);
        if (are_times(&parts))
            add_parts(&device, parts);
    }
    rank->host = mean_of(&host);
    rank->device = mean_of(&device);
    rank->device.loader_us = NAN;
}
