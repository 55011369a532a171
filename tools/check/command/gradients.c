/* gradients.c - see pattern.h. Sentences of gradients that differ, in the order of the table (verdict.c). */
#include "tools/check/command/pattern.h"


/* How many of the gradients are equal then. */
static size_t
count_equal(const struct judgement *judgement)
{
    return judgement->pattern.all[CHECK_GRADIENT] - judgement->pattern.differing[CHECK_GRADIENT];
}

bool
gradients_say_total(struct judgement *judgement)
{
    struct other_total other;
    if (!pattern_other_total(judgement->evidence, &other) || other.step > judgement->first->first_step)
        return false;
    return verdict_conclude(
        judgement,
        "call DDP_SHARD with the items of the whole batch, as many as one rank has; do not count padding, and do not "
        "let the number depend on a rank's own values",
        "; in step %u the program calls DDP_SHARD with %llu items on rank %d, and with %llu on one rank", other.step,
        (unsigned long long)other.items, other.rank, (unsigned long long)other.alone);
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

bool
gradients_say_clipped(struct judgement *judgement)
{
    double norm;
    if (!pattern_is_clipped(judgement->evidence, &norm))
        return false;
    return verdict_conclude(judgement, "put DDP_STEP between backward and the clipping",
                            "; the norm of all gradients at DDP_STEP is never above %.4g on one rank, and not the "
                            "ranks': they are clipped before they are averaged",
                            norm);
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

/* What all gradients that differ have in common, by `find`, which is 0 of one that has it not; 0: nothing. */
static double
find_common(const struct judgement *judgement, double (*find)(const struct check_row *row))
{
    double common = 0, elements = 0;
    for (size_t i = 0; i < judgement->verdict->item_count; ++i) {
        const struct check_item *item = &judgement->verdict->items[i];
        if (item->tensor.role != CHECK_GRADIENT || !item->differs || item->moment != judgement->pattern.moment)
            continue;
        const struct check_row *row =
            pattern_row(&judgement->evidence->ranked[item->first_rank], &item->tensor, item->first_step);
        double own = row != NULL ? find(row) : 0;
        common = common == 0 ? own : common;
        if (own == 0 || fabs(own / common - 1) > 0.05)
            return 0;
        elements += (double)item->tensor.count;
    }
    return elements >= 8 ? common : 0;
}

static double
offset_of(const struct check_row *row)
{
    bool all = fabs(row->norms.offset) * sqrt((double)row->tensor.count) >= 0.98 * row->norms.difference;
    return all ? row->norms.offset : 0;
}

static double
along_of(const struct check_row *row)
{
    return row->norms.along;
}

/* `direction` is of the first step. */
static void
set_later(struct judgement *judgement)
{
    if ((judgement->shown & SHOWN_LATE) != 0)
        judgement->verdict->cause = CAUSE_UPDATE;
}

bool
gradients_say_offset(struct judgement *judgement)
{
    double offset = find_common(judgement, offset_of);
    if (offset == 0)
        return false;
    verdict_decide(judgement, ": each element of these gradients is off by the same %.3g", offset);
    set_later(judgement);
    return verdict_advise(judgement, "a term that is added for each record, or on each rank, has another divisor than "
                                     "the loss: divide it by the rank's share, which is the whole batch on one rank");
}

bool
gradients_say_along(struct judgement *judgement)
{
    double along = find_common(judgement, along_of);
    if (along == 0)
        return false;
    verdict_decide(judgement, ": the difference of each gradient is %.3g times its parameter", along);
    set_later(judgement);
    return verdict_advise(judgement,
                          "a term of the weights, such as weight decay, has another factor than on one rank: it must "
                          "not depend on the rank, the number of ranks or the share; or add it after DDP_STEP");
}

bool
gradients_say_parts(struct judgement *judgement)
{
    double least, most;
    (void)pattern_parts(judgement->evidence, &least, &most);
    return verdict_conclude(judgement,
                            "each rank divides its loss by a number of its own share, such as its count of valid "
                            "labels: before backward call DDP_WEIGHT(number of the share, number of the batch)",
                            "; the gradient of the whole batch is %.4g times that of one share and %.4g times that of "
                            "another, and DDP_STEP gives both the same weight",
                            least, most);
}

const struct check_row *
judgement_front(const struct judgement *judgement, bool with_memory)
{
    const struct check_row *row = NULL;
    do
        row = check_rows_next(&judgement->evidence->alone, CHECK_ROW_FRONT, row);
    while (row != NULL && (row->value == 0) != with_memory);
    return row;
}

bool
gradients_say_dependent(struct judgement *judgement)
{
    const struct check_row *front = judgement_front(judgement, false);
    const char *name = front != NULL ? front->text : "";
    verdict_decide(
        judgement,
        "; on one rank, too, the mean of the gradients of %d shares is not the gradient of the whole batch%s%.96s%s",
        judgement->evidence->ranks, front != NULL ? ", and `" : "", name,
        front != NULL ? "` gets them between backward and DDP_STEP" : "");
    if (front != NULL)
        return verdict_advise(
            judgement,
            "if `%.96s` does more to gradients than multiply them by a constant (clipping, a sign, a threshold, a "
            "norm), put DDP_STEP between backward and it; else look for results that depend on the share: a sum, a "
            "mean or a ranking of the share (DDP_REDUCE computes it for the batch), batch-norm, random numbers",
            name);
    return verdict_advise(
        judgement,
        "look for results that depend on the share: statistics of the share, such as a sum, a mean or a ranking "
        "(DDP_REDUCE computes them for the batch) or those of batch-norm; means over micro-batches of unequal sizes; a "
        "term of the loss that is divided by the whole batch; random numbers (check with dropout and augmentation "
        "off); reads of the batch that do not use `first` and `count` of DDP_SHARD");
}

/* In a later step, and in none before. */
bool
gradients_say_dependent_now(struct judgement *judgement)
{
    verdict_decide(
        judgement,
        "; in this step, and in none before, the mean of the gradients of %d shares is not the gradient of the "
        "whole batch on one rank, either",
        judgement->evidence->ranks);
    bool few = (judgement->shown & SHOWN_FEW) != 0;
    return verdict_advise(
        judgement,
        "look for %sstatistics of the share, such as a bound, a mean, a ranking or a count (DDP_REDUCE computes it for "
        "the batch), memory that each rank trains alone and that is not annotated%s, random numbers",
        few ? "rows of this gradient that are not cleared before backward, " : "",
        few ? "" : ", rows of a gradient that are not cleared before backward");
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
gradients_say_some(struct judgement *judgement)
{
    return verdict_conclude(judgement,
                            "before this gradient backward reads memory that differs between ranks and is not "
                            "annotated: a second copy of a weight, a weight without DDP_PARAMETER",
                            ", and %zu of %zu gradients are equal: the ranks have the right batch",
                            count_equal(judgement), judgement->pattern.all[CHECK_GRADIENT]);
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

/* Nothing of the shares is wrong, as one rank computes them. */
bool
gradients_say_by_rank(struct judgement *judgement)
{
    const struct check_row *front = judgement_front(judgement, false);
    verdict_decide(judgement,
                   "; one rank computes from these shares, in turn, gradients whose mean is that of the whole "
                   "batch: what differs depends on DDP_RANK() or DDP_WORLD_SIZE()");
    return verdict_advise(judgement,
                          "look for random numbers that are seeded by rank (noise, a mask, a shuffle), a term or a "
                          "factor that depends on the rank or on the number of ranks (weight decay, a divisor), "
                          "weights that are not annotated, records that two ranks compute%s%.96s%s",
                          front != NULL ? "; and at `" : "", front != NULL ? front->text : "",
                          front != NULL ? "`, which gets gradients between backward and DDP_STEP" : "");
}

bool
gradients_say_direction(struct judgement *judgement)
{
    return verdict_conclude(judgement,
                            "the ranks' shares together are not the batch of one rank: look for a shuffle that is "
                            "seeded by rank, shares that overlap or are not equal, weights that are not annotated",
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
        role == CHECK_GRADIENT ? "memory that is not annotated changes the gradients after the first step: a forgotten "
                                 "tensor, rows of a gradient that are not cleared before backward, data that ranks "
                                 "read in another order, a decision on the host"
        : role == CHECK_BUFFER
            ? "DDP_STEP copies rank 0's buffer to all ranks: a buffer that depends on the batch depends on rank 0's "
              "share only"
            : "the mean of this value over ranks is not one rank's value: is the value a mean over the share?");
}
