/* gradients.c - see pattern.h. Sentences of gradients that differ, in the order of the table (verdict.c). */
#include "tools/check/command/pattern.h"

#include "tools/common/each.h"

/* How many of the gradients are equal in that step. */
static size_t
count_equal(const struct judgement *judgement)
{
    return judgement->pattern.all[CHECK_GRADIENT] - judgement->pattern.differing[CHECK_GRADIENT];
}

bool
gradients_say_uneven(struct judgement *judgement)
{
    uint64_t total = pattern_uneven_items(judgement->evidence, judgement->first->first_step);
    int ranks = judgement->evidence->ranks;
    sentence_conclude(
        judgement->verdict, judgement->row->result, judgement->row->cause, judgement->first, NULL,
        "in step %u the %llu items do not divide evenly among %d ranks, and the mean of unequal shares is "
        "not the mean of all items; %s",
        judgement->first->first_step, (unsigned long long)total, ranks,
        ITEM_PLACE(judgement->evidence, judgement->verdict, judgement->first));
    return verdict_advise(
        judgement,
        "call DDP_WEIGHT(count, total) after DDP_SHARD, or leave this batch out, or check with a batch that %d divides",
        ranks);
}

/* The gradients that differ are all N times, or the N-th part of, one rank's, and others are equal. */
static bool
say_common_factor(struct judgement *judgement)
{
    const struct check_evidence *evidence = judgement->evidence;
    double n = evidence->ranks, common = 0;
    FOR_EACH(item, judgement->verdict->items, judgement->verdict->item_count) {
        if (item->tensor.role != CHECK_GRADIENT || !item->differs || item->moment != judgement->pattern.moment)
            continue;
        const struct check_row *row = pattern_row(&evidence->ranked[item->first_rank], &item->tensor, item->first_step);
        double factor, exact = 0;
        if (row != NULL && factor_of_row(row, &factor))
            exact = fabs(factor - n) < 1e-3 * n ? n : fabs(factor * n - 1) < 1e-3 ? 1 / n : 0;
        if (exact == 0 || (common != 0 && exact != common))
            return false;
        common = exact;
    }
    verdict_decide(judgement, ": it is %.4g times that of one process%s; %zu of %zu gradients are equal", common,
                   factor_meaning(evidence, common), count_equal(judgement), judgement->pattern.all[CHECK_GRADIENT]);
    judgement->verdict->factor = common;
    return verdict_advise(
        judgement, "%s: compute it as the other gradients are",
        common < 1 ? "this gradient is divided by the whole batch, or by the number of ranks, and then averaged"
                   : "this gradient is a sum where the others are means, or is multiplied by the number of ranks");
}

/* Equal parameters all the same: the update takes the factor back, as one that divides sums by the rank's share does
 * (equal.c). So does an optimizer that knows no factors, which hides a wrong divisor: that is not called equal. */
bool
gradients_say_factor(struct judgement *judgement)
{
    const struct check_evidence *evidence = judgement->evidence;
    const struct pattern *pattern = &judgement->pattern;
    const uint32_t scaled = SHOWN_FIRST | SHOWN_SCALED;
    if ((judgement->shown & scaled) != scaled)
        return (judgement->shown & SHOWN_SOME) != 0 && say_common_factor(judgement);
    double n = evidence->ranks, factor = 1;
    (void)pattern_is_scaled(evidence, &factor);
    bool too_small = fabs(factor * n - 1) < 0.02, too_large = fabs(factor / n - 1) < 0.02;
    bool compensated = pattern->all[CHECK_PARAMETER] > 0 && pattern->ever[CHECK_PARAMETER] == 0;
    judgement->wishes->factor = compensated && check_evidence_is_forced(evidence) ? factor : 0;
    verdict_decide(judgement, ": every gradient is %.4g times that of one process%s%s", factor,
                   factor_meaning(evidence, factor),
                   compensated ? ", but the parameters are equal: the update removes the factor" : "");
    judgement->verdict->factor = factor;
    if (compensated)
        judgement->verdict->result = CHECK_NOT_COMPARABLE;
    if (too_small && compensated)
        return verdict_advise(judgement,
                              "if the loss is divided by the whole batch, divide it by the rank's share (the count of "
                              "DDP_SHARD). If the update divides by that count, nothing is wrong: to compare such a "
                              "program, divide by the whole batch in the update, and use --reduce sum");
    if (too_small)
        return verdict_advise(judgement,
                              "each rank divides the loss by the whole batch, and DDP_STEP averages: divide by the "
                              "rank's share instead (the count of DDP_SHARD)");
    if (too_large)
        return verdict_advise(judgement, "gradients are sums where one process's are means, or the other way round: %s",
                              evidence->sums ? "leave --reduce sum out"
                                             : "divide by the whole batch in both, and run with --reduce sum");
    return verdict_advise(judgement,
                          "look for a factor that depends on the share or on the number of ranks: the divisor "
                          "of the loss, a learning rate in the gradient, a loss scale");
}

bool
gradients_say_data_set(struct judgement *judgement)
{
    int ranks = judgement->evidence->ranks;
    return verdict_conclude(judgement, "give one process the batch of all ranks: --alone \"ARGUMENTS\"",
                            "; each of %d ranks computes as large a batch as one process: together %d times as much",
                            ranks, ranks);
}

/* A gradient, a buffer or a mean. */
bool
gradients_say_differ(struct judgement *judgement)
{
    uint32_t role = judgement->first->tensor.role;
    bool is_first = (judgement->shown & SHOWN_FIRST) != 0, is_few = (judgement->shown & SHOWN_FEW) != 0,
         is_one = is_first && (judgement->shown & SHOWN_ONE_BATCH) != 0;
    if (is_first)
        verdict_decide(judgement, "; %zu of %zu gradients %s",
                       is_few && !is_one ? count_equal(judgement) : judgement->pattern.differing[role],
                       judgement->pattern.all[role], is_few && !is_one ? "are equal" : "differ");
    else
        verdict_decide(judgement, "; everything before it is equal");
    if (role != CHECK_GRADIENT || (is_few && !is_one))
        judgement->verdict->cause = CAUSE_TENSOR;
    else if (!is_first)
        judgement->verdict->cause = CAUSE_UPDATE;
    return verdict_advise(
        judgement, "%s",
        is_one ? "all ranks compute one batch, which is not the batch of one process: divide the batch with DDP_SHARD"
        : is_first && is_few
            ? "compare its annotation with its allocation: count and type; and see that it is written before DDP_STEP"
        : role == CHECK_GRADIENT
            ? "look for a shuffle whose seed depends on the rank, labels or other inputs that are not moved by "
              "`first`, shares that overlap or differ in size, memory without an annotation, rows of a gradient that "
              "are not cleared before backward, a decision on the host"
            : "DDP_STEP copies rank 0's buffer to all ranks, so that a buffer depends on rank 0's share only; if it is "
              "trained, annotate it with DDP_PARAMETER and DDP_GRADIENT");
}
