/* gradients.c - see pattern.h. Sentences of gradients that differ, in the order of the table (verdict.c). */
#include "tools/check/command/pattern.h"

/* How many of the gradients are equal then. */
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
    verdict_decide(
        judgement,
        "; %llu items of this step do not divide evenly among %d ranks, and the mean of unequal shares is not "
        "the mean of all items",
        (unsigned long long)total, ranks);
    return verdict_advise(
        judgement,
        "weigh the shares, DDP_WEIGHT(count, total), or leave such a batch out; or check with a batch that %d divides",
        ranks);
}

/*
 * Equal parameters all the same: the update takes the factor back, as one that divides sums by the rank's share does
 * (equal.c). So does an optimizer that knows no factors, which hides a wrong divisor: that is not called equal.
 */
bool
gradients_say_factor(struct judgement *judgement)
{
    const struct check_evidence *evidence = judgement->evidence;
    const struct pattern *pattern = &judgement->pattern;
    double n = evidence->ranks, factor = 1;
    (void)pattern_is_scaled(evidence, &factor);
    bool too_small = fabs(factor * n - 1) < 0.02, too_large = fabs(factor / n - 1) < 0.02;
    bool compensated = pattern->all[CHECK_PARAMETER] > 0 && pattern->ever[CHECK_PARAMETER] == 0 &&
                       !evidence->grows; /* the ranks' own */
    judgement->wishes->factor = compensated && check_evidence_is_forced(evidence) ? factor : 0;
    verdict_decide(judgement, ": every gradient is %.4g times one rank's%s%s", factor, factor_meaning(evidence, factor),
                   compensated ? ", and the parameters are equal: the update compensates the factor" : "");
    judgement->verdict->factor = factor;
    if (compensated)
        judgement->verdict->result = CHECK_NOT_COMPARABLE;
    if (too_small && compensated)
        return verdict_advise(judgement,
                              "the training is right if the update divides sums by the rank's share (the count of "
                              "DDP_SHARD); to compare it, let the update divide by the whole batch and use --reduce "
                              "sum. If the loss is divided by the whole batch instead, divide it by the share");
    if (too_small)
        return verdict_advise(judgement,
                              "the loss is divided by the whole batch on each rank, and then averaged: divide "
                              "by the rank's share (the count of DDP_SHARD), or run with --reduce sum");
    if (too_large)
        return verdict_advise(judgement, "gradients are sums where one rank's are means, or the other way round: %s",
                              evidence->sums ? "leave --reduce sum out"
                                             : "divide by the whole batch in both, and run with --reduce sum");
    return verdict_advise(judgement,
                          "look for a factor that depends on the share or on the number of ranks: the divisor "
                          "of the loss, a learning rate in the gradient, a loss scale");
}

/* The gradients that differ are all N times, or the N-th part of, one rank's, and others are equal. */
bool
gradients_say_common_factor(struct judgement *judgement)
{
    const struct check_evidence *evidence = judgement->evidence;
    double n = evidence->ranks, common = 0;
    for (size_t i = 0; i < judgement->verdict->item_count; ++i) {
        const struct check_item *item = &judgement->verdict->items[i];
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
    verdict_decide(judgement, ": it is %.4g times one rank's%s; %zu of %zu gradients are equal", common,
                   factor_meaning(evidence, common), count_equal(judgement), judgement->pattern.all[CHECK_GRADIENT]);
    judgement->verdict->factor = common;
    return verdict_advise(
        judgement, "%s: compute it as the other gradients are",
        common < 1 ? "this gradient is divided by the whole batch, or by the number of ranks, and then averaged"
                   : "this gradient is a sum where the others are means, or is multiplied by the number of ranks");
}

bool
gradients_say_few(struct judgement *judgement)
{
    return verdict_conclude(
        judgement,
        "compare its annotation with its allocation: count and type; and see that it is written before DDP_STEP",
        "; %zu of %zu gradients are equal", count_equal(judgement), judgement->pattern.all[CHECK_GRADIENT]);
}

bool
gradients_say_data_set(struct judgement *judgement)
{
    int ranks = judgement->evidence->ranks;
    return verdict_conclude(judgement, "give one rank the batch of all ranks: --alone \"ARGUMENTS\"",
                            "; each of %d ranks computes a batch as large as that of one rank alone: together they "
                            "compute one that is %d times as large",
                            ranks, ranks);
}

bool
gradients_say_one_batch(struct judgement *judgement)
{
    return verdict_conclude(
        judgement, "all ranks compute one batch, which is not the batch of one rank: divide the batch with DDP_SHARD",
        "; %zu of %zu gradients differ", judgement->pattern.differing[CHECK_GRADIENT],
        judgement->pattern.all[CHECK_GRADIENT]);
}

bool
gradients_say_direction(struct judgement *judgement)
{
    return verdict_conclude(judgement,
                            "look for a shuffle that is seeded by rank, shares that overlap or are not equal, weights "
                            "that are not annotated, and values that depend on the rank or on the number of ranks",
                            "; %zu of %zu gradients differ", judgement->pattern.differing[CHECK_GRADIENT],
                            judgement->pattern.all[CHECK_GRADIENT]);
}

/* Gradients of a later step, a buffer or a mean. */
bool
gradients_say_later(struct judgement *judgement)
{
    uint32_t role = judgement->first->tensor.role;
    verdict_decide(judgement, "; everything before it is equal");
    if (role != CHECK_GRADIENT || (judgement->shown & SHOWN_FEW) != 0)
        judgement->verdict->cause = CAUSE_TENSOR;
    return verdict_advise(
        judgement, "%s",
        role == CHECK_GRADIENT ? "look for memory that is not annotated, rows of a gradient that are not cleared "
                                 "before backward, statistics of the share, a decision on the host"
        : role == CHECK_BUFFER ? "DDP_STEP copies rank 0's buffer to all ranks: a buffer that depends on the batch "
                                 "depends on rank 0's share only; if it is trained: DDP_PARAMETER and DDP_GRADIENT"
                               : "the mean of this value over ranks is not one rank's value: is the value a mean over "
                                 "the share?");
}
