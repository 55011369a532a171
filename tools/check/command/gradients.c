/* gradients.c - see pattern.h. Sentences of gradients that differ, in the order of the table (verdict.c). */
#include "tools/check/command/pattern.h"

#include "base/mutant.h"

#include <math.h>

/* How many of the gradients are equal then. */
static size_t
count_equal(const struct hearing *hearing)
{
    return hearing->pattern.all[CHECK_GRADIENT] - hearing->pattern.differing[CHECK_GRADIENT];
}

bool
gradients_say_total(struct hearing *hearing)
{
    struct other_total other;
    if (!pattern_other_total(hearing->evidence, &other) || other.step > hearing->first->first_step)
        return false;
    return hearing_conclude(hearing,
                            "hand DDP_SHARD the items of the whole batch, as many as one rank has: without records "
                            "that fill it up, and by no decision of the rank's own values",
                            "; for step %u DDP_SHARD gets %llu items on rank %d, and %llu on one rank", other.step,
                            (unsigned long long)other.items, other.rank, (unsigned long long)other.alone);
}

bool
gradients_say_uneven(struct hearing *hearing)
{
    uint64_t total = pattern_uneven_items(hearing->evidence, hearing->first->first_step);
    int ranks = hearing->evidence->ranks;
    hearing_say(hearing,
                "; %llu items of this step do not divide evenly among %d ranks, and the mean of unequal shares is not "
                "the mean of all items",
                (unsigned long long)total, ranks);
    return hearing_advise(
        hearing,
        "weigh the shares, DDP_WEIGHT(count, total), or leave such a batch out; or check with a batch that %d divides",
        ranks);
}

/*
 * Equal parameters all the same: the update takes the factor back, as one that divides sums by the rank's share does
 * (equal.c). So does an optimizer that knows no factors, which hides a wrong divisor: that is not called equal.
 */
bool
gradients_say_factor(struct hearing *hearing)
{
    const struct check_evidence *evidence = hearing->evidence;
    const struct pattern *pattern = &hearing->pattern;
    double n = evidence->ranks, factor = 1;
    (void)pattern_is_scaled(evidence, &factor);
    bool too_small = fabs(factor * n - 1) < 0.02, too_large = fabs(factor / n - 1) < 0.02;
    bool compensated = pattern->all[CHECK_PARAMETER] > 0 && pattern->ever[CHECK_PARAMETER] == 0 &&
                       !evidence->grows; /* the ranks' own */
    hearing->wishes->factor = compensated && check_evidence_is_forced(evidence) ? factor : 0;
    hearing_say(hearing, ": every gradient is %.4g times one rank's%s%s", factor, factor_meaning(evidence, factor),
                compensated ? ", and the parameters are equal: the update compensates the factor" : "");
    hearing->verdict->factor = factor;
    if (compensated)
        hearing->verdict->result = CHECK_NOT_COMPARABLE;
    if (too_small && compensated)
        return hearing_advise(hearing,
                              "the training is right if the update divides sums by the rank's share (the count of "
                              "DDP_SHARD); to compare it, let the update divide by the whole batch and use --reduce "
                              "sum. If the loss is divided by the whole batch instead, divide it by the share");
    if (too_small)
        return hearing_advise(hearing, "the loss is divided by the whole batch on each rank, and then averaged: divide "
                                       "by the rank's share (the count of DDP_SHARD), or run with --reduce sum");
    if (too_large)
        return hearing_advise(hearing, "gradients are sums where one rank's are means, or the other way round: %s",
                              evidence->sums ? "leave --reduce sum out"
                                             : "divide by the whole batch in both, and run with --reduce sum");
    return hearing_advise(hearing, "look for a factor that depends on the share or on the number of ranks: the divisor "
                                   "of the loss, a learning rate in the gradient, a loss scale");
}

bool
gradients_say_clipped(struct hearing *hearing)
{
    double norm;
    if (!pattern_is_clipped(hearing->evidence, &norm))
        return false;
    return hearing_conclude(hearing, "put DDP_STEP between backward and the clipping",
                            "; the norm of all gradients at DDP_STEP is never above %.4g on one rank, and not the "
                            "ranks': they are clipped before they are averaged",
                            norm);
}

/* The gradients that differ are all N times, or the N-th part of, one rank's, and others are equal. */
bool
gradients_say_common_factor(struct hearing *hearing)
{
    const struct check_evidence *evidence = hearing->evidence;
    double n = evidence->ranks, common = 0;
    for (size_t i = 0; i < hearing->verdict->item_count; ++i) {
        const struct check_item *item = &hearing->verdict->items[i];
        if (item->tensor.role != CHECK_GRADIENT || !item->differs || item->moment != hearing->pattern.moment)
            continue;
        const struct check_row *row = pattern_row(&evidence->ranked[item->first_rank], &item->tensor, item->first_step);
        double factor, exact = 0;
        if (row != NULL && factor_of_row(row, &factor))
            exact = fabs(factor - n) < 1e-3 * n ? n : fabs(factor * n - 1) < 1e-3 ? 1 / n : 0;
        if (exact == 0 || (common != 0 && exact != common))
            return false;
        common = exact;
    }
    hearing_say(hearing, ": it is %.4g times one rank's%s; %zu of %zu gradients are equal", common,
                factor_meaning(evidence, common), count_equal(hearing), hearing->pattern.all[CHECK_GRADIENT]);
    hearing->verdict->factor = common;
    return hearing_advise(
        hearing, "%s: compute it as the other gradients are",
        common < 1 ? "this gradient is divided by the whole batch, or by the number of ranks, and then averaged"
                   : "this gradient is a sum where the others are means, or is multiplied by the number of ranks");
}

/* What all gradients that differ have in common, by `find`, which is 0 of one that has it not; 0: nothing. */
static double
find_common(const struct hearing *hearing, double (*find)(const struct check_row *row))
{
    double common = 0, elements = 0;
    for (size_t i = 0; i < hearing->verdict->item_count; ++i) {
        const struct check_item *item = &hearing->verdict->items[i];
        if (item->tensor.role != CHECK_GRADIENT || !item->differs || item->moment != hearing->pattern.moment)
            continue;
        const struct check_row *row =
            pattern_row(&hearing->evidence->ranked[item->first_rank], &item->tensor, item->first_step);
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
set_later(struct hearing *hearing)
{
    if ((hearing->shown & SHOWN_LATE) != 0)
        hearing->verdict->cause = CAUSE_UPDATE;
}

bool
gradients_say_offset(struct hearing *hearing)
{
    double offset = find_common(hearing, offset_of);
    if (offset == 0)
        return false;
    hearing_say(hearing, ": each element of these gradients is off by the same %.3g", offset);
    set_later(hearing);
    return hearing_advise(hearing,
                          "a term that is added for each record, or on each rank, is not divided as the loss is: "
                          "divide it by the whole batch on one rank, and by the rank's share on the ranks");
}

bool
gradients_say_along(struct hearing *hearing)
{
    double along = find_common(hearing, along_of);
    if (along == 0)
        return false;
    hearing_say(hearing, ": the difference of each gradient is %.3g times its parameter", along);
    set_later(hearing);
    return hearing_advise(hearing,
                          "a term of the weights, such as weight decay, is another one than one rank's: let it not "
                          "depend on the rank, on the number of ranks or on the share, or add it behind DDP_STEP");
}

bool
gradients_say_parts(struct hearing *hearing)
{
    double least, most;
    (void)pattern_parts(hearing->evidence, &least, &most);
    return hearing_conclude(
        hearing,
        "each rank divides its loss by a number of its share's own, such as that of valid labels: before backward "
        "weigh the share by it, DDP_WEIGHT(number of the share, number of the batch)",
        "; the gradient of the whole batch is %.4g times that of one share and %.4g times that of another, and the "
        "ranks average them as equals",
        least, most);
}

const struct check_row *
hearing_front(const struct hearing *hearing, bool with_memory)
{
    const struct check_row *row = NULL;
    do
        row = check_rows_next(&hearing->evidence->alone, CHECK_ROW_FRONT, row);
    while (row != NULL && (row->value == 0) != with_memory);
    return row;
}

bool
gradients_say_dependent(struct hearing *hearing)
{
    const struct check_row *front = hearing_front(hearing, false);
    const char *name = front != NULL ? front->text : "";
    hearing_say(
        hearing,
        "; on one rank, too, the mean of the gradients of %d shares is not the gradient of the whole batch%s%.96s%s",
        hearing->evidence->ranks, front != NULL ? ", and `" : "", name,
        front != NULL ? "` gets them between backward and DDP_STEP" : "");
    if (front != NULL)
        return hearing_advise(
            hearing,
            "if `%.96s` changes gradients otherwise than in proportion (clipping, a sign, a threshold, a norm), put "
            "DDP_STEP between backward and it; else look at what makes a share's result its own: a sum, a mean or a "
            "ranking of the share (DDP_REDUCE makes the batch's), batch-norm, random numbers",
            name);
    return hearing_advise(hearing,
                          "look at what makes a share's result its own: statistics of the share, such as a sum, a mean "
                          "or a ranking (DDP_REDUCE makes the batch's) or those of batch-norm; means over "
                          "micro-batches of unequal sizes; a term of the loss that is divided by the whole batch; "
                          "random numbers (check with dropout and augmentation off); "
                          "what is read of the batch with `first` and `count` of DDP_SHARD");
}

/* In a later step, and in none before. */
bool
gradients_say_dependent_now(struct hearing *hearing)
{
    hearing_say(hearing,
                "; in this step, and in none before, the mean of the gradients of %d shares is not the gradient of the "
                "whole batch on one rank, either",
                hearing->evidence->ranks);
    bool few = (hearing->shown & SHOWN_FEW) != 0;
    return hearing_advise(
        hearing,
        "look for %sstatistics of the share, such as a bound, a mean, a ranking or a count (DDP_REDUCE makes the "
        "batch's), memory that each rank trains alone and that is not annotated%s, random numbers",
        few ? "rows of this gradient that are not cleared before backward, " : "",
        few ? "" : ", rows of a gradient that are not cleared before backward");
}

bool
gradients_say_few(struct hearing *hearing)
{
    return hearing_conclude(
        hearing, "compare its annotation with its allocation: count, type, and that it is written before DDP_STEP",
        "; %zu of %zu gradients are equal", count_equal(hearing), hearing->pattern.all[CHECK_GRADIENT]);
}

bool
gradients_say_some(struct hearing *hearing)
{
    return hearing_conclude(hearing,
                            "backward reads memory in front of it that is not the same on all ranks and is not "
                            "annotated: a second copy of a weight, a weight without DDP_PARAMETER",
                            ", and %zu of %zu gradients are equal: the ranks have the right batch",
                            count_equal(hearing), hearing->pattern.all[CHECK_GRADIENT]);
}

bool
gradients_say_data_set(struct hearing *hearing)
{
    int ranks = hearing->evidence->ranks;
    return hearing_conclude(hearing, "give one rank the batch of all ranks: --alone \"ARGUMENTS\"",
                            "; each of %d ranks computes a batch as large as that of one rank alone: together they "
                            "compute one that is %d times as large",
                            ranks, ranks);
}

bool
gradients_say_one_batch(struct hearing *hearing)
{
    return hearing_conclude(
        hearing, "all ranks compute the same batch, and another one than one rank: share the batch out with DDP_SHARD",
        "; %zu of %zu gradients differ", hearing->pattern.differing[CHECK_GRADIENT],
        hearing->pattern.all[CHECK_GRADIENT]);
}

/* Nothing of the shares is wrong, as one rank computes them. */
bool
gradients_say_by_rank(struct hearing *hearing)
{
    const struct check_row *front = hearing_front(hearing, false);
    hearing_say(hearing, "; one rank computes from these shares, in turn, gradients whose mean is that of the whole "
                         "batch: what differs depends on DDP_RANK() or DDP_WORLD_SIZE()");
    return hearing_advise(hearing,
                          "look for random numbers that are seeded by rank (noise, a mask, a shuffle), a term or a "
                          "factor of one rank's own or of the number of ranks (weight decay, a divisor), weights that "
                          "are not annotated, records that are shared out twice%s%.96s%s",
                          front != NULL ? "; and at `" : "", front != NULL ? front->text : "",
                          front != NULL ? "`, which gets gradients between backward and DDP_STEP" : "");
}

bool
gradients_say_direction(struct hearing *hearing)
{
    return hearing_conclude(hearing,
                            "the ranks' shares together are not the batch of one rank: look for a shuffle that is "
                            "seeded by rank, shares that overlap or are not equal, weights that are not annotated",
                            "; %zu of %zu gradients differ", hearing->pattern.differing[CHECK_GRADIENT],
                            hearing->pattern.all[CHECK_GRADIENT]);
}

/* Gradients of a later step, a buffer or a mean. */
bool
gradients_say_later(struct hearing *hearing)
{
    uint32_t role = hearing->first->tensor.role;
    hearing_say(hearing, "; what came before is equal");
    if (role != CHECK_GRADIENT || (hearing->shown & SHOWN_FEW) != 0)
        hearing->verdict->cause = CAUSE_TENSOR;
    return hearing_advise(
        hearing, "%s",
        role == CHECK_GRADIENT ? "something that is not annotated changes the gradients after the first step: a tensor "
                                 "that was forgotten, rows of a gradient that are not cleared before backward, data "
                                 "that ranks read in another order, a decision on the host"
        : role == CHECK_BUFFER ? "all ranks take rank 0's bytes at each DDP_STEP: a buffer that depends on the batch "
                                 "holds what rank 0's share gives"
                               : "the mean over ranks of this value is not one rank's: is it a mean over the share?");
}
