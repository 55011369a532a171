/*
 * steps.c - see model.h.
 */
#include "tools/predict/model.h"

#include "launcher/common/waiting.h"
#include "launcher/common/xcalloc.h"

#include <stdlib.h>

static bool
is_usable(const struct looked_at *at, const struct trace_step *step, const struct trace_plan *plan, uint64_t until)
{
    return step->group == at->group && !step->in_graph && !step->control && step->overlapped == at->overlapped &&
           step->number > plan->after_step + STEPS_FIRST && step->number <= until && step->number >= at->first &&
           step->number <= at->last && step->begin_us < 0.0 && step->bucket_count > 0 &&
           step->bucket_count <= plan->bucket_count;
}

static const struct trace_step *
step_of(const struct trace_run *run, const struct trace_step *like, size_t *from)
{
    for (size_t i = *from; i < run->step_count; ++i) {
        const struct trace_step *step = &run->steps[i];
        if (step->number == like->number && step->group == like->group) {
            *from = i + 1;
            return step->begin_us < 0.0 && step->bucket_count == like->bucket_count ? step : NULL;
        }
    }
    return NULL;
}

/* Steps of the plan that all ranks have, the last of them. */
static void
take_steps(struct looked_at *at, const struct trace_plan *plan, uint64_t until)
{
    const struct trace_run *first = at->runs[0];
    size_t usable = 0, skip, *from = xcalloc(at->run_count, sizeof(*from));
    for (size_t i = 0; i < first->step_count; ++i)
        usable += is_usable(at, &first->steps[i], plan, until);
    skip = usable > WAITING_WINDOW ? usable - WAITING_WINDOW : 0;
    free(at->steps);
    at->steps = xcalloc((usable - skip + 1) * at->run_count, sizeof(*at->steps));
    at->step_count = 0;
    at->plan = plan;
    for (size_t i = 0; i < first->step_count; ++i) {
        if (!is_usable(at, &first->steps[i], plan, until) || (skip > 0 && skip-- > 0))
            continue;
        const struct trace_step **row = &at->steps[at->step_count * at->run_count];
        bool all = true;
        row[0] = &first->steps[i];
        for (size_t r = 1; r < at->run_count && all; ++r) {
            size_t before = from[r];
            row[r] = step_of(at->runs[r], row[0], &from[r]);
            all = row[r] != NULL;
            from[r] = all ? from[r] : before;
        }
        at->step_count += all;
    }
    free(from);
}

/* The last plan of the group with so many steps in the window. */
static bool
take_plan(struct looked_at *at, size_t enough)
{
    const struct trace_run *run = at->runs[0];
    uint64_t until = UINT64_MAX;
    for (size_t p = run->plan_count; p-- > 0;) {
        const struct trace_plan *plan = &run->plans[p];
        if (plan->group != at->group)
            continue;
        take_steps(at, plan, until);
        if (at->step_count >= enough)
            return true;
        until = plan->after_step;
    }
    return false;
}

/* As the last step does. */
static bool
does_overlap(const struct looked_at *at)
{
    const struct trace_run *run = at->runs[0];
    for (size_t i = run->step_count; i-- > 0;) {
        const struct trace_step *step = &run->steps[i];
        if (step->group == at->group && !step->in_graph && !step->control)
            return step->overlapped;
    }
    return false;
}

static bool
has_graph(const struct trace_run *run)
{
    for (size_t i = 0; i < run->step_count; ++i) {
        if (run->steps[i].in_graph)
            return true;
    }
    return false;
}

const char *
steps_look(const struct facts *facts, struct looked_at *at)
{
    const struct trace_run *run = facts->first;
    at->run_count = facts->rank_count;
    at->runs = xcalloc(at->run_count, sizeof(*at->runs));
    for (size_t r = 0; r < at->run_count; ++r)
        at->runs[r] = facts->ranks[r].run;
    at->group = facts->group;
    at->overlapped = does_overlap(at);
    at->first = facts->first_counted;
    at->last = facts->last_counted;
    if (take_plan(at, STEPS_ENOUGH))
        return NULL;
    at->first = 0;
    at->last = UINT64_MAX;
    if (take_plan(at, STEPS_ENOUGH) || take_plan(at, 1))
        return NULL;
    if (has_graph(run))
        return "its steps are in CUDA graphs, which have no times";
    return run->step_count > 0 ? "it has too few steps: about 40 are needed" : "it has no steps";
}

void
steps_free(struct looked_at *at)
{
    free(at->steps);
    free(at->runs);
}
