/* steps.c - see model.h. */
#include "tools/predict/model.h"

#include "launcher/common/xcalloc.h"

static bool
is_usable(const struct looked_at *at, const struct trace_step *step, uint64_t until)
{
    return !step->control && step->overlapped == at->overlapped && step->number > at->plan->after_step + STEPS_FIRST &&
           step->number <= until && step->begin_us < 0.0 && step->bucket_count > 0 &&
           step->bucket_count <= at->plan->bucket_count;
}

/* The same step of each rank. False: one of them does not have it, or not all of it. */
static bool
take_row(const struct facts *facts, const struct trace_step *first, const struct trace_step **row)
{
    row[0] = first;
    for (size_t r = 1; r < facts->rank_count; ++r) {
        row[r] = facts_step_of(&facts->ranks[r], first->number);
        if (row[r] == NULL || !(row[r]->begin_us < 0.0) || row[r]->bucket_count != first->bucket_count)
            return false;
    }
    return true;
}

/* Steps of the plan that all ranks have. */
static void
take_steps(struct looked_at *at, uint64_t until)
{
    const struct rank_facts *first = &at->facts->ranks[0];
    size_t ranks = at->facts->rank_count;
    free(at->steps);
    at->steps = xcalloc((first->step_count + 1) * ranks, sizeof(*at->steps));
    at->step_count = 0;
    for (size_t i = 0; i < first->step_count; ++i)
        at->step_count += is_usable(at, first->steps[i], until) &&
                          take_row(at->facts, first->steps[i], &at->steps[at->step_count * ranks]);
}

/* The last plan of the group with so many steps. */
static bool
take_plan(struct looked_at *at, size_t enough)
{
    const struct trace_run *run = at->facts->first;
    uint64_t until = UINT64_MAX;
    for (size_t p = run->plan_count; p-- > 0;) {
        if (run->plans[p].group != at->facts->group)
            continue;
        at->plan = &run->plans[p];
        take_steps(at, until);
        if (at->step_count >= enough)
            return true;
        until = at->plan->after_step;
    }
    return false;
}

/* As the last step does. */
static bool
does_overlap(const struct rank_facts *rank)
{
    size_t last = rank->step_count;
    while (last > 0 && rank->steps[last - 1]->control)
        --last;
    return last > 0 && rank->steps[last - 1]->overlapped;
}

const char *
steps_look(const struct facts *facts, struct looked_at *at)
{
    *at = (struct looked_at){.facts = facts, .overlapped = does_overlap(&facts->ranks[0])};
    if (take_plan(at, STEPS_ENOUGH) || take_plan(at, 1))
        return NULL;
    if (facts->graph_steps > 0)
        return "its steps are in CUDA graphs, which have no times";
    return facts->first->step_count > 0 ? "it has too few steps: about 40 are needed" : "it has no steps";
}
