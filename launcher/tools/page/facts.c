/*
 * facts.c - see facts.h.
 */
#include "launcher/tools/page/facts.h"

#include "launcher/common/xcalloc.h"
#include "launcher/tools/predict/steps.h"
#include "launcher/tools/trace/waits.h"

#include <json-c/json.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STRAGGLER_LEAST_US 1e3

double
facts_duration(const struct trace_step *step)
{
    double us = step->released_us - step->begin_us;
    return us > 0 ? us : NAN;
}

/* ---- ranks and their steps ---- */

static bool
is_shown(const struct trace_step *step, int group)
{
    return step->group == group && !step->in_graph;
}

static void
count_groups(struct facts *facts)
{
    for (size_t i = 0; i < facts->first->step_count; ++i) {
        const struct trace_step *step = &facts->first->steps[i];
        facts->graph_steps += step->in_graph;
        facts->group_steps[step->group] += !step->in_graph;
    }
    for (int g = 0; g < TRACE_GROUPS; ++g)
        facts->group_count += facts->group_steps[g] > 0;
    facts->group = trace_main_group(facts->first);
}

static int
compare_numbers(const void *a, const void *b)
{
    const struct trace_step *left = *(const struct trace_step *const *)a, *right = *(const struct trace_step *const *)b;
    return left->number < right->number ? -1 : left->number > right->number;
}

static void
take_steps(struct rank_facts *rank, int group)
{
    rank->steps = xcalloc(rank->run->step_count + 1, sizeof(rank->steps[0]));
    for (size_t i = 0; i < rank->run->step_count; ++i) {
        if (is_shown(&rank->run->steps[i], group))
            rank->steps[rank->step_count++] = &rank->run->steps[i];
    }
    if (rank->step_count > 1)
        qsort(rank->steps, rank->step_count, sizeof(rank->steps[0]), compare_numbers);
}

const struct trace_step *
facts_step_of(const struct rank_facts *rank, uint64_t number)
{
    struct trace_step wanted = {.number = number};
    const struct trace_step *key = &wanted;
    const struct trace_step **found =
        rank->step_count > 0 ? bsearch(&key, rank->steps, rank->step_count, sizeof(rank->steps[0]), compare_numbers)
                             : NULL;
    return found != NULL ? *found : NULL;
}

static void
take_ranks(struct facts *facts, const struct run_clock *clocks)
{
    const struct trace *trace = facts->trace;
    const struct trace_run **runs = xcalloc(trace->run_count, sizeof(*runs));
    facts->rank_count = trace_last_job(trace, runs);
    facts->ranks = xcalloc(facts->rank_count, sizeof(facts->ranks[0]));
    for (size_t r = 0; r < facts->rank_count; ++r)
        facts->ranks[r] = (struct rank_facts){.run = runs[r], .clock = &clocks[runs[r] - trace->runs]};
    facts->first = runs[0];
    free(runs);
}

/* ---- a step ---- */

/* False: not all ranks have it. `durations`: room for one of each rank. */
static bool
take_step(const struct facts *facts, uint64_t number, double *durations, struct step_facts *step)
{
    struct last_rank last = {0, INFINITY, INFINITY};
    double sum_us = 0;
    *step = (struct step_facts){.number = number, .least_us = INFINITY, .most_us = -INFINITY, .overlapped = true};
    for (size_t r = 0; r < facts->rank_count; ++r) {
        const struct trace_step *own = facts_step_of(&facts->ranks[r], number);
        if (own == NULL)
            return false;
        durations[r] = facts_duration(own);
        last_rank_add(&last, (int)r, fmax(own->released_us, 0));
        sum_us += fmax(own->released_us, 0);
        step->least_us = fmin(step->least_us, durations[r]);
        step->most_us = fmax(step->most_us, durations[r]);
        step->overlapped = step->overlapped && own->overlapped;
        step->control = step->control || own->control;
    }
    step->last = last.rank;
    step->network_us = last.waited_us;
    step->gap_us = last_rank_gap(&last);
    step->ranks_us = sum_us / (double)facts->rank_count - step->network_us;
    step->middle_us = steps_median(durations, facts->rank_count);
    return true;
}

static void
join_steps(struct facts *facts)
{
    const struct rank_facts *first = &facts->ranks[0];
    double *durations = xcalloc(facts->rank_count, sizeof(*durations));
    facts->steps = xcalloc(first->step_count + 1, sizeof(facts->steps[0]));
    for (size_t i = 0; i < first->step_count; ++i) {
        bool again = i > 0 && first->steps[i]->number == first->steps[i - 1]->number;
        if (!again && take_step(facts, first->steps[i]->number, durations, &facts->steps[facts->step_count]))
            ++facts->step_count;
    }
    free(durations);
}

/* ---- medians ---- */

static double
column_median(const struct facts *facts, double (*column)(const struct step_facts *step))
{
    double *values = xcalloc(facts->step_count + 1, sizeof(*values));
    for (size_t i = 0; i < facts->step_count; ++i)
        values[i] = facts->steps[i].control ? NAN : column(&facts->steps[i]);
    double median = steps_median(values, facts->step_count);
    free(values);
    return median;
}

static double
middle_of(const struct step_facts *step)
{
    return step->middle_us;
}

static double
network_of(const struct step_facts *step)
{
    return step->network_us;
}

static double
ranks_of(const struct step_facts *step)
{
    return step->ranks_us;
}

/* Of the steps that all ranks have; of a rank alone, of its own. */
static void
take_medians(struct facts *facts, size_t r)
{
    struct rank_facts *rank = &facts->ranks[r];
    enum { STEP, BEFORE, BACKWARD, NETWORK, RANKS, COLUMNS };
    double *columns[COLUMNS];
    size_t count = 0;
    for (int c = 0; c < COLUMNS; ++c)
        columns[c] = xcalloc(facts->step_count + 1, sizeof(double));
    for (size_t i = 0; i < facts->step_count; ++i) {
        const struct step_facts *step = &facts->steps[i];
        const struct trace_step *own = facts_step_of(rank, step->number);
        if (step->control || own == NULL)
            continue;
        columns[STEP][count] = facts_duration(own);
        columns[BEFORE][count] = own->backward_us - own->begin_us;
        columns[BACKWARD][count] = -own->backward_us;
        columns[NETWORK][count] = step->network_us;
        columns[RANKS][count++] = fmax(own->released_us, 0) - step->network_us;
        rank->last_count += step->last == (int)r && facts->rank_count > 1;
        rank->kept_us += step->last == (int)r ? step->gap_us : 0;
    }
    rank->kept_us /= count > 0 ? (double)count : 1;
    double *const results[COLUMNS] = {&rank->step_us, &rank->before_us, &rank->backward_us, &rank->network_us,
                                      &rank->ranks_us};
    for (int c = 0; c < COLUMNS; ++c) {
        *results[c] = steps_median(columns[c], count);
        free(columns[c]);
    }
}

static void
find_straggler(struct facts *facts)
{
    facts->straggler = -1;
    for (size_t r = 0; r < facts->rank_count && facts->rank_count > 1; ++r) {
        size_t hits = 0;
        for (size_t i = 0; i < facts->step_count; ++i) {
            const struct step_facts *step = &facts->steps[i];
            hits += step->last == (int)r && step->gap_us >= fmax(0.1 * step->middle_us, STRAGGLER_LEAST_US);
        }
        if (facts->step_count >= 8 && 4 * hits >= 3 * facts->step_count)
            facts->straggler = (int)r;
    }
}

/* What the plan of the last steps says, on the first rank. Without overlap it promises nothing. */
static void
take_plan(struct facts *facts)
{
    const struct rank_facts *rank = &facts->ranks[0];
    facts->plan = trace_last_plan(rank->run, facts->group);
    facts->overlap = trace_last_overlap(rank->run, facts->group);
    double *bounds = xcalloc(rank->step_count + 1, sizeof(*bounds)),
           *plans = xcalloc(rank->step_count + 1, sizeof(*plans));
    for (size_t i = 0; i < rank->step_count; ++i) {
        bool counts = (facts->plan == NULL || rank->steps[i]->number > facts->plan->after_step) &&
                      (facts->overlap == NULL || rank->steps[i]->number > facts->overlap->after_step);
        bounds[i] = counts ? rank->steps[i]->bound_us : NAN;
        plans[i] = counts ? rank->steps[i]->predicted_us : NAN;
    }
    facts->bound_us = steps_median(bounds, rank->step_count);
    facts->predicted_us = steps_median(plans, rank->step_count);
    free(bounds);
    free(plans);
}

/* ---- what the launcher has written ---- */

static void
take_job(struct facts *facts)
{
    json_object *found, *job = facts->first->told;
    facts->program = "";
    if (job == NULL)
        return;
    if (json_object_object_get_ex(job, "summary", &found) && json_object_is_type(found, json_type_object))
        facts->summary = found;
    if (json_object_object_get_ex(job, "settings", &found) && json_object_is_type(found, json_type_object))
        facts->settings = found;
    if (json_object_object_get_ex(job, "program", &found) && json_object_is_type(found, json_type_string))
        facts->program = json_object_get_string(found);
}

double
facts_number(const struct facts *facts, const char *name)
{
    json_object *found;
    bool is_number = json_object_object_get_ex(facts->summary, name, &found) &&
                     (json_object_is_type(found, json_type_double) || json_object_is_type(found, json_type_int));
    double value = is_number ? json_object_get_double(found) : NAN;
    return isfinite(value) ? value : NAN;
}

const char *
facts_string(const struct facts *facts, const char *name)
{
    json_object *found;
    bool is_text =
        json_object_object_get_ex(facts->summary, name, &found) && json_object_is_type(found, json_type_string);
    return is_text ? json_object_get_string(found) : "";
}

void
facts_find(const struct trace *trace, const struct run_clock *clocks, struct facts *facts)
{
    *facts = (struct facts){.trace = trace, .world = trace->world};
    take_ranks(facts, clocks);
    count_groups(facts);
    for (size_t r = 0; r < facts->rank_count; ++r)
        take_steps(&facts->ranks[r], facts->group);
    join_steps(facts);
    for (size_t r = 0; r < facts->rank_count; ++r)
        take_medians(facts, r);
    facts->step_us = column_median(facts, middle_of);
    facts->network_us = column_median(facts, network_of);
    facts->ranks_us = column_median(facts, ranks_of);
    find_straggler(facts);
    take_plan(facts);
    take_job(facts);
}

void
facts_free(struct facts *facts)
{
    for (size_t r = 0; r < facts->rank_count; ++r)
        free(facts->ranks[r].steps);
    free(facts->ranks);
    free(facts->steps);
    *facts = (struct facts){0};
}
