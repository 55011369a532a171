/*
 * whole.c - where the time of a whole run went: its start, its steps, what steps took beyond the usual time, and what
 * came after the last one. By the host's clock of the lowest rank.
 */
#include "tools/page/report.h"

#include "launcher/common/xcalloc.h"
#include "tools/common/owned.h"

#include <json-c/json.h>

#include <math.h>

/* All in nanoseconds; `begin` and `end` are those of the job, on the rank's clock. */
struct whole {
    double begin, first_step, last_step, end;
    double usual;  /* a step's time, the median */
    double longer; /* what steps took beyond it */
};

/* From one recorded step to the next: a trace leaves out steps of long runs. */
struct stretch {
    double ns, steps;
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

/* Those between steps that follow each other in number and time; the first and the last of these steps are put into
 * `whole`. Returns how many there are; `stretches` has room for one of each step. */
static size_t
find_stretches(const struct trace_run *run, struct whole *whole, struct stretch *stretches)
{
    const struct trace_step *before = NULL;
    size_t count = 0;
    FOR_EACH(step, run->steps, run->step_count) {
        if (step->entered_ns == 0)
            continue;
        if (before == NULL) {
            whole->first_step = (double)step->entered_ns;
            before = step;
        }
        if (step->number <= before->number || step->entered_ns <= before->entered_ns)
            continue;
        stretches[count++] =
            (struct stretch){(double)(step->entered_ns - before->entered_ns), (double)(step->number - before->number)};
        before = step;
    }
    whole->last_step = before != NULL ? (double)before->entered_ns : NAN;
    return count;
}

/* A stretch counts as longer if it takes half as much again as its steps usually take, and two steps more: a slow
 * change of pace is none. */
static void
find_longer(const struct stretch *stretches, size_t count, struct whole *whole)
{
    OWNED double *each = xcalloc(count + 1, sizeof(*each));
    for (size_t i = 0; i < count; ++i)
        each[i] = stretches[i].ns / stretches[i].steps;
    whole->usual = waiting_median(each, count);
    for (size_t i = 0; i < count; ++i) {
        double usual = stretches[i].steps * whole->usual;
        if (stretches[i].ns > 1.5 * usual + 2 * whole->usual)
            whole->longer += stretches[i].ns - usual;
    }
}

void
whole_put(struct json_object *section, const struct facts *facts)
{
    struct whole whole = {0};
    char usual[FIGURE_BYTES];
    OWNED struct stretch *stretches = xcalloc(facts->first->step_count + 1, sizeof(*stretches));
    size_t count = find_stretches(facts->first, &whole, stretches);
    if (count == 0 || !find_ends(facts, &whole))
        return;
    if (whole.first_step < whole.begin || whole.last_step > whole.end)
        return; /* the clock was set, or the summary is of another run */
    find_longer(stretches, count, &whole);
    struct table table =
        report_table(section, "The whole run", "whole",
                     "Start:time|Usual steps:time|Longer steps:time|After the last step:time|Whole run:time", 1);
    report_sentence(
        table.object, "notes",
        "On rank %d. Start: until the first DDP_STEP. Longer steps: what steps took beyond the usual %s, as "
        "with an evaluation, a checkpoint or a pause, which a trace cannot tell apart. After the last step: "
        "until the job ended%s.",
        facts->first->rank, figure_time(whole.usual / 1e3, usual),
        facts_number(facts->summary, "exit_code") > 0 ? ", with the time until the failure was found" : "");
    double training = whole.last_step - whole.first_step;
    report_row(&table,
               ROW({(whole.first_step - whole.begin) / 1e3}, {(training - whole.longer) / 1e3}, {whole.longer / 1e3},
                   {(whole.end - whole.last_step) / 1e3}, {(whole.end - whole.begin) / 1e3}));
}
