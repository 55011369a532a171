/*
 * steps.c - how long steps took, what each rank did in them, and which rank the others waited for; how they differ over
 * the run, and the values that the program averages.
 */
#include "tools/page/report.h"

#include "launcher/common/xcalloc.h"
#include "tools/common/owned.h"

#include <json-c/json.h>

#include <math.h>

enum { MOST_RANKS = 64, MOST_CURVES = 12 };

static void
put_ranks(json_object *section, const struct facts *facts)
{
    struct table table =
        report_table(section, "What each rank does in a step", "parts",
                     "Rank:count|Host|Before backward:time|Backward:time|Exposed:time|Waits for ranks:time|Step:time|"
                     "Came last in steps:count|Host:time",
                     MOST_RANKS);
    report_sentence(
        table.object, "notes",
        "Means of steps %llu to %llu. Exposed: waiting for all-reduces after backward. Host: from the return of "
        "one DDP_STEP to the call of the next: loading data, copies, launches. If it is nearly a whole step, "
        "the host may set the pace.",
        (unsigned long long)facts->first_counted, (unsigned long long)facts->last_counted);
    FOR_EACH(rank, facts->ranks, facts->rank_count) {
        uint32_t r = NUMBER_OF(rank);
        double waits_us = facts_waiting(facts, r), own_us = rank->step_us - facts->exposed_us - waits_us;
        /* The trace has some of quick steps, and the means are of more: the share is that of the trace. */
        double share = rank->before_us / (rank->before_us + rank->backward_us);
        report_row(&table, ROW({rank->run->rank}, {.text = rank->run->host}, {own_us * share}, {own_us * (1 - share)},
                               {facts->exposed_us}, {waits_us}, {rank->step_us}, {(double)facts->waits[r].last_count},
                               {rank->host_us}));
    }
}

/* What the host and the device of each rank do before backward. */
static void
put_before(json_object *section, const struct facts *facts)
{
    if (!ANY(rank, facts->ranks, facts->rank_count, !isnan(rank->host.loader_us))) {
        report_sentence(
            section, "notes",
            "Loader, copies and forward are not told apart: that needs a copy of the batch to the device, by "
            "the thread that calls DDP_STEP, before the first gradient is complete, and overlap.");
        return;
    }
    struct table table =
        report_table(section, "Before backward, on host and device", "parts",
                     "Rank:count|On|Other:time|Loader:time|Copies:time|Forward:time|Together:time", 2 * MOST_RANKS);
    report_sentence(
        table.object, "notes",
        "Means of steps with these times in the trace, without evaluations and checkpoints. Copies: of the "
        "batch to the device, from the first to the last; on the host such a call may also wait for earlier "
        "work of the device. Loader: the host's time outside of calls of CUDA and ddprun until the last of "
        "these copies. Forward: from there to the operation that completes the first gradient. Other: the "
        "update, waits and other calls before that copy. A copy of less than a sixteenth of the largest, or "
        "of less than 64 bytes, counts as another call.");
    FOR_EACH(rank, facts->ranks, facts->rank_count) {
        const struct trace_before *host = &rank->host, *device = &rank->device;
        report_row(&table,
                   ROW({rank->run->rank}, {.text = "host"}, {host->other_us}, {host->loader_us}, {host->copies_us},
                       {host->forward_us}, {host->other_us + host->loader_us + host->copies_us + host->forward_us}));
        report_row(&table, ROW({rank->run->rank}, {.text = "device"}, {device->other_us}, {NAN}, {device->copies_us},
                               {device->forward_us}, {device->other_us + device->copies_us + device->forward_us}));
    }
}

/* What is to be said of a step of a curve; NULL: nothing. */
static const char *
mark_of(const struct facts *facts, const struct step_facts *step)
{
    const char *mark = step->control ? "a trial: other buckets, or no overlap, to see what is quicker" : NULL;
    FOR_EACH(change, facts->first->overlaps, facts->first->overlap_count) {
        if (change->group == facts->group && change->after_step + 1 == step->number)
            mark = change->overlaps ? "overlap is on again from this step on" : "overlap is off from this step on";
    }
    return mark;
}

/* The duration of each step, and what was exposed of it. */
static void
put_curves(json_object *section, const struct facts *facts)
{
    size_t count = facts->step_count;
    OWNED struct point *took = xcalloc(count + 1, sizeof(*took)), *exposed = xcalloc(count + 1, sizeof(*exposed));
    FOR_EACH(step, facts->steps, count) {
        uint32_t i = NUMBER_OF(step);
        double number = (double)step->number, waited = step->control ? NAN : step->last.waited;
        took[i] = (struct point){number, step->middle_us, step->least_us, step->most_us, mark_of(facts, step)};
        exposed[i] = (struct point){number, waited, waited, waited, NULL};
    }
    report_curve(section, "Duration of each step", "time", took, count);
    report_curve(section, "Exposed communication of each step", "time", exposed, count);
}

void
section_steps(json_object *report, const struct facts *facts)
{
    double batches = facts_number(facts->summary, "batches"), each = facts_number(facts->summary, "batches_per_step");
    json_object *section =
        report_section(report, "step-times", "Step times by rank",
                       "The line is the median of the ranks, the band goes from the quickest to the slowest rank.");
    if (!isnan(facts_turns(facts)))
        report_sentence(section, "notes",
                        "The ranks take turns (DDP_TURN_BEGIN): after the first batch a step is a round of %d of %.0f "
                        "batches, one on each rank.",
                        facts->world, facts_turns(facts));
    if (!isnan(batches) && !isnan(each))
        report_sentence(section, "notes",
                        "With --plan a step is a round of %.0f of the program's %.0f batches, one on each rank.", each,
                        batches);
    if (facts->group_count > 1)
        report_sentence(section, "notes", "Of %zu gradient groups this is group %d, the one with the most bytes.",
                        facts->group_count, facts->group);
    if (facts->graph_steps > 0)
        report_sentence(section, "notes", "%zu steps in CUDA graphs have no times.", facts->graph_steps);
    if (isnan(facts_percentile(facts, 50))) {
        report_sentence(section, "notes", "%s",
                        facts->world > 1 ? "No step has times of all ranks."
                                         : "With one rank nothing is averaged, and a trace has no times of its steps.");
        return;
    }
    put_curves(section, facts);
    put_ranks(section, facts);
    put_before(section, facts);
}

/* ---- DDP_MEAN, as rank 0 has it: a curve for each name and place ---- */

static bool
is_same_mean(const struct trace_mean *a, const struct trace_mean *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->place, b->place) == 0;
}

static void
put_mean(json_object *section, const struct trace_run *run, size_t first)
{
    const struct trace_mean *mean = &run->means[first];
    OWNED struct point *points = xcalloc(run->mean_count, sizeof(*points));
    char text[FIGURE_BYTES], title[sizeof(mean->name) + sizeof(mean->place) + 80];
    size_t count = 0;
    for (size_t i = first; i < run->mean_count; ++i) {
        double x = (double)run->means[i].after_step, y = run->means[i].value;
        if (is_same_mean(&run->means[i], mean) && (count == 0 || x > points[count - 1].x))
            points[count++] = (struct point){x, y, y, y, NULL};
    }
    snprintf(title, sizeof(title), "%s (%s), last %s", mean->name, mean->place,
             figure_text("number", points[count - 1].y, text));
    report_curve(section, title, "number", points, count);
}

void
section_means(json_object *report, const struct facts *facts)
{
    const struct trace_run *run = facts->first;
    json_object *section =
        report_section(report, "means", "DDP_MEAN", "Values that the program averages over all ranks, by step.");
    if (run->mean_count == 0)
        report_sentence(section, "notes", "Rank %d has not called DDP_MEAN: there is no curve.%s", run->rank,
                        facts_number(facts->summary, "reduce_calls") > 0 ? " A trace has no results of DDP_REDUCE."
                                                                         : "");
    size_t shown = 0;
    FOR_EACH_UNTIL(mean, run->means, run->mean_count, shown == MOST_CURVES) {
        if (ANY(before, run->means, NUMBER_OF(mean), is_same_mean(before, mean)))
            continue;
        put_mean(section, run, NUMBER_OF(mean));
        ++shown;
    }
}
