/* equal.c - see pattern.h. Whatever hides mistakes is not called equal. */
#include "tools/check/command/pattern.h"

#include "launcher/common/xcalloc.h"
#include "tools/check/format/element.h"
#include "tools/common/each.h"

/* No step has changed any parameter. What DDP_STEP_PARAMETERS averages is known from the end of the first step on. */
static bool
is_unmoved(const struct check_evidence *evidence, const struct check_verdict *verdict)
{
    if (evidence->steps == 1 && check_rows_find(&evidence->ranked[0], CHECK_ROW_AVERAGED) != NULL)
        return false;
    return ANY(item, verdict->items, verdict->item_count, item->tensor.role == CHECK_PARAMETER) &&
           !ANY(item, verdict->items, verdict->item_count, item->tensor.role == CHECK_PARAMETER && item->moved);
}

bool
equal_say_doubt(struct judgement *judgement)
{
    const struct check_evidence *evidence = judgement->evidence;
    struct check_verdict *verdict = judgement->verdict;
    /* The first that is equal only by a tolerance that hides mistakes. */
    const struct check_item *unclear = FIND(item, verdict->items, verdict->item_count, item->unclear);
    if (pattern_has_one_batch(evidence))
        sentence_conclude(verdict, CHECK_DIFFERENT, CAUSE_SAME_BATCH, NULL,
                          "divide the batch: DDP_SHARD(total, &first, &count), or DDP_RANK() and DDP_WORLD_SIZE()",
                          "the ranks computed the same batch: %s of all %d ranks are equal, so more ranks do not help",
                          check_evidence_in_rounds(evidence) ? "the values that they pass to DDP_REDUCE"
                                                             : "before averaging, the gradients",
                          evidence->ranks);
    else if (unclear != NULL && unclear->hidden > 0)
        sentence_conclude(
            verdict, CHECK_NOT_COMPARABLE, CAUSE_CHAOTIC, unclear,
            check_evidence_is_forced(evidence)
                ? "check fewer steps (--steps), or start from a warmed-up checkpoint"
                : "check fewer steps (--steps 1), a smaller learning rate, or start from a warmed-up checkpoint",
            "%s, differs by %.2g, and %s; a tolerance above %.1e hides mistakes", ITEM_NAME(verdict, unclear),
            unclear->hidden,
            evidence->tolerance > evidence->bearable ? "only --tolerance allows this"
                                                     : "runs of one process differ as much",
            evidence->bearable);
    else if (unclear != NULL)
        sentence_conclude(verdict, CHECK_NOT_COMPARABLE, CAUSE_CHAOTIC, unclear,
                          "check with a larger learning rate, or after the warm-up",
                          "a step changes %s, by little more than rounding, and the changes do not have the same bits",
                          ITEM_NAME(verdict, unclear));
    return verdict->result != CHECK_EQUAL;
}

bool
equal_say(struct judgement *judgement)
{
    const struct check_evidence *evidence = judgement->evidence;
    if (!equal_say_doubt(judgement) && is_unmoved(evidence, judgement->verdict))
        sentence_conclude(judgement->verdict, CHECK_NOT_COMPARABLE, CAUSE_UNMOVED, NULL,
                          "check with a larger learning rate, or more steps (--steps); annotate the memory that the "
                          "optimizer writes",
                          "no parameter has moved in %u step%s in one process, so that no update was compared",
                          evidence->steps, evidence->steps == 1 ? "" : "s");
    return true;
}

bool
equal_say_endless(struct judgement *judgement)
{
    const struct check_evidence *evidence = judgement->evidence;
    struct check_verdict *verdict = judgement->verdict;
    unsigned moment = judgement->agreement.moment, differs = judgement->pattern.moment;
    moment = differs != 0 && (moment == 0 || moment >= differs) ? differs : moment;
    const struct check_row *endless = NULL, *row = NULL;
    while ((row = check_rows_next(&evidence->alone, CHECK_ROW_ENDLESS, row)) != NULL)
        endless = row->step > 1 && (endless == NULL || row->step < endless->step) ? row : endless;
    if (endless == NULL || (moment != 0 && moment < items_moment(CHECK_PARAMETER, endless->step)))
        return false;
    uint32_t step = endless->step - 1;
    sentence_conclude(verdict, CHECK_NOT_COMPARABLE, CAUSE_ENDLESS, NULL, "one process must train without NaN first",
                      "after step %u %s, is infinite or NaN in one process, too: NaN on all ranks proves nothing", step,
                      TENSOR_NAME(&endless->tensor));
    if (step > 1)
        sentence_say(verdict->advice,
                     "check the steps before it (--steps %u); one process must train without NaN first", step - 1);
    return true;
}

bool
equal_say_ranks(struct judgement *judgement)
{
    const struct check_evidence *evidence = judgement->evidence;
    struct check_verdict *verdict = judgement->verdict;
    const struct agreement *agreement = &judgement->agreement;
    struct check_item other = {.tensor = agreement->row->tensor};
    const struct check_item *item = &other;
    FOR_EACH(it, verdict->items, verdict->item_count)
        item = check_same_tensor(&it->tensor, &other.tensor) ? it : item;
    bool is_start = agreement->moment <= items_moment(CHECK_PARAMETER, 1);
    bool is_gradient = other.tensor.role == CHECK_GRADIENT;
    uint32_t step = agreement->row->step - (is_gradient || other.tensor.role == CHECK_BUFFER ? 0 : 1);
    sentence_conclude(
        verdict, CHECK_DIFFERENT, CAUSE_RANKS, item == &other ? NULL : item,
        is_start ? "DDP_PARAMETER and DDP_STATE copy rank 0's values to all ranks at once: call them after "
                   "initialisation and loading, and do not change the values before the first DDP_STEP"
        : is_gradient
            ? "a kernel or a copy writes it after it was averaged: look for a DDP_STEP that is called too early"
            : "the update uses a value that differs between ranks: a learning rate, a decision on the host, random "
              "numbers, a gradient or optimizer state that is not annotated",
        "%s step %u %s, does not have the same bits on ranks 0 and %d, though neither differs from one process by more "
        "than %.1e and rounding",
        is_gradient ? "in" : "after", step, ITEM_NAME(verdict, item), agreement->rank, evidence->tolerance);
    return true;
}

/* One rank with such gradients makes the same difference. */
static bool
is_made_by_factor(const struct check_evidence *evidence, const struct check_item *item)
{
    const struct check_row *row = pattern_row(&evidence->ranked[item->worst_rank], &item->tensor, item->worst_step),
                           *scaled = pattern_row(&evidence->scaled, &item->tensor, item->worst_step);
    return row != NULL && scaled != NULL &&
           fabs(row->norms.difference - scaled->norms.difference) <= 0.1 * row->norms.difference;
}

void
equal_settle_factor(const struct check_evidence *evidence, struct check_verdict *verdict, struct pattern *pattern)
{
    double factor;
    if (evidence->scaled.count == 0 || pattern->moment != items_moment(CHECK_GRADIENT, 1) ||
        pattern->ever[CHECK_PARAMETER] > 0 || pattern->all[CHECK_PARAMETER] == 0 ||
        !pattern_is_scaled(evidence, &factor))
        return;
    const struct check_row *forced = check_rows_find(&evidence->ranked[0], CHECK_ROW_FORCED);
    if (forced == NULL || !pattern_factor_holds(evidence, forced->norms.product) ||
        !items_scaled_differ(evidence, CHECK_PARAMETER))
        return;
    for (struct check_item *item = verdict->items; item < verdict->items + verdict->item_count; ++item) {
        uint32_t role = item->tensor.role;
        bool is_memory = role == CHECK_MEMORY || role == CHECK_STATE;
        if (!item->differs || (role != CHECK_GRADIENT && !(is_memory && is_made_by_factor(evidence, item))))
            continue;
        item->differs = item->unclear = false;
        item->compensated = true;
    }
    items_sort(verdict->items, verdict->item_count);
    *pattern = pattern_find(evidence, verdict);
}

/* ---- do the ranks have the same bits? ---- */

static bool
has_hash(const struct check_row *row)
{
    return row->tensor.role != CHECK_REDUCE && row->value != 0;
}

/* Whether the tensor had the same bits in both runs of a rank, in all steps. */
static bool
is_repeated(const struct check_tensor *tensor, const struct check_rows *rows, const struct check_rows *again)
{
    EACH_ROW_OF(row, rows, tensor->role) {
        if (!check_same_tensor(&row->tensor, tensor))
            continue;
        const struct check_row *other = pattern_row(again, tensor, row->step);
        if (other != NULL && other->value != row->value)
            return false;
    }
    return true;
}

/* An update that adds up in another order each time leaves other bits on each rank, and on one rank in each run. What
 * all ranks get from one sum, averages and the start, is the same bits. */
static bool
is_noise(const struct check_evidence *evidence, const struct check_row *apart, int rank)
{
    const struct check_tensor *tensor = &apart->tensor;
    bool is_update = (tensor->role == CHECK_PARAMETER || tensor->role == CHECK_STATE) && apart->step > 1;
    for (int i = 0; is_update && i < CHECK_REPEATS && evidence->repeats[i] != NULL; ++i) {
        const struct check_rows *again = evidence->repeats[i];
        if (!is_repeated(tensor, &evidence->ranked[rank], &again[rank]) ||
            !is_repeated(tensor, &evidence->ranked[0], &again[0]))
            return true;
    }
    return false;
}

/* Where noise is seldom seen, two runs of a rank may well have the same bits by chance. A tensor of 16 bits rounds
 * nearly all noise away: what is left is an element now and then that lies between two numbers, on either side of which
 * each run falls. Of a tensor of few elements, too, all may come out alike. */
static bool
is_seldom_noisy(const struct check_tensor *tensor)
{
    enum { FEW_ELEMENTS = 64 };
    switch (tensor->type) {
    case ELEMENT_FLOAT16:
    case ELEMENT_BFLOAT16:
        return true;
    default:
        return tensor->count <= FEW_ELEMENTS;
    }
}

bool
agreement_wants_repeat(const struct check_evidence *evidence, const struct agreement *agreement)
{
    bool is_seldom = is_seldom_noisy(&agreement->row->tensor);
    return evidence->repeats[is_seldom ? CHECK_REPEATS - 1 : 0] == NULL;
}

struct agreement
agreement_find(const struct check_evidence *evidence)
{
    struct agreement found = {0};
    const struct check_rows *zero = &evidence->ranked[0];
    const struct check_row **sorted = xcalloc(zero->count + 1, sizeof(struct check_row *)), *row = NULL;
    size_t count = 0;
    while ((row = check_rows_next(zero, CHECK_ROW_TENSOR, row)) != NULL) {
        sorted[count] = row;
        count += has_hash(row);
    }
    qsort(sorted, count, sizeof(*sorted), items_compare_rows);
    for (int r = 1; r < evidence->ranks; ++r) {
        while ((row = check_rows_next(&evidence->ranked[r], CHECK_ROW_TENSOR, row)) != NULL) {
            const struct check_row **same =
                has_hash(row) && count > 0 ? bsearch(&row, sorted, count, sizeof(*sorted), items_compare_rows) : NULL;
            unsigned moment = items_moment_of(row);
            if (same == NULL || (*same)->value == row->value || (found.moment != 0 && found.moment <= moment) ||
                is_noise(evidence, row, r))
                continue;
            found = (struct agreement){.moment = moment, .row = row, .rank = r};
        }
    }
    free(sorted);
    return found;
}
