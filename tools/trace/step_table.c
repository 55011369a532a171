/* step_table.c - see step_table.h. */
#include "tools/trace/step_table.h"

#include "launcher/common/xcalloc.h"
#include "tools/common/owned.h"

#include <json-c/json.h>

#include <math.h>

/* ---- ranks and their steps ---- */

/* The group that stands for all: of those with steps outside of graphs, the one with most bytes. */
static void
take_groups(struct facts *facts)
{
    const struct trace_run *run = facts->first;
    uint64_t most = 0;
    FOR_EACH(step, run->steps, run->step_count) {
        facts->graph_steps += step->in_graph;
        facts->group_steps[step->group] += !step->in_graph;
    }
    for (int g = 0; g < TRACE_GROUPS; ++g) {
        uint64_t bytes = facts->group_steps[g] > 0; /* and one more: 0 of a group without steps */
        for (size_t i = 0; i < run->tensor_counts[g] && bytes > 0; ++i)
            bytes += run->tensors[g][i].bytes;
        facts->group_count += bytes > 0;
        facts->group = bytes > most ? g : facts->group;
        most = bytes > most ? bytes : most;
    }
}

COMPARES(by_number, struct trace_step *, COMPARE(*a, *b, number, 0))

static void
take_steps(struct rank_facts *rank, int group)
{
    rank->steps = xcalloc(rank->run->step_count + 1, sizeof(rank->steps[0]));
    FOR_EACH(step, rank->run->steps, rank->run->step_count) {
        if (step->group == group && !step->in_graph)
            rank->steps[rank->step_count++] = step;
    }
    SORT(rank->steps, rank->step_count, by_number);
}

const struct trace_step *
facts_step_of(const struct rank_facts *rank, uint64_t number)
{
    struct trace_step wanted = {.number = number};
    const struct trace_step *key = &wanted;
    const struct trace_step **found =
        rank->step_count > 0 ? bsearch(&key, rank->steps, rank->step_count, sizeof(rank->steps[0]), by_number) : NULL;
    return found != NULL ? *found : NULL;
}

double
facts_host_us(const struct rank_facts *rank, uint64_t number)
{
    const struct trace_step *own = facts_step_of(rank, number),
                            *before = number > 0 ? facts_step_of(rank, number - 1) : NULL;
    if (own == NULL || before == NULL || before->left_ns == 0 || own->entered_ns < before->left_ns)
        return NAN;
    return (double)(own->entered_ns - before->left_ns) / 1e3;
}

/* The runs of the last job, one of each rank. */
static void
take_ranks(struct facts *facts)
{
    const struct trace *trace = facts->trace;
    facts->ranks = xcalloc(trace->run_count, sizeof(facts->ranks[0]));
    FOR_EACH(run, trace->runs, trace->run_count) {
        bool again = facts->rank_count > 0 && facts->ranks[facts->rank_count - 1].run->rank == run->rank;
        if (run->job == trace->job && !again)
            facts->ranks[facts->rank_count++].run = run;
    }
    facts->first = facts->ranks[0].run;
}

/* ---- a step ---- */

/* False: not all ranks have it. `durations`: room for one of each rank. */
static bool
take_step(const struct facts *facts, uint64_t number, double *durations, struct step_facts *step)
{
    *step = (struct step_facts){
        .number = number, .least_us = INFINITY, .most_us = -INFINITY, .overlapped = true, .last = last_rank_none()};
    FOR_EACH(rank, facts->ranks, facts->rank_count) {
        uint32_t r = NUMBER_OF(rank);
        const struct trace_step *own = facts_step_of(rank, number);
        if (own == NULL)
            return false;
        double us = own->released_us - own->begin_us; /* from the end of the step before */
        durations[r] = us > 0 ? us : NAN;
        last_rank_add(&step->last, (int)r, fmax(own->released_us, 0));
        step->least_us = fmin(step->least_us, durations[r]);
        step->most_us = fmax(step->most_us, durations[r]);
        step->overlapped = step->overlapped && own->overlapped;
        step->control = step->last.control = step->control || own->control;
    }
    step->middle_us = waiting_median(durations, facts->rank_count);
    if (isnan(step->middle_us))
        step->least_us = step->most_us = NAN;
    return true;
}

static void
join_steps(struct facts *facts)
{
    const struct rank_facts *first = &facts->ranks[0];
    OWNED double *durations = xcalloc(facts->rank_count, sizeof(*durations));
    facts->steps = xcalloc(first->step_count + 1, sizeof(facts->steps[0]));
    for (size_t i = 0; i < first->step_count; ++i) {
        bool again = i > 0 && first->steps[i]->number == first->steps[i - 1]->number;
        if (!again && take_step(facts, first->steps[i]->number, durations, &facts->steps[facts->step_count]))
            ++facts->step_count;
    }
}

/* ---- what the launcher has written ---- */

static void
take_job(struct facts *facts)
{
    json_object *found, *job = facts->first->told;
    facts->program = facts_string(job, "program");
    facts->summary = facts->first->summary;
    if (json_object_object_get_ex(job, "arguments", &found) && json_object_is_type(found, json_type_array))
        facts->arguments = found;
    (void)json_object_object_get_ex(facts->summary, "noise_scale", &facts->noise);
    if (json_object_object_get_ex(job, "settings", &found) && json_object_is_type(found, json_type_object))
        facts->settings = found;
}

/* ---- which steps count ---- */

static size_t
count_steps(struct facts *facts, uint64_t first, uint64_t last)
{
    facts->first_counted = facts->last_counted = facts->counted = 0;
    FOR_EACH_MUTABLE(step, facts->steps, facts->step_count) {
        step->counts = !step->control && step->number >= first && step->number <= last;
        facts->first_counted = step->counts && facts->counted == 0 ? step->number : facts->first_counted;
        facts->last_counted = step->counts ? step->number : facts->last_counted;
        facts->counted += step->counts;
    }
    return facts->counted;
}

/* Those that the launcher has measured, which the trace may lack; or all since the first plan, the end of start-up. */
static void
take_window(struct facts *facts)
{
    double first = facts_number(facts->summary, "first_measured"), last = facts_number(facts->summary, "last_measured");
    bool is_said = first > 0 && last >= first && last < 1e18;
    uint64_t start = 0;
    for (size_t p = facts->first->plan_count; p-- > 0;) {
        const struct trace_plan *plan = &facts->first->plans[p];
        start = plan->group == facts->group ? plan->after_step : start;
    }
    if ((!is_said || count_steps(facts, (uint64_t)first, (uint64_t)last) == 0) &&
        count_steps(facts, start + 1, UINT64_MAX) == 0)
        (void)count_steps(facts, 0, UINT64_MAX);
    if (is_said && facts->group_count <= 1) {
        facts->first_counted = (uint64_t)first;
        facts->last_counted = (uint64_t)last;
    }
}

/* ---- figures ---- */

/* What the launcher has said, also where it does not know; of one group among several, of one rank, which exposes
 * nothing to others, and where it has said nothing, what the steps show. */
static double
said_or(const struct facts *facts, const char *name, double unit, double shown)
{
    json_object *found;
    double said = facts_number(facts->summary, name);
    bool has_said = json_object_object_get_ex(facts->summary, name, &found) && (!isnan(said) || facts->world > 1);
    return has_said && facts->group_count <= 1 ? said * unit : shown;
}

/* As the launcher has it: the first rank's. */
static void
take_step_time(struct facts *facts)
{
    double steps = 0;
    facts->step_us = said_or(facts, "step_ms", 1e3, facts->ranks[0].step_us);
    for (int g = 0; g < TRACE_GROUPS; ++g)
        steps += (double)facts->group_steps[g];
    double per_step = steps / (double)facts->group_steps[facts->group];
    double said = facts_number(facts->summary, "steps_per_second");
    facts->steps_per_s = !isnan(said) ? said : facts->step_us > 0 ? per_step * 1e6 / facts->step_us : NAN;
}

static void
take_rank(struct facts *facts, size_t r)
{
    struct rank_facts *rank = &facts->ranks[r];
    double count = 0, host_count = 0;
    FOR_EACH(step, facts->steps, facts->step_count) {
        const struct trace_step *own = facts_step_of(rank, step->number);
        double host_us = facts_host_us(rank, step->number);
        if (!step->counts)
            continue;
        host_count += !isnan(host_us);
        rank->host_us += isnan(host_us) ? 0 : host_us;
        rank_waits_add(&facts->waits[r], (int)r, fmax(own->released_us, 0), &step->last);
        rank->kept_us += step->last.rank == (int)r ? last_rank_gap(&step->last) / (double)facts->counted : 0;
        if (isnan(own->begin_us))
            continue;
        double backward_us = isnan(own->backward_us) ? 0 : own->backward_us;
        rank->before_us += backward_us - own->begin_us;
        rank->backward_us -= backward_us;
        rank->step_us += fmax(own->released_us, 0) - own->begin_us;
        ++count;
    }
    rank->host_us = host_count > 0 ? rank->host_us / host_count : NAN;
    rank->step_us = count > 0 ? rank->step_us / count : NAN;
    rank->before_us = count > 0 ? rank->before_us / count : NAN;
    rank->backward_us = count > 0 ? rank->backward_us / count : NAN;
}

/* The launcher has looked at the job while it ran: its word counts. */
static int
straggler_of(const struct facts *facts, int shown)
{
    json_object *said;
    if (facts->group_count > 1 || !json_object_object_get_ex(facts->summary, "waited_for", &said))
        return shown;
    double rank = facts_number(facts->summary, "waited_for");
    const struct rank_facts *found = FIND(it, facts->ranks, facts->rank_count, it->run->rank == rank);
    return found != NULL ? (int)(found - facts->ranks) : -1;
}

/* What each rank's step took, what it waited, and in how many steps it came last, is the launcher's too. Where the
 * device's clock timed too few steps, a step is the host's on all ranks. */
static void
take_said_ranks(struct facts *facts)
{
    json_object *each;
    bool waited = !isnan(facts_number(facts->summary, "waiting_ms"));
    if (facts->group_count > 1 || !json_object_object_get_ex(facts->summary, "each_rank", &each) ||
        !json_object_is_type(each, json_type_array))
        return;
    facts->counted = waited ? (size_t)fmax(0, facts_number(facts->summary, "measured_steps")) : facts->counted;
    for (size_t r = 0; r < facts->rank_count; ++r) {
        json_object *rank = json_object_array_get_idx(each, (size_t)facts->ranks[r].run->rank);
        double said_us = 1e3 * facts_number(rank, "step_ms");
        facts->ranks[r].step_us = said_us > 0 ? said_us : facts->step_us;
        if (!waited)
            continue;
        facts->waits[r].sum = 1e3 * facts_number(rank, "waiting_ms") * (double)facts->counted;
        facts->waits[r].last_count = (size_t)fmax(0, facts_number(rank, "last_steps"));
    }
}

static void
take_waiting(struct facts *facts)
{
    struct last_rank latest[WAITING_LATEST];
    struct waiting *waited = &facts->waited;
    size_t count = 0;
    *waited = (struct waiting){.count = facts->counted, .least = waiting_least(facts->step_us, 1e3), .straggler = -1};
    for (size_t i = facts->step_count; i-- > 0;) {
        const struct step_facts *step = &facts->steps[i];
        if (count < WAITING_LATEST && step->number >= facts->first_counted && step->number <= facts->last_counted)
            latest[count++] = step->last;
        waited->exposed += step->counts ? step->last.waited : 0;
    }
    if (count > 0)
        waiting_find_straggler(waited, latest, count);
    waited->straggler = straggler_of(facts, waited->straggler);
    double exposed = waited->exposed / (double)waited->count;
    take_said_ranks(facts);
    waited->count = facts->counted;
    waiting_take(waited, facts->waits, facts->rank_count);
    waited->exposed = facts->exposed_us = said_or(facts, "exposed_ms", 1e3, exposed);
    waited->waiting = facts->waiting_us = said_or(facts, "waiting_ms", 1e3, waited->waiting);
    facts->own_us = facts->step_us - facts->exposed_us - (isnan(facts->waiting_us) ? 0 : facts->waiting_us);
}

double
facts_waiting(const struct facts *facts, size_t rank)
{
    return isnan(facts->waiting_us) ? NAN : facts->waits[rank].sum / (double)facts->counted;
}

double
facts_alone(const struct facts *facts)
{
    double hidden_us = isnan(facts->waiting_us) ? 0 : facts->waiting_us;
    double alone_us = facts->own_us - (facts->slowed_us > hidden_us ? facts->slowed_us - hidden_us : 0);
    return alone_us > 0 ? alone_us : NAN;
}

/* The plan of the last steps, on the first rank. */
static void
take_plan(struct facts *facts)
{
    const struct rank_facts *rank = &facts->ranks[0];
    facts->plan = TRACE_LAST(rank->run, plan, facts->group);
    facts->overlap = TRACE_LAST(rank->run, overlap, facts->group);
    const struct trace_trial *trial = TRACE_LAST(rank->run, trial, facts->group);
    facts->slowed_us =
        said_or(facts, "slowed_ms", 1e3,
                trial == NULL || waiting_outdates(facts->step_us, trial->overlapped_us) ? NAN : trial->slowed_us);
}

double
facts_turns(const struct facts *facts)
{
    double batches = facts_number(facts->summary, "turn_batches");
    return facts->world > 1 && batches > 0 ? batches : NAN;
}

double
facts_percentile(const struct facts *facts, unsigned hundredths)
{
    OWNED double *values = xcalloc(facts->step_count + 1, sizeof(*values));
    size_t count = 0;
    FOR_EACH(step, facts->steps, facts->step_count) {
        if (!step->control && !isnan(step->middle_us))
            values[count++] = step->middle_us;
    }
    (void)waiting_median(values, count); /* which sorts them */
    size_t rank = (count * hundredths + 99) / 100;
    return count > 0 ? values[rank > 0 ? rank - 1 : 0] : NAN;
}

void
facts_find(const struct trace *trace, struct facts *facts)
{
    *facts = (struct facts){.trace = trace, .world = trace->world};
    take_ranks(facts);
    take_groups(facts);
    FOR_EACH_MUTABLE(rank, facts->ranks, facts->rank_count)
        take_steps(rank, facts->group);
    take_job(facts);
    join_steps(facts);
    take_window(facts);
    facts->waits = xcalloc(facts->rank_count, sizeof(*facts->waits));
    for (size_t r = 0; r < facts->rank_count; ++r) {
        take_rank(facts, r);
        facts_find_before(facts, &facts->ranks[r]);
    }
    take_step_time(facts);
    take_waiting(facts);
    take_plan(facts);
}

void
facts_free(struct facts *facts)
{
    FOR_EACH(rank, facts->ranks, facts->rank_count)
        free(rank->steps);
    free(facts->ranks);
    free(facts->waits);
    free(facts->steps);
    *facts = (struct facts){0};
}
