/*
 * turns_size.c - a program with DDP_TURN_BEGIN that divides by DDP_WORLD_SIZE() what DDP_STEP has averaged (session.h).
 *
 * The process that plays all turns answers the number of turns to DDP_WORLD_SIZE(), because the program counts by it.
 * Both sides of the comparison then divide alike. A further run of that process answers 1: where its gradients, or all
 * that its updates change, are N times as large, the program divides once more than the average does.
 */
#include "tools/check/command/session.h"
#include "tools/common/each.h"

#include <math.h>

enum { PARTS = 3, STEPS = 2 /* the first round, and what its update has changed */ };

static const char divides_twice[] =
    "do not divide by DDP_WORLD_SIZE(): DDP_STEP writes the mean over all turns of a round into the gradients";

/* Of the run that answers 1: how many times as large its gradients are, or else its first update; 0: they are not. */
static double
find_factor(const struct check_facts *facts)
{
    const double factors[PARTS] = {facts->first.factor_of_all, facts->first.factor_of_update,
                                   facts->first.factor_of_change};
    if (facts->first.item == NULL)
        return 0;
    for (int i = 0; i < PARTS; ++i) {
        if (factors[i] != 0)
            return factors[i];
    }
    return 0;
}

/* Makes the verdict: the program divides by DDP_WORLD_SIZE() what the average divides already. `item` is the tensor, of
 * the run in which it is 1. */
static void
conclude(struct check *check, struct check_verdict *verdict, const struct check_item *item)
{
    const bool is_gradient = item->tensor.role == CHECK_GRADIENT;
    const int turns = check->ranks;
    check->sized = *item;
    check->answers_one = true;
    sentence_conclude(verdict, CHECK_DIFFERENT, is_gradient ? CAUSE_SCALE : CAUSE_UPDATE, &check->sized, divides_twice,
                      "the program divides by DDP_WORLD_SIZE() what DDP_STEP averages over the turns: in round %u %s, "
                      "%s 1/%d of what one process with all turns %s if DDP_WORLD_SIZE() is 1 there",
                      item->made_in_step, TENSOR_NAME(&item->tensor), is_gradient ? "holds" : "is changed by", turns,
                      is_gradient ? "computes" : "changes");
    verdict->factor = 1.0 / turns;
    verdict->is_advised_by_place = true; /* it holds in turns, too */
}

/* What the run that answers 1 has left, held against the reference as if it were the only rank. */
static void
find_sized(const struct check *check, struct check_rows *sized, struct check_facts *facts)
{
    struct check_evidence evidence = check->evidence;
    evidence.ranked = sized;
    evidence.ranks = 1;
    evidence.plain = NULL;
    evidence.repeats[0] = NULL;
    check_facts_find(&evidence, facts);
}

static bool
judge_sized(struct check *check, struct check_rows *sized, struct check_verdict *verdict, struct error *error)
{
    struct check_facts facts;
    find_sized(check, sized, &facts);
    if (facts.first.item != NULL && check->floor_waits) {
        check_facts_free(&facts);
        check->floor_waits = false;
        if (!session_run_floor(check, error))
            return false;
        find_sized(check, sized, &facts);
    }
    if (fabs(find_factor(&facts) / check->ranks - 1) < 0.02)
        conclude(check, verdict, facts.first.item);
    check_facts_free(&facts);
    return true;
}

/* Whether the program asks for the number of ranks: an answer that it has never asked for changes nothing. */
static bool
asks_size(const struct check_evidence *evidence)
{
    return check_rows_find(&evidence->alone, CHECK_ROW_ASKED) != NULL ||
           check_rows_find(&evidence->alone, CHECK_ROW_ASKED_EARLY) != NULL ||
           ANY_NUMBER(r, 0, evidence->ranks, check_rows_find(&evidence->ranked[r], CHECK_ROW_ASKED) != NULL);
}

bool
turns_judge_size(struct check *check, struct check_verdict *verdict, struct error *error)
{
    const struct check_evidence *evidence = &check->evidence;
    if (!check_evidence_takes_turns(evidence) || verdict->result != CHECK_EQUAL || evidence->sums)
        return true;
    if (check->in_cluster || check->has_reference || !check_evidence_is_forced(evidence) || !asks_size(evidence))
        return true;
    struct check_outcome outcome;
    struct check_rows sized = {0};
    struct check_order order =
        session_order(check, "sized", "one process with all turns, where DDP_WORLD_SIZE() is 1", CHECK_COMPARES);
    order.run.answers_one = true;
    order.run.steps = check->steps < STEPS ? check->steps : STEPS;
    if (!session_start(check, &order, &outcome, error))
        return false;
    check_rows_append(&sized, outcome.results, 0);
    free(outcome.results);
    bool ok = outcome.signal == 0 ? judge_sized(check, &sized, verdict, error)
                                  : session_explain(check, &order, &outcome, NULL, true, error);
    check_rows_free(&sized);
    return ok;
}
