/*
 * by_plan.c - `ddprun check --plan FILE`: ranks that take turns, against one process that plays all turns (session.h).
 *
 * The proofs of the plan are made again first (tools/scout/command/proofs/prove.h): a few rounds are held against one
 * process that knows nothing of the plan's steps. One that fails is the verdict. What follows shows a whole training,
 * whose ranks and one process take steps where the plan does.
 *
 * Two runs where all bits are the same, which needs no floor. Else one process once more, and from a start one unit in
 * the last place away, as for one rank. No step begins from the reference: a whole training is compared. Called by
 * request.c, before the first run, and by check.c, before the first run and after the run of all ranks.
 */
#include "tools/check/command/session.h"

#include "base/message.h"
#include "tools/check/command/check.h"
#include "tools/common/owned.h"
#include "tools/plan/command/auto.h"
#include "tools/scout/command/proofs/prove.h"

#include <sys/stat.h>

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

/* The plan as players read it. malloc'ed. */
static char *
path_of_plan(const struct check *check)
{
    return xasprintf("%s/" DDPRUN_PLAN_NAME, check->folder.path);
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
    OWNED char *to = path_of_plan(check);
    return plan_file_prepare(options->plan, options->plan, options->unproved, options->reads == PLAN_READS_OWN, to,
                             error);
}

/* A proof that has not passed becomes evidence. One that is not possible says nothing: what comes after it may find a
 * difference, or that the program does not fit the plan. */
static void
take_proofs(struct check *check)
{
    struct check_evidence *evidence = &check->evidence;
    const struct proof *missing = proofs_missing(check->proofs);
    if (missing == NULL)
        return;
    const char *name = missing == &check->proofs->turns ? "d" : "complete";
    if (missing->end == PROOF_IMPOSSIBLE || missing->is_run_failed) {
        if (!check->options->unproved)
            snprintf(evidence->unproved, sizeof(evidence->unproved), "proof (%s) of the plan is not possible here: %s",
                     name, missing->text);
        return;
    }
    snprintf(evidence->refuted, sizeof(evidence->refuted), "proof (%s) of the plan fails: %s", name, missing->text);
    evidence->steps = 0;
    evidence->ranks = check->ranks;
    evidence->ranked = xcalloc((size_t)check->ranks, sizeof(*evidence->ranked));
}

/* In a folder of their own, which is gone after them: pages of a large model are large. */
static bool
make_proofs(struct check *check, struct play *play, struct error *error)
{
    OWNED char *folder = xasprintf("%s/proofs", check->folder.path);
    const struct scout_order order = {.options = check->options,
                                      .program = check->options->program,
                                      .folder = folder,
                                      .old_mask = check->place.old_mask,
                                      .timeout_s = check->options->timeout_s,
                                      .silent = true};
    if (mkdir(folder, S_IRWXU) != 0)
        return error_set(error, DDPRUN_EXIT_FAILURE, "cannot make %s: %s; make room there, or set TMPDIR", folder,
                         strerror(errno));
    if (!check->options->quiet)
        message_line("check: the proofs of the plan are made again");
    check->proofs = xcalloc(1, sizeof(*check->proofs));
    const bool is_made = scout_prove_kept(&order, play, check->proofs, error);
    job_folder_clear(folder);
    return is_made;
}

bool
by_plan_prove(struct check *check, struct error *error)
{
    struct play play;
    if (!check->evidence.by_plan)
        return true;
    OWNED char *path = path_of_plan(check);
    if (!play_load(path, &play))
        return error_set(error, DDPRUN_EXIT_FAILURE, "cannot read %s: %s", path, strerror(errno));
    const bool is_made = make_proofs(check, &play, error);
    play_free(&play);
    if (is_made)
        take_proofs(check);
    return is_made;
}

void
by_plan_print(FILE *out, const struct check *check, const struct check_verdict *verdict)
{
    if (check->evidence.by_plan && verdict->result == CHECK_EQUAL)
        proofs_print(out, check->proofs);
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
