/*
 * floor.c - what repeating a program and rounding make of it, the floor of each comparison, where two runs of one
 * process may wait until a verdict needs them (session.h).
 *
 * The floor only widens what counts as equal (evidence/items.c): a verdict that is equal without it is equal with it.
 * Every other verdict needs it, and so does an equal one where a fact is known by the second run alone: which figures a
 * process prints again, whether it ends by itself again, and what a batch of turns leaves again.
 */
#include "tools/check/command/check.h"
#include "tools/check/command/session.h"
#include "tools/common/each.h"

/* A kept reference has it for later checks. Rounds of DDP_REDUCE have facts of their own that need it. */
bool
floor_may_wait(const struct check *check)
{
    const struct check_evidence *evidence = &check->evidence;
    if (check_options.reference != NULL || check->in_cluster || evidence->by_plan)
        return false;
    return !check_evidence_in_rounds(evidence);
}

/* Whether all ranks have ended as one process has: after the same step, by themselves or by check. */
static bool
have_ended_alike(const struct check_evidence *evidence)
{
    const struct check_row *alone = check_rows_find(&evidence->alone, CHECK_ROW_END), *end;
    return alone != NULL && ALL(rows, evidence->ranked, evidence->ranks,
                                (end = check_rows_find(rows, CHECK_ROW_END)) != NULL && end->step == alone->step &&
                                    end->value == alone->value);
}

/* Turns: memory that a rank's own batch leaves with other contents than that of one process. */
static bool
leaves_anything(const struct check_evidence *evidence)
{
    return ANY(rows, evidence->ranked, evidence->ranks, check_rows_find(rows, CHECK_ROW_LEFT) != NULL);
}

bool
floor_is_needed(const struct check *check, const struct check_verdict *verdict)
{
    if (verdict->result != CHECK_EQUAL || !have_ended_alike(&check->evidence) || leaves_anything(&check->evidence))
        return true;
    return printed_is_open(check, verdict);
}
