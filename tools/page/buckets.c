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
    const struct trace_run *run; /* of the lowest rank */
    int group;
    const struct trace_plan *plan; /* the last one */
};

/* One bucket; medians over the steps of the plan. */
static void
put_bucket(struct table *table, const struct group_facts *of, unsigned number)
{
    size_t most = of->run->step_count, count = 0;
    OWNED double *ready = xcalloc(most + 1, sizeof(*ready)), *took = xcalloc(most + 1, sizeof(*took));
    const struct trace_bucket *last = NULL;
    FOR_EACH(step, of->run->steps, of->run->step_count) {
        if (step->group != of->group || step->in_graph || step->number <= of->plan->after_step || step->control)
            continue;
        FOR_EACH(bucket, step->buckets, step->bucket_count) {
            if (bucket->number != number || count == most)
                continue;
            last = bucket;
            ready[count] = -last->ready_us;
            took[count++] = last->end_us - last->begin_us;
        }
    }
    double bytes = last != NULL ? (double)last->bytes : NAN, reduce_us = waiting_median(took, count);
    report_row(table, ROW({number}, {(double)of->plan->member_counts[number]}, {bytes}, {waiting_median(ready, count)},
                          {reduce_us}, {reduce_us > 0 ? bytes / reduce_us / 1e3 : NAN},
                          {.text = last != NULL ? last->path : "-"}, {.text = last != NULL ? last->type : "-"}));
}

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
    if (of->plan == NULL)
        report_sentence(section, "notes", "The trace has no plan of buckets.");
    struct table table = report_table(section, buckets, "",
                                      "Bucket:count|Tensors:count|Bytes:bytes|Ready before backward's end:time|"
                                      "All-reduce:time|GB/s:number|Packed|Sent as",
                                      MOST_BUCKETS / groups);
    if (of->plan != NULL)
        report_sentence(table.object, "notes", "Medians of the steps after step %llu, on rank %d.",
                        (unsigned long long)of->plan->after_step, of->run->rank);
    for (size_t k = 0; of->plan != NULL && k < of->plan->bucket_count; ++k)
        put_bucket(&table, of, (unsigned)k);
    put_tensors(section, of, tensors, MOST_TENSORS / groups);
}

void
section_buckets(json_object *report, const struct facts *facts)
{
    json_object *section = report_section(report, "buckets", "Buckets and tensors",
                                          "A bucket holds the gradients that one all-reduce sends.");
    for (int g = 0; g < TRACE_GROUPS; ++g) {
        struct group_facts of = {.run = facts->first, .group = g, .plan = TRACE_LAST(facts->first, plan, g)};
        if (facts->group_steps[g] > 0 || g == facts->group)
            put_group(section, &of, facts->group_count > 0 ? facts->group_count : 1);
    }
}
