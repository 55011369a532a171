/*
 * by_plan.c - `ddprun check --plan FILE`: ranks that take turns, against one process that plays all turns (session.h).
 *
 * Two runs where all bits are the same, which needs no floor. Else one process once more, and from a start one unit in
 * the last place away, as for one rank. No step begins from the reference: a whole training is compared. Called by
 * request.c, before the first run, and by check.c, after the run of all ranks.
 */
#include "tools/check/command/session.h"

#include "tools/check/command/check.h"
#include "tools/plan/command/auto.h"

/* The option that --plan excludes in a check; NULL: none of them was given. */
static const char *
find_excluded(const struct options *options)
{
    if (check_options.reference != NULL)
        return "--reference";
    if (check_options.alone != NULL)
        return "--alone";
    if (options->job.reduction == DDPRUN_REDUCE_SUM)
        return "--reduce sum";
    return NULL;
}

bool
by_plan_prepare(const struct check *check, struct error *error)
{
    const struct options *options = check->options;
    const char *other = find_excluded(options);
    if (strcmp(options->plan, "auto") == 0)
        return error_set(error, DDPRUN_EXIT_USAGE,
                         "ddprun check makes no plan; make one by ddprun scout --prove --json FILE, and give --plan "
                         "FILE (a file of that name: --plan ./auto)");
    if (other != NULL)
        return error_set(error, DDPRUN_EXIT_USAGE, "%s and --plan contradict each other in ddprun check; leave one out",
                         other);
    char *to = xasprintf("%s/" DDPRUN_PLAN_NAME, check->folder.path);
    bool ok =
        plan_file_prepare(options->plan, options->plan, options->unproved, options->reads == PLAN_READS_OWN, to, error);
    unlink(to);
    free(to);
    return ok;
}

/* Whether the row says of a run by plan what it says of other runs. Programs by plan have no annotations of their own
 * and no share of a batch, and one process makes other operations between two averages than a rank: rows of those say
 * nothing. */
static bool
holds_for_turns(const struct check_row *row)
{
    switch (row->kind) {
    case CHECK_ROW_TENSOR:
        return row->tensor.role != CHECK_MEMORY;
    case CHECK_ROW_STEP:
    case CHECK_ROW_END:
    case CHECK_ROW_ALARM:
    case CHECK_ROW_STOPPED:
    case CHECK_ROW_ENDLESS:
    case CHECK_ROW_SHORT:
    case CHECK_ROW_TYPES:
        return true;
    default:
        return false;
    }
}

static void
leave_out(struct check_rows *rows)
{
    size_t kept = 0;
    for (size_t i = 0; i < rows->count; ++i) {
        if (holds_for_turns(&rows->rows[i]))
            rows->rows[kept++] = rows->rows[i];
    }
    rows->count = kept;
}

bool
by_plan_settle(struct check *check, struct error *error)
{
    struct check_evidence *evidence = &check->evidence;
    if (!evidence->by_plan)
        return true;
    leave_out(&evidence->alone);
    for (int r = 0; r < evidence->ranks; ++r)
        leave_out(&evidence->ranked[r]);
    if (check_evidence_same_bits(evidence) || evidence->stopped[0] != '\0')
        return true;
    bool ok = session_run_floor(check, error);
    leave_out(&evidence->again);
    leave_out(&evidence->perturbed);
    return ok;
}
