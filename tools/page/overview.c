/*
 * overview.c - whose run it was, why it failed, what its trace lacks; and the verdict: how long a step takes, what it
 * loses most to, and what saves it.
 */
#include "tools/page/report.h"

#include "base/printable.h"
#include "tools/common/owned.h"

#include <json-c/json.h>

#include <math.h>
#include <time.h>

enum { COMMAND_BYTES = 200 };

/* Its beginning, if it is long: the settings have all of it. */
static void
put_command(json_object *section, const struct facts *facts)
{
    OWNED char *command = command_text(facts);
    if (command != NULL)
        report_sentence(section, "command", "%.*s%s", COMMAND_BYTES, command,
                        strlen(command) > COMMAND_BYTES ? " ..." : "");
}

void
section_head(json_object *report, const struct facts *facts)
{
    char caption[300], date[40] = "";
    bool many = ANY(it, facts->ranks, facts->rank_count, strcmp(it->run->host, facts->first->host) != 0);
    json_object *each, *rank = NULL;
    time_t begun = (time_t)(facts->first->unix_ns / 1000000000);
    struct tm utc;
    if (facts->first->unix_ns > 0 && gmtime_r(&begun, &utc) != NULL)
        (void)strftime(date, sizeof(date), ", %Y-%m-%d %H:%M UTC", &utc);
    if (json_object_object_get_ex(facts->summary, "each_rank", &each) && json_object_is_type(each, json_type_array))
        rank = json_object_array_get_idx(each, 0);
    snprintf(caption, sizeof(caption), "%d rank%s on %s%s%s%s", facts->world, facts->world == 1 ? "" : "s",
             facts->first->host, many ? " and others" : "", date,
             strstr(facts_string(rank, "gpu"), "stand-in") != NULL
                 ? ", on the stand-in for a GPU: times are those of a CPU"
                 : "");
    json_object *nonfinite,
        *section = report_section(report, "head", facts->program[0] != '\0' ? facts->program : "A training", caption);
    put_command(section, facts);
    double code = facts_number(facts->summary, "exit_code");
    const char *reason = facts_string(facts->summary, "reason");
    if (code > 0 || (code == 0 && reason[0] != '\0'))
        report_sentence(section, "bad", "The job failed with exit code %.0f: %s", code, reason);
    const char *asked = facts_string(facts->summary, "signal");
    if (asked[0] != '\0')
        report_sentence(section, "bad", "SIG%s asked the ranks to stop; they had %.0f s (--grace).", asked,
                        facts_number(facts->summary, "grace"));
    /* also of a job that trains on: it has lost its parameters, too */
    if (json_object_object_get_ex(facts->summary, "nonfinite", &nonfinite) && nonfinite != NULL)
        report_sentence(section, "bad", "%s", facts_string(nonfinite, "text"));
    for (size_t i = 0; i < facts->trace->remark_count && !(code > 0); ++i) /* else it is no news: see the settings */
        report_sentence(section, "bad", "The trace is incomplete: %s", facts->trace->remarks[i]);
}

/* ---- the verdict ---- */

/* Few long steps, such as those with an evaluation, make a mean that no step takes. */
static void
put_longest(json_object *section, const struct facts *facts)
{
    char half[FIGURE_BYTES], most[FIGURE_BYTES];
    const struct step_facts *longest = NULL;
    double p50_us = facts_percentile(facts, 50);
    FOR_EACH(step, facts->steps, facts->step_count) {
        if (step->counts && step->most_us > (longest != NULL ? longest->most_us : 0)) /* which may be NAN */
            longest = step;
    }
    if (longest != NULL && facts->step_us > 1.5 * p50_us)
        report_sentence(section, "notes",
                        "Half of the recorded steps take at most %s. The longest, step %llu, took %s on its slowest "
                        "rank: an evaluation or a checkpoint between two calls of DDP_STEP counts as a part of a step.",
                        figure_time(p50_us, half), (unsigned long long)longest->number,
                        figure_time(longest->most_us, most));
}

enum lost { LOST_WAITING, LOST_EXPOSED, LOST_SLOWED };

/* Which lost part of a step is the largest: the figures have all. */
static enum lost
find_most_lost(const struct facts *facts)
{
    const double us[] = {facts->waiting_us, facts->exposed_us, facts->slowed_us};
    enum lost most = LOST_WAITING;
    for (enum lost i = LOST_EXPOSED; i <= LOST_SLOWED; ++i)
        most = us[i] > us[most] ? i : most;
    return most;
}

/* That part, and what to do about it if that is known: `advice`, which begins with a blank. */
static void
put_lost(json_object *section, const struct facts *facts, const char *advice)
{
    char text[FIGURE_BYTES], waiting[40] = "waiting for other ranks";
    if (facts->waited.straggler >= 0)
        snprintf(waiting, sizeof(waiting), "waiting for rank %d", facts->ranks[facts->waited.straggler].run->rank);
    const char *const names[] = {waiting, "exposed communication (waiting for all-reduces after backward)",
                                 "kernels slowed by all-reduces"};
    const double us[] = {facts->waiting_us, facts->exposed_us, facts->slowed_us};
    enum lost most = find_most_lost(facts);
    bool is_small = most == LOST_WAITING && !facts->waited.matters; /* or is not known */
    if (!is_small)
        report_sentence(section, "notes", "Most of the lost time is %s: %s per step.%s", names[most],
                        figure_time(us[most], text), advice);
    else if (advice[0] != '\0')
        report_sentence(section, "notes", "%s", advice + 1);
}

/* What adds up to the difference between a step and one without averaging: all that is lost, by its parts. */
static void
put_parts(json_object *section, const struct facts *facts)
{
    char all[FIGURE_BYTES], waiting[FIGURE_BYTES], exposed[FIGURE_BYTES], slowed[FIGURE_BYTES];
    double waiting_us = isnan(facts->waiting_us) ? 0 : facts->waiting_us;
    bool is_slowed = facts->slowed_us > waiting_us;
    if (isnan(facts_alone(facts)))
        return;
    report_sentence(section, "notes",
                    "A step loses %s in all: %s waiting for other ranks, %s exposed communication%s%s.",
                    figure_time(facts->step_us - facts_alone(facts), all), figure_time(waiting_us, waiting),
                    figure_time(facts->exposed_us, exposed), is_slowed ? ", and in slowed kernels beyond that " : "",
                    is_slowed ? figure_time(facts->slowed_us - waiting_us, slowed) : "");
}

/* ---- what may save time, but for overlap: trials have tried both ways in the run ---- */

#define LEAST_GAIN  0.01      /* of a step */
#define LEAST_BYTES (1 << 20) /* of gradients, for --compress: half of fewer bytes saves little */

/* Why nothing is known; NULL: the figures are. */
static const char *
find_missing(const struct facts *facts)
{
    if (facts->plan == NULL || facts->counted == 0)
        return facts->graph_steps > 0         ? "steps of the run are in CUDA graphs, which have no times"
               : facts->first->step_count > 0 ? "the run has too few steps: about 40 are needed"
                                              : "the run has no steps";
    return isnan(facts_alone(facts)) ? "too few steps were timed, or their times vary too much; train for more steps"
                                     : NULL;
}

/* The last step that goes as the others do, of at least one rank; NULL: there is none. */
static const struct trace_step *
find_last(const struct facts *facts)
{
    const struct rank_facts *first = &facts->ranks[0];
    size_t last = first->step_count;
    while (last > 1 && first->steps[last - 1]->control)
        --last;
    return last > 0 ? first->steps[last - 1] : NULL;
}

/* Gradients are many bytes, all sent as they are; and an all-reduce of more bytes takes longer. */
static bool
may_compress(const struct facts *facts, const struct trace_step *last)
{
    const struct trace_run *run = facts->first;
    uint64_t bytes = 0;
    FOR_EACH(tensor, run->tensors[facts->group], run->tensor_counts[facts->group])
        bytes += tensor->bytes;
    return bytes >= LEAST_BYTES && !ANY(it, last->buckets, last->bucket_count, strcmp(it->type, "float32") != 0) &&
           run->cost_count > 1 && run->costs[run->cost_count - 1].ns >= 2 * run->costs[0].ns;
}

enum { ADVICE_BYTES = 2 * LATE_TEXT_BYTES };

/* About one rank, or ranks that are late in turns. */
static void
advise_late(const struct facts *facts, double least_us, char advice[ADVICE_BYTES])
{
    char text[FIGURE_BYTES], longer[LATE_TEXT_BYTES];
    json_object *unbound;
    const struct rank_facts *late = facts->waited.straggler >= 0 ? &facts->ranks[facts->waited.straggler] : NULL;
    if (late != NULL && late->kept_us >= least_us) {
        printable_append(advice, ADVICE_BYTES, " About %s of a step can be saved: look at rank %d (%s)%s.",
                         figure_time(late->kept_us, text), late->run->rank, late->run->host,
                         late_describe(facts, longer));
        return;
    }
    if (late != NULL || !facts->waited.matters || facts->waiting_us < least_us)
        return;
    bool is_unbound =
        json_object_object_get_ex(facts->summary, "unbound", &unbound) && json_object_get_boolean(unbound);
    printable_append(advice, ADVICE_BYTES, " Against waiting for ranks may help: %s.",
                     is_unbound ? "--bind core (each rank gets its own cores)"
                                : "give all ranks batches of one size, and cores without other processes");
}

/* A straggler costs most: no setting of all-reduces helps before it is found. */
static bool
is_straggler_first(const struct facts *facts)
{
    return facts->waited.straggler >= 0 && find_most_lost(facts) == LOST_WAITING;
}

/* About time for all-reduces. */
static void
advise_exposed(const struct facts *facts, double least_us, char advice[ADVICE_BYTES])
{
    const struct trace_step *last = find_last(facts);
    if (last == NULL || facts->exposed_us < least_us)
        return;
    if (last->overlapped && facts->first->bucket_bytes > 0)
        printable_append(advice, ADVICE_BYTES,
                         " What may help: leave --bucket-mb out: buckets are then planned from measured times.");
    if (may_compress(facts, last))
        printable_append(advice, ADVICE_BYTES,
                         " What may help: --compress fp16 or bf16 sends half of the bytes, and rounds gradients.");
}

/* What is to be repaired before the speed. */
static void
put_first(json_object *section, const struct facts *facts)
{
    json_object *nonfinite;
    if (facts_number(facts->summary, "exit_code") > 0)
        report_sentence(section, "notes",
                        "Repair the failure first. What follows is the speed of the steps before it, and does not "
                        "explain it.");
    else if (json_object_object_get_ex(facts->summary, "nonfinite", &nonfinite) && nonfinite != NULL)
        report_sentence(section, "notes",
                        "Find the cause of the NaN or infinite value first: results from that step on are not to be "
                        "used. What follows is the speed of the steps, and does not explain it.");
}

/* The ranks together are slower than one GPU, and all-reduces cost most: a step has too little work. */
static bool
has_too_little_work(const struct facts *facts)
{
    return find_most_lost(facts) == LOST_EXPOSED && facts_alone(facts) * facts->world < facts->step_us;
}

/* Where no advice is known. */
static void
say_no_advice(json_object *section, const struct facts *facts, const char *missing)
{
    if (facts->world == 1) {
        report_sentence(section, "notes",
                        "One rank averages nothing: what several lose is known after a run with -n 2.");
        return;
    }
    if (missing != NULL) {
        report_sentence(section, "notes", "What may save time is not known: %s.", missing);
        return;
    }
    report_sentence(section, "notes", "No setting of ddprun is known that would save 1 %% of a step or more.");
    if (has_too_little_work(facts))
        report_sentence(section, "notes",
                        "A step has too little work beside its all-reduces: use a larger batch, or fewer ranks.");
}

/* What is lost, and what to do about it: what may save a hundredth of a step or more. */
static void
put_advice(json_object *section, const struct facts *facts)
{
    char late[ADVICE_BYTES] = "", exposed[ADVICE_BYTES] = "";
    const char *missing = find_missing(facts);
    double least_us = LEAST_GAIN * facts->step_us;
    if (facts->world > 1 && missing == NULL) {
        advise_late(facts, least_us, late);
        if (!is_straggler_first(facts))
            advise_exposed(facts, least_us, exposed);
    }
    put_first(section, facts);
    bool is_exposed_first = find_most_lost(facts) == LOST_EXPOSED;
    const char *first = is_exposed_first ? exposed : late, *other = is_exposed_first ? late : exposed;
    if (facts->world > 1) {
        put_lost(section, facts, first);
        put_parts(section, facts);
    }
    if (other[0] != '\0')
        report_sentence(section, "notes", "%s", other + 1);
    if (late[0] == '\0' && exposed[0] == '\0')
        say_no_advice(section, facts, missing);
}

/* Without averaging, exposed, and the larger of slowed and waiting add up to what a step takes. */
static void
put_figures(json_object *section, const struct facts *facts)
{
    json_object *summary = facts->summary;
    double steps = facts_number(summary, "steps"), alone_us = facts->world > 1 ? facts_alone(facts) : NAN;
    double efficiency = alone_us / facts->step_us;
    enum figure_place least = isnan(efficiency) ? FIGURE_LEADS : FIGURE_PLAIN; /* where no other leads */
    const struct {
        const char *id, *name, *kind;
        double value;
        const char *note;
        enum figure_place place;
    } figures[] = {
        {"efficiency", "efficiency", "share", efficiency, "a step without averaging / a step", FIGURE_LEADS},
        {"speedup", "speed-up over one GPU", "number", efficiency * facts->world,
         efficiency * facts->world < 1 ? "estimate: efficiency x ranks; below 1, one GPU alone would be faster"
                                       : "estimate: efficiency x ranks",
         FIGURE_LEADS},
        {"step", "a step takes", "time", facts->step_us,
         "mean, from one DDP_STEP to the next: evaluation and checkpoints count", least},
        {"alone", "without averaging", "time", alone_us,
         facts->world > 1 ? "estimate: the time of a step minus exposed communication, and minus waiting or slowed "
                            "kernels (the larger of these)"
                          : "",
         FIGURE_PLAIN},
        {"exposed", "exposed communication per step", "time", facts->exposed_us,
         "waiting for all-reduces after backward, mean", FIGURE_PLAIN},
        {"slowed", "kernels slowed by all-reduces", "time", facts->slowed_us,
         "extra time per step of kernels while all-reduces run, measured with overlap on and off", FIGURE_PLAIN},
        {"waiting", "waiting for other ranks", "time", facts->waiting_us,
         facts->waited.straggler >= 0 ? "per step, mean over the ranks that wait" : "per step, mean over the ranks",
         FIGURE_PLAIN},
        {"steps_per_second", "steps per second", "number", facts->steps_per_s, "mean after start-up", FIGURE_PLAIN},
        {"items_per_second", "items per second", "number", facts_number(summary, "items_per_second"),
         "items that DDP_SHARD divides", FIGURE_PLAIN},
        {"ranks", "ranks", "count", facts->world, "", FIGURE_FOLDED},
        {"steps", "steps", "count", isnan(steps) ? (double)facts->step_count : steps,
         isnan(steps) ? "in the trace" : "", FIGURE_FOLDED},
        {"batches", "batches in turns", "count", facts_turns(facts), "of all ranks; a step is a round of them",
         FIGURE_FOLDED},
        {"batches_per_second", "batches per second", "number",
         facts->steps_per_s * facts_turns(facts) / facts_number(summary, "turn_rounds"), "of all ranks", FIGURE_FOLDED},
        {"seconds", "wall time", "time", 1e6 * facts_number(summary, "seconds"), "from start to end", FIGURE_FOLDED},
        {"p50", "p50", "time", facts_percentile(facts, 50), "median of the recorded steps", FIGURE_FOLDED},
        {"p95", "p95", "time", facts_percentile(facts, 95), "95 of 100 steps take at most this", FIGURE_FOLDED},
        {"p99", "p99", "time", facts_percentile(facts, 99), "99 of 100 steps take at most this", FIGURE_FOLDED}};
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); ++i)
        if (!isnan(figures[i].value))
            report_figure(section, figures[i].id, figures[i].name, figures[i].kind, figures[i].value, figures[i].note,
                          figures[i].place);
}

void
section_verdict(json_object *report, const struct facts *facts)
{
    char caption[160], group[40] = "", text[FIGURE_BYTES];
    if (facts->group_count > 1)
        snprintf(group, sizeof(group), " of gradient group %d", facts->group);
    snprintf(caption, sizeof(caption), "A step takes %s. Means are of steps %llu to %llu%s.",
             figure_time(facts->step_us, text), (unsigned long long)facts->first_counted,
             (unsigned long long)facts->last_counted, group);
    json_object *section =
        report_section(report, "verdict", "Verdict", isnan(facts->step_us) ? "No step was measured." : caption);
    put_advice(section, facts);
    if (facts->world > 1 && facts->waited.matters)
        report_link(section, "late", "The steps with the longest waits");
    put_longest(section, facts);
    if (facts->noise != NULL)
        report_sentence(section, "notes", "By the gradients, %s.", facts_string(facts->noise, "text"));
    put_figures(section, facts);
    whole_put(section, facts);
}
