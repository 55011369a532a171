/*
 * reductions.c - see verdict.h. A result may depend on the number of ranks and be right: what each rank puts into
 * its place of a table, the largest of the ranks' shares, a sum that the program divides by the number of ranks. So a
 * result alone accuses no program that has a DDP_STEP. In rounds a wrong result is what others are computed from, and a
 * sum that has no DDP_REDUCE shows in the next result: if there is one that depends on those before.
 */

#include "tools/check/command/pattern.h"
#include "tools/check/format/element.h"
#include "tools/common/each.h"

static const double exact = 1e-7; /* of whole numbers, whose squares doubles round */

/* Whether every result of the call is so many times one rank's, or of the largest so far the difference is rounding. */
static bool
factor_holds(const struct check_evidence *evidence, const struct check_tensor *tensor, double factor)
{
    bool is_exact = tensor->type > ELEMENT_BFLOAT16;
    for (int r = 0; r < evidence->ranks; ++r) {
        double most = 0;
        EACH_ROW_OF(row, &evidence->ranked[r], CHECK_REDUCE) {
            double times = factor * row->norms.reference;
            if (row->tensor.number != tensor->number)
                continue;
            most = fmax(most, times);
            if (row->norms.unbounded > 0 ||
                norms_apart(&row->norms, factor) > (is_exact ? exact * times : evidence->bearable * most))
                return false;
        }
    }
    return true;
}

void
reductions_settle(const struct check_evidence *evidence, struct check_verdict *verdict)
{
    const double factors[] = {evidence->ranks, 1.0 / evidence->ranks};
    FOR_EACH_MUTABLE(item, verdict->items, verdict->item_count) {
        FOR_EACH(factor, factors, sizeof(factors) / sizeof(factors[0])) {
            if (item->tensor.role == CHECK_REDUCE && item->differs && factor_holds(evidence, &item->tensor, *factor)) {
                item->factor = *factor;
                item->differs = item->unclear = false;
            }
        }
    }
    items_sort(verdict->items, verdict->item_count);
}

/* ---- rounds ---- */

/* What differs first: of a round the first call. */
static const struct check_item *
find_first(const struct check_verdict *verdict)
{
    const struct check_item *first = NULL;
    FOR_EACH(item, verdict->items, verdict->item_count)
        if (item->differs && (first == NULL || item->moment < first->moment ||
                              (item->moment == first->moment && item->tensor.number < first->tensor.number)))
            first = item;
    return first;
}

static bool
is_extreme(const struct check_item *item)
{
    return item->tensor.role == CHECK_REDUCE &&
           (item->tensor.group == CHECK_OP_MIN || item->tensor.group == CHECK_OP_MAX);
}

/* REPEATED in two runs of one rank. MULTIPLE: the smallest or largest of the shares is the Nth part of all, too. */
enum kind { ANY, REPEATED, MULTIPLE };

/* The first result of the kind; NULL: none. */
static const struct check_item *
find_result(const struct check_verdict *verdict, enum kind kind)
{
    return FIND(item, verdict->items, verdict->item_count,
                item->tensor.role == CHECK_REDUCE && (kind == ANY || (kind == REPEATED && !item->ignored) ||
                                                      (kind == MULTIPLE && item->factor > 0 && !is_extreme(item))));
}

static void
judge_first(const struct check_evidence *evidence, struct check_verdict *verdict, const struct check_item *first)
{
    size_t differing = 0;
    uint64_t total = pattern_uneven_items(evidence, 1);
    FOR_EACH(item, verdict->items, verdict->item_count)
        differing += item->differs;
    sentence_conclude(
        verdict, CHECK_DIFFERENT, CAUSE_REDUCTION, first,
        "its inputs are not those of one process: look for shares that overlap or leave items out, for a "
        "shuffle that is seeded by rank, for a sum or a count that has no DDP_REDUCE, or is used before it",
        "%s; %s", ITEM_PLACE(evidence, verdict, first),
        first->unbounded ? "it is infinite or NaN there, and finite in one process" : "everything before it is equal");
    if (is_extreme(first) && differing == 1) {
        verdict->result = CHECK_NOT_COMPARABLE;
        sentence_say(verdict->advice, "no other result differs: if this result depends on the number of ranks on "
                                      "purpose, like the smallest value of a share, the program is right");
    } else if (first->tensor.group == CHECK_OP_MEAN && first->tensor.role == CHECK_REDUCE && total > 0) {
        verdict->result = CHECK_NOT_COMPARABLE;
        verdict->cause = CAUSE_INDIVISIBLE;
        sentence_say(verdict->advice,
                     "%llu items do not divide evenly among %d ranks, and the mean of unequal shares is not the mean "
                     "of all items: check with another -n, or add up sums and counts",
                     (unsigned long long)total, evidence->ranks);
    }
}

static void
judge_equal(struct judgement *judgement)
{
    const struct check_evidence *evidence = judgement->evidence;
    struct check_verdict *verdict = judgement->verdict;
    const struct check_item *multiple = find_result(verdict, MULTIPLE);
    if (equal_say_doubt(judgement))
        return;
    if (multiple != NULL) {
        verdict->factor = multiple->factor;
        sentence_conclude(verdict, CHECK_NOT_COMPARABLE, CAUSE_SCALE, multiple,
                          "the program is right if it divides by the number of ranks later; for a mean of the ranks' "
                          "means use DDP_OP_MEAN",
                          "%s is %.4g times that of one process in every round", ITEM_NAME(verdict, multiple),
                          multiple->factor);
    } else if (!items_scaled_differ(evidence, CHECK_REDUCE)) {
        judgement->wishes->factor = evidence->scaled.count == 0 ? 2 : 0;
        sentence_conclude(verdict, CHECK_NOT_COMPARABLE, CAUSE_INDEPENDENT, NULL,
                          "compare the program's output with that of one process, or pass all sums to DDP_REDUCE",
                          "the results of DDP_REDUCE are equal, and no result depends on an earlier one: a sum or a "
                          "count without DDP_REDUCE would not be noticed");
    }
}

bool
reductions_say_rounds(struct judgement *judgement)
{
    struct check_verdict *verdict = judgement->verdict;
    const struct check_item *first = find_first(verdict);
    if (find_result(verdict, ANY) == NULL)
        sentence_conclude(
            verdict, CHECK_NOT_COMPARABLE, CAUSE_NOTHING, NULL,
            "call DDP_REDUCE in one process, too, with the same number of elements: it costs no time there",
            "the ranks and one process have no call of DDP_REDUCE in common");
    else if (find_result(verdict, REPEATED) == NULL)
        sentence_conclude(
            verdict, CHECK_NOT_COMPARABLE, CAUSE_NOT_REPEATABLE, NULL,
            "give the program a fixed seed (not the clock, not std::random_device), for the check at least",
            "two runs of the program in one process differ: DDP_REDUCE has other results");
    else if (first != NULL)
        judge_first(judgement->evidence, verdict, first);
    else
        judge_equal(judgement);
    return true;
}

/* ---- beside DDP_STEP ---- */

void
reductions_judge_besides(const struct check_evidence *evidence, struct check_verdict *verdict)
{
    const struct check_item *first = find_first(verdict);
    if (verdict->result != CHECK_EQUAL || first == NULL || first->tensor.role != CHECK_REDUCE)
        return;
    sentence_conclude(
        verdict, CHECK_NOT_COMPARABLE, CAUSE_REDUCTION, first,
        "if this result depends on the number of ranks on purpose, like the largest value of a share, the "
        "program is right; a sum or a mean over all items must not depend on it",
        "%s; gradients and parameters are equal", ITEM_PLACE(evidence, verdict, first));
}
