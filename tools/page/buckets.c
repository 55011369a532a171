/*
 * buckets.c - the buckets of the last plan, what their all-reduces took, and the tensors in them.
 */
#include "tools/page/report.h"

#include "launcher/common/xcalloc.h"
#include "tools/common/owned.h"

#include <json-c/json.h>

#include <math.h>

enum { MOST_BUCKETS = 100, MOST_TENSORS = 200 };

/* What is said of one gradient group. */
struct group_facts {
    const struct facts *facts;
    const struct trace_run *run; /* of the lowest rank */
    int group;
    const struct trace_plan *plan; /* the last one */
};

/* ---- what the all-reduce of a bucket takes ---- */

/* One all-reduce, which begins on each rank when that rank has come, and ends when all have. */
struct reduction {
    double network_us; /* of the rank that came last: it waited for none */
    double wait_us;    /* how much longer it was on the rank that came first */
    int last_rank;
};

/* A bucket's all-reduces in the steps that count. */
struct bucket_times {
    double *ready_us;                  /* [step_count]: before the end of backward, on the lowest rank */
    double *network_us, *wait_us;      /* [whole_count] */
    size_t *came_last;                 /* [rank_count]: in how many of whole_count the rank came last */
    size_t step_count, whole_count;    /* whole: the trace has the times of all ranks */
    const struct trace_bucket *bucket; /* of the last step */
};

/* NULL: the step has none of that number, or it has no times. */
static const struct trace_bucket *
bucket_in(const struct trace_step *step, unsigned number)
{
    FOR_EACH(bucket, step->buckets, step->bucket_count)
        if (bucket->number == number && !isnan(bucket->end_us - bucket->begin_us))
            return bucket;
    return NULL;
}

/* Ranks are numbers in facts->ranks. False: a rank's part is not in the trace. */
static bool
find_reduction(const struct group_facts *of, const struct trace_step *step, unsigned number, struct reduction *found)
{
    double least_us = INFINITY, most_us = 0;
    *found = (struct reduction){.last_rank = -1};
    if (of->facts->rank_count < (size_t)of->facts->world)
        return false;
    FOR_EACH(rank, of->facts->ranks, of->facts->rank_count) {
        const struct trace_step *part = trace_same_step(rank->run, step, (size_t)(step - of->run->steps));
        const struct trace_bucket *bucket = part != NULL ? bucket_in(part, number) : NULL;
        if (bucket == NULL)
            return false;
        double took_us = bucket->end_us - bucket->begin_us;
        if (took_us < least_us)
            found->last_rank = (int)NUMBER_OF(rank);
        least_us = fmin(least_us, took_us);
        most_us = fmax(most_us, took_us);
    }
    found->network_us = least_us;
    found->wait_us = most_us - least_us;
    return true;
}

static void
add_step(struct bucket_times *times, const struct group_facts *of, const struct trace_step *step, unsigned number)
{
    const struct trace_bucket *bucket = bucket_in(step, number);
    struct reduction reduction;
    if (bucket == NULL)
        return;
    times->bucket = bucket;
    times->ready_us[times->step_count++] = -bucket->ready_us;
    if (!find_reduction(of, step, number, &reduction))
        return;
    ++times->came_last[reduction.last_rank];
    times->network_us[times->whole_count] = reduction.network_us;
    times->wait_us[times->whole_count++] = reduction.wait_us;
}

/* "rank 1, 97 %": which rank comes last most often, and in how many of the steps. */
static void
put_latecomer(const struct bucket_times *times, const struct facts *facts, char *text, size_t bytes)
{
    size_t most = 0;
    if (times->whole_count == 0) {
        snprintf(text, bytes, "-");
        return;
    }
    for (size_t r = 1; r < facts->rank_count; ++r)
        most = times->came_last[r] > times->came_last[most] ? r : most;
    snprintf(text, bytes, "rank %d, %.0f %%", facts->ranks[most].run->rank,
             100.0 * (double)times->came_last[most] / (double)times->whole_count);
}

/* One row; medians over the steps of the plan. */
static void
put_bucket(struct table *table, const struct group_facts *of, unsigned number)
{
    const size_t most = of->run->step_count + 1;
    OWNED double *ready_us = xcalloc(most, sizeof(*ready_us)), *network_us = xcalloc(most, sizeof(*network_us)),
                 *wait_us = xcalloc(most, sizeof(*wait_us));
    OWNED size_t *came_last = xcalloc(of->facts->rank_count + 1, sizeof(*came_last));
    struct bucket_times times = {ready_us, network_us, wait_us, came_last, 0, 0, NULL};
    FOR_EACH(step, of->run->steps, of->run->step_count) {
        if (step->group != of->group || step->in_graph || step->number <= of->plan->after_step || step->control)
            continue;
        add_step(&times, of, step, number);
    }
    const struct trace_bucket *bucket = times.bucket;
    double bytes = bucket != NULL ? (double)bucket->bytes : NAN,
           reduce_us = waiting_median(network_us, times.whole_count);
    char latecomer[48];
    put_latecomer(&times, of->facts, latecomer, sizeof(latecomer));
    report_row(table, ROW({number}, {(double)of->plan->member_counts[number]}, {bytes},
                          {waiting_median(ready_us, times.step_count)}, {reduce_us},
                          {reduce_us > 0 ? bytes / reduce_us / 1e3 : NAN}, {waiting_median(wait_us, times.whole_count)},
                          {.text = latecomer}, {.text = bucket != NULL ? bucket->path : "-"},
                          {.text = bucket != NULL ? bucket->type : "-"}));
}

/* ---- tables ---- */

/* NAN: none. */
static double
bucket_of(const struct group_facts *of, size_t tensor)
{
    for (size_t k = 0; of->plan != NULL && k < of->plan->bucket_count; ++k) {
        for (size_t i = 0; i < of->plan->member_counts[k]; ++i) {
            if (of->plan->members[k][i] == tensor)
                return (double)k;
        }
    }
    return NAN;
}

static void
put_tensors(json_object *section, const struct group_facts *of, const char *name, size_t most)
{
    struct table table = report_table(section, name, "closed",
                                      "Number:count|Tensor:code|Annotated at:code|Type|Elements:count|"
                                      "Bytes:bytes|Bucket:count",
                                      most);
    FOR_EACH(tensor, of->run->tensors[of->group], of->run->tensor_counts[of->group]) {
        uint32_t i = NUMBER_OF(tensor); /* messages count from 1 */
        report_row(&table, ROW({(double)i + 1}, {.text = tensor->name}, {.text = tensor->place}, {.text = tensor->type},
                               {(double)tensor->elements}, {(double)tensor->bytes}, {bucket_of(of, i)}));
    }
}

/* What trials of the group found. */
static void
put_trials(json_object *section, const struct group_facts *of, const char *name)
{
    if (TRACE_LAST(of->run, trial, of->group) == NULL)
        return;
    struct table table = report_table(section, name, "closed",
                                      "After step:count|With overlap:time|Without:time|Slowed:time", MOST_BUCKETS);
    report_sentence(
        table.object, "notes",
        "Steps with and without overlap took turns; these are their medians. The job changes to the other way "
        "only if that is at least 1 %% shorter, in three quarters of the pairs of steps. Slowed: how much "
        "longer kernels take while all-reduces run.");
    FOR_EACH(trial, of->run->trials, of->run->trial_count) {
        if (trial->group == of->group)
            report_row(&table,
                       ROW({(double)trial->after_step}, {trial->overlapped_us}, {trial->apart_us}, {trial->slowed_us}));
    }
}

/* `groups`: of so many one. */
static void
put_group(json_object *section, const struct group_facts *of, size_t groups)
{
    char buckets[40], tensors[40], trials[40], group[20] = "";
    if (groups > 1)
        snprintf(group, sizeof(group), " of group %d", of->group);
    snprintf(buckets, sizeof(buckets), "Buckets%s", group);
    snprintf(tensors, sizeof(tensors), "Tensors%s", group);
    snprintf(trials, sizeof(trials), "Trials of overlap%s", group);
    put_trials(section, of, trials);
    if (of->plan == NULL) {
        report_sentence(section, "notes", "The trace has no plan of buckets%s.",
                        of->facts->world > 1 ? "" : ": one rank averages nothing");
        return;
    }
    struct table table = report_table(section, buckets, "",
                                      "Bucket:count|Tensors:count|Bytes:bytes|Ready before backward's end:time|"
                                      "All-reduce:time|GB/s:number|Longest wait:time|Comes last|Packed|Sent as",
                                      MOST_BUCKETS / groups);
    report_sentence(table.object, "notes",
                    "Medians of the steps after step %llu. Ready: how long before the end of backward the gradients of "
                    "the bucket were complete, on rank %d. All-reduce: of the rank that comes "
                    "last to it, so without waiting for other ranks. Longest wait: of the rank that comes first.",
                    (unsigned long long)of->plan->after_step, of->run->rank);
    for (size_t k = 0; k < of->plan->bucket_count; ++k)
        put_bucket(&table, of, (unsigned)k);
    put_tensors(section, of, tensors, MOST_TENSORS / groups);
}

void
section_buckets(json_object *report, const struct facts *facts)
{
    json_object *section = report_section(report, "buckets", "Buckets and tensors",
                                          "A bucket holds the gradients that one all-reduce sends.");
    for (int g = 0; g < TRACE_GROUPS; ++g) {
        struct group_facts of = {
            .facts = facts, .run = facts->first, .group = g, .plan = TRACE_LAST(facts->first, plan, g)};
        if (facts->group_steps[g] > 0 || g == facts->group)
            put_group(section, &of, facts->group_count > 0 ? facts->group_count : 1);
    }
}
