/*
 * all_ranks.c - a run of all ranks of a check: its rows, and what the way in which it ended means (session.h).
 *
 * A run ends in one of four ways. All ranks made the last step. Or ddprun ended it, which is itself a difference from
 * one process, and goes into the evidence. Or the program failed after the last step, because it found the results
 * wrong that steps began from, which were not its own. Or it failed: then there is no verdict.
 */
#include "tools/check/command/session.h"

#include "tools/common/each.h"
#include "tools/common/owned.h"

#include <string.h>
#include <unistd.h>

/* As many as another launcher has started, which rank 0 wrote into its first row of a step; 0: it made none. */
static int
count_ranks(const char *results)
{
    struct check_rows first = {0};
    check_rows_append(&first, results, 0);
    const struct check_row *step = check_rows_find(&first, CHECK_ROW_STEP);
    int count = step != NULL ? (int)step->value : 0;
    check_rows_free(&first);
    return count;
}

/* How the ranks of a run have ended. */
struct rank_ends {
    const struct check_row *stop; /* why ddprun has stopped a rank; NULL: it has stopped none */
    bool all_ended;               /* each rank has reported its end, after the last step */
    bool any_step;                /* a rank has made a step */
    bool any_last_step;           /* a rank has made the last step */
    unsigned common_end; /* the step after which all ranks have ended by themselves, before the last one; else 0 */
};

/* The number of steps after which all ranks have ended by themselves, before `steps`; 0: they have not, or after
 * different numbers. */
static unsigned
find_common_end(const struct check_rows *ranked, int count, unsigned steps)
{
    unsigned common = 0;
    for (int r = 0; r < count; ++r) {
        const struct check_row *end = check_rows_find(&ranked[r], CHECK_ROW_END);
        if (end == NULL || end->value != 0 || end->step >= steps || (r > 0 && end->step != common))
            return 0;
        common = end->step;
    }
    return common;
}

/* Reads the rows of all ranks into ranked[count]. */
static struct rank_ends
read_ranks(const char *results, unsigned steps, struct check_rows *ranked, int count)
{
    struct rank_ends ends = {.all_ended = true};
    for (int r = 0; r < count; ++r) {
        const struct check_rows *rows = &ranked[r];
        check_rows_append(&ranked[r], results, r);
        const struct check_row *end = check_rows_find(rows, CHECK_ROW_END);
        if (end == NULL || end->step < steps)
            ends.all_ended = false;
        if (check_rows_find(rows, CHECK_ROW_STEP) != NULL)
            ends.any_step = true;
        if (ANY(row, rows->rows, rows->count, row->kind == CHECK_ROW_STEP && row->step >= steps))
            ends.any_last_step = true;
        if (ends.stop == NULL)
            ends.stop = check_rows_find(rows, CHECK_ROW_STOPPED);
    }
    ends.common_end = find_common_end(ranked, count, steps);
    return ends;
}

/* Removes the files of all ranks from a folder that hosts share, also those of ranks that are not read. */
static void
remove_results(const char *results, int count)
{
    bool may_be_more = true;
    for (int r = 0; may_be_more; ++r) {
        OWNED char *path = xasprintf("%s-%d", results, r);
        may_be_more = unlink(path) == 0 || r + 1 < count;
    }
}

/* Whether rows had no room, or the summary that would report it had none: that is no difference. */
static bool
are_rows_lost(const struct rank_ends *ends, const struct check_outcome *outcome)
{
    if (ends->all_ended || ends->stop != NULL || outcome->exit_code == 0 || outcome->late)
        return false;
    return outcome->reason[0] == '\0' || strstr(outcome->reason, "cannot write what ddprun check") != NULL;
}

/* Whether a rank has ended by itself before its first call (launcher/watch/verdict.c), while others trained: one
 * process does not. */
static bool
leaves_others(const struct check_outcome *outcome)
{
    return strstr(outcome->reason, "ended without taking part, while others did") != NULL;
}

/* Whether ddprun has ended the run before its last step: neither the program nor a signal from outside has, and the
 * ranks have made a step, or one of them left the others before its first. */
static bool
is_ended_by_ddprun(const struct rank_ends *ends, const struct check_outcome *outcome)
{
    if (ends->all_ended || are_rows_lost(ends, outcome))
        return false;
    if (!ends->any_step && !leaves_others(outcome))
        return false;
    if (outcome->signal != 0 || outcome->program_failed)
        return false;
    return ends->stop == NULL || ends->stop->value == 1;
}

/* Whether the run's end is itself a difference from one process. */
static bool
is_end_judged(const struct rank_ends *ends, const struct check_outcome *outcome)
{
    bool is_stop_judged = ends->stop != NULL && ends->stop->value == 1 && outcome->signal == 0;
    return is_stop_judged || is_ended_by_ddprun(ends, outcome);
}

/* The reason, for a message, why the ranks' run ended before its last step. */
static const char *
why_stopped(const struct rank_ends *ends, const struct check_outcome *outcome)
{
    if (ends->stop != NULL)
        return ends->stop->text;
    if (outcome->late)
        return "no step came within --timeout";
    return outcome->reason[0] != '\0' ? outcome->reason : "a rank ended before the last step";
}

/* Whether the program has failed after its last step, where steps began from the reference: it may have found its
 * own results wrong, which were not its own. */
static bool
may_have_judged_itself(const struct rank_ends *ends, const struct check_outcome *outcome)
{
    if (ends->all_ended || !ends->any_last_step)
        return false;
    return outcome->exit_code != 0 && outcome->signal == 0;
}

static bool
has_failed(const struct rank_ends *ends, const struct check_outcome *outcome)
{
    return (outcome->exit_code != 0 && !ends->all_ended) || outcome->signal != 0 || !ends->any_step;
}

/* Why there is no verdict. Always false. */
static bool
explain_failure(struct check *check, const struct check_order *order, const struct check_outcome *outcome,
                const struct rank_ends *ends, struct error *error)
{
    check->fails_forced = order->run.forced && outcome->program_failed && outcome->signal == 0 && ends->any_step;
    return session_explain(check, order, outcome, ends->stop, ends->any_step, error);
}

/* Of a run beside the one that is judged. False: there is no verdict. */
static bool
accept_end(struct check *check, const struct check_order *order, const struct check_outcome *outcome,
           const struct rank_ends *ends, struct error *error)
{
    if (ends->stop != NULL || is_ended_by_ddprun(ends, outcome))
        return error_set(error, DDPRUN_EXIT_USAGE, "ddprun ended the run of %s", order->title);
    return !has_failed(ends, outcome) || explain_failure(check, order, outcome, ends, error);
}

/* Of the run that is judged: how it ended becomes evidence. False: there is no verdict. */
static bool
judge_end(struct check *check, const struct check_order *order, const struct check_outcome *outcome,
          const struct rank_ends *ends, struct error *error)
{
    struct check_evidence *evidence = &check->evidence;
    evidence->is_same_data = outcome->is_same_data && !evidence->by_plan;
    evidence->overlapped_steps = outcome->overlapped_steps;
    evidence->reads_stdin = outcome->reads_stdin;
    if (is_end_judged(ends, outcome)) {
        const bool ended_well = ends->stop == NULL && !outcome->late && outcome->exit_code == 0;
        snprintf(evidence->stopped, sizeof(evidence->stopped), "%s", why_stopped(ends, outcome));
        evidence->common_end = ended_well ? ends->common_end : 0;
        return true;
    }
    if (evidence->forced && may_have_judged_itself(ends, outcome)) {
        check->has_failed = !session_explain(check, order, outcome, ends->stop, ends->any_step, &check->failure);
        return true;
    }
    return !has_failed(ends, outcome) || explain_failure(check, order, outcome, ends, error);
}

bool
session_run_ranks(struct check *check, const struct check_order *order, struct check_rows **ranked_p, int *count_p,
                  struct error *error)
{
    struct check_outcome outcome;
    if (!session_start(check, order, &outcome, error))
        return false;
    int count = check->in_cluster ? count_ranks(outcome.results) : check->ranks;
    struct check_rows *ranked = xcalloc((size_t)count + 1, sizeof(*ranked));
    const struct rank_ends ends = read_ranks(outcome.results, check->steps, ranked, count);
    if (check->place.shared != NULL)
        remove_results(outcome.results, count);
    *ranked_p = ranked;
    *count_p = count;
    bool is_judged = ranked_p == &check->evidence.ranked;
    bool ok =
        is_judged ? judge_end(check, order, &outcome, &ends, error) : accept_end(check, order, &outcome, &ends, error);
    free(outcome.results);
    return ok;
}
