/*
 * whole.c - where the time of a whole run went: its start, training, evaluations, checkpoints, and what came after the
 * last step. By the host's clock of the lowest rank.
 */
#include "tools/page/report.h"

#include "launcher/common/xcalloc.h"
#include "tools/common/owned.h"

#include <json-c/json.h>

#include <math.h>

/* All in nanoseconds. They add up to the run, and `begin` and `end` are those of the job, on the rank's clock. */
struct whole {
    double begin, end;
    double start;
    double training; /* steps, at most at their usual time where they were longer */
    double evaluation, checkpoints;
    double other; /* longer steps, of which neither was seen */
    double after;
    double usual;          /* a step's time, the median */
    double usual_launches; /* a step's, the median; NAN: the trace does not say launches */
    double usual_saved;    /* a step's time in checkpoints, the median: of programs that copy a parameter in each */
};

/* From one recorded step to the next: a trace leaves out steps of long runs. */
struct stretch {
    double ns, steps;
    struct trace_totals did; /* in it */
};

/* The job's begin and end. False: its launcher has not said them. */
static bool
find_ends(const struct facts *facts, struct whole *whole)
{
    const struct trace_run *run = facts->first;
    double begun_unix = facts_number(run->told, "begun_unix_ns"), seconds = facts_number(facts->summary, "seconds");
    if (run->at_ns == 0 || run->unix_ns == 0 || isnan(begun_unix) || isnan(seconds))
        return false;
    whole->begin = (double)run->at_ns + (begun_unix - (double)run->unix_ns);
    whole->end = whole->begin + 1e9 * seconds;
    return true;
}

static struct trace_totals
difference(struct trace_totals later, struct trace_totals before)
{
    return (struct trace_totals){later.launches - before.launches, later.saved_ns - before.saved_ns};
}

/* Those between steps that follow each other in number and time. Returns how many there are; `stretches` has room for
 * one of each step. The first and the last of these steps: *first_p, *last_p. */
static size_t
find_stretches(const struct trace_run *run, struct stretch *stretches, const struct trace_step **first_p,
               const struct trace_step **last_p)
{
    const struct trace_step *before = NULL;
    size_t count = 0;
    FOR_EACH(step, run->steps, run->step_count) {
        if (step->entered_ns == 0)
            continue;
        if (before == NULL)
            *first_p = before = step;
        if (step->number <= before->number || step->entered_ns <= before->entered_ns)
            continue;
        stretches[count++] =
            (struct stretch){(double)(step->entered_ns - before->entered_ns), (double)(step->number - before->number),
                             difference(step->totals, before->totals)};
        before = step;
    }
    *last_p = before;
    return count;
}

/* ---- what is usual ---- */

static void
find_usual(const struct stretch *stretches, size_t count, struct whole *whole)
{
    OWNED double *ns = xcalloc(count + 1, sizeof(*ns)), *launches = xcalloc(count + 1, sizeof(*launches)),
                 *saved = xcalloc(count + 1, sizeof(*saved));
    for (size_t i = 0; i < count; ++i) {
        ns[i] = stretches[i].ns / stretches[i].steps;
        launches[i] = stretches[i].did.launches / stretches[i].steps;
        saved[i] = stretches[i].did.saved_ns / stretches[i].steps;
    }
    whole->usual = waiting_median(ns, count);
    whole->usual_launches = waiting_median(launches, count);
    whole->usual_saved = waiting_median(saved, count);
}

/* ---- what took longer ---- */

/* A stretch that takes half as much again as its steps usually take, and two steps more: a slow change of pace is none.
 */
static bool
is_long(const struct stretch *stretch, const struct whole *whole)
{
    return stretch->ns > 1.5 * stretch->steps * whole->usual + 2 * whole->usual;
}

/* Its time goes to its parts. */
static void
divide_stretch(const struct stretch *stretch, struct whole *whole)
{
    double longer = fmax(stretch->ns - stretch->steps * whole->usual, 0);
    double saved = stretch->did.saved_ns - stretch->steps * whole->usual_saved;
    saved = saved > 0 ? fmin(saved, longer) : 0; /* not known: 0 */
    double rest = longer - saved;
    bool evaluates = facts_is_evaluation(stretch->did.launches, whole->usual_launches, stretch->steps);
    whole->checkpoints += saved;
    if (evaluates)
        whole->evaluation += rest;
    else if (is_long(stretch, whole))
        whole->other += rest;
    else
        rest = 0;
    whole->training += stretch->ns - saved - rest;
}

/* After the last DDP_STEP, which an update follows, programs evaluate and save once more. */
static void
divide_after(const struct trace_run *run, const struct trace_step *last, struct whole *whole)
{
    struct trace_totals did = difference(run->totals, last->totals);
    double worked = run->worked_ns - (double)last->entered_ns;
    double after = whole->end - (double)last->entered_ns;
    if (!(worked > 0) || worked > after)
        worked = 0;
    double saved = did.saved_ns > 0 ? fmin(did.saved_ns, after) : 0;
    double evaluation =
        facts_is_evaluation(did.launches, whole->usual_launches, 1) ? fmax(fmin(worked, after) - saved, 0) : 0;
    whole->checkpoints += saved;
    whole->evaluation += evaluation;
    whole->after = after - saved - evaluation;
}

/* ---- the table ---- */

static void
put_whole(struct json_object *section, const struct facts *facts, const struct whole *whole)
{
    char usual[FIGURE_BYTES];
    bool is_told_apart = !isnan(whole->usual_launches);
    struct table table = report_table(section, "The whole run", "whole",
                                      "Start:time|Training:time|Evaluation:time|Checkpoints:time|Other:time|"
                                      "After the last step:time|Whole run:time",
                                      1);
    report_sentence(table.object, "notes",
                    "On rank %d. Start: until the first DDP_STEP. Training: steps, at their usual time (%s). Other: "
                    "what steps took beyond it, %s. After the last step: until the job ended%s.",
                    facts->first->rank, figure_time(whole->usual / 1e3, usual),
                    is_told_apart
                        ? "with no sign of an evaluation or a checkpoint"
                        : "as with an evaluation, a checkpoint or a pause: this trace does not tell them apart",
                    facts_number(facts->summary, "exit_code") > 0 ? ", with the time until the failure was found" : "");
    if (is_told_apart)
        report_sentence(table.object, "notes",
                        "Evaluation: steps that launch more kernels than others. Checkpoints: from the copy of an "
                        "annotated parameter to the host to the next launch, copy to the device or call of ddprun.");
    report_row(&table,
               ROW({whole->start / 1e3}, {whole->training / 1e3}, {is_told_apart ? whole->evaluation / 1e3 : NAN},
                   {is_told_apart ? whole->checkpoints / 1e3 : NAN}, {whole->other / 1e3}, {whole->after / 1e3},
                   {(whole->end - whole->begin) / 1e3}));
}

void
whole_put(struct json_object *section, const struct facts *facts)
{
    const struct trace_run *run = facts->first;
    const struct trace_step *first = NULL, *last = NULL;
    struct whole whole = {0};
    OWNED struct stretch *stretches = xcalloc(run->step_count + 1, sizeof(*stretches));
    size_t count = find_stretches(run, stretches, &first, &last);
    if (count == 0 || !find_ends(facts, &whole))
        return;
    if ((double)first->entered_ns < whole.begin || (double)last->entered_ns > whole.end)
        return; /* the clock was set, or the summary is of another run */
    whole.start = (double)first->entered_ns - whole.begin;
    find_usual(stretches, count, &whole);
    for (size_t i = 0; i < count; ++i)
        divide_stretch(&stretches[i], &whole);
    divide_after(run, last, &whole);
    put_whole(section, facts, &whole);
}
