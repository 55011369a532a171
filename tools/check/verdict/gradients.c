/* gradients.c - see rows.h: a gradient, a buffer or a mean differs, and no update has made that so. */
#include "tools/check/verdict/rows.h"

/* ---- unequal shares ---- */

/* All gradients are, in whatever way the batch is divided: each rank divides by the whole batch. */
static bool
is_divided_by_ranks(const struct check_facts *facts)
{
    return fabs(facts->first.factor_of_all * facts->ranks - 1) < 0.02;
}

/* Whether the row "shares that are not equal" applies. */
static bool
is_uneven(const struct check_facts *facts)
{
    return facts->first.is_gradient && facts->first.uneven_items > 0 && !is_divided_by_ranks(facts);
}

/* Row "shares that are not equal": its sentence, asked when the row decides. */
static void
say_uneven(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    const struct check_item *first = facts->first.item;
    sentence_say(text,
                 "in step %u the %llu items do not divide evenly among %d ranks, and the mean of unequal shares is not "
                 "the mean of all items; %s",
                 first->first_step, (unsigned long long)facts->first.uneven_items, facts->ranks,
                 ITEM_PLACE(facts, first));
}

/* Row "shares that are not equal": its advice, asked when the row decides. */
static void
advise_uneven(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say(
        text,
        "call DDP_WEIGHT(count, total) after DDP_SHARD, or leave this batch out, or check with a batch that %d "
        "divides",
        facts->ranks);
}

/* ---- a factor of all gradients ---- */

/* Rows "a factor of all gradients", "a factor of all gradients that the update removes": the factor that the verdict
 * names, asked when one of them decides. */
static double
scale_of_all(const struct check_facts *facts)
{
    return facts->first.factor_of_all;
}

/* Whether the row "a factor of all gradients" applies. */
static bool
is_scaled(const struct check_facts *facts)
{
    return facts->first.factor_of_all != 0 && !facts->parameters_equal;
}

/* The update takes the factor back, as one that divides sums by the rank's share does. So does an optimizer that knows
 * no factors, which hides a wrong divisor: that is not called equal. */
static bool
is_scaled_and_back(const struct check_facts *facts)
{
    return facts->first.factor_of_all != 0 && facts->parameters_equal;
}

static bool
is_times_ranks(const struct check_facts *facts)
{
    return fabs(facts->first.factor_of_all / facts->ranks - 1) < 0.02;
}

/* Whether the update has a factor of its own, which is not the reciprocal of the gradients'. */
static bool
takes_back_wrongly(const struct check_facts *facts)
{
    const struct facts_first *first = &facts->first;
    return first->factor_of_update != 0 && fabs(first->factor_of_update / first->factor_of_all - 1) > 0.02;
}

/* Rows "a factor of all gradients", "a factor of all gradients that the update removes": the sentence, asked when one
 * of them decides. */
static void
say_scaled(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    double factor = facts->first.factor_of_all;
    sentence_say_place(facts, facts->first.item, text, ": every gradient is %.4g times that of one process%s%s", factor,
                       sentence_factor(facts, factor),
                       facts->parameters_equal ? ", but the parameters are equal: the update removes the factor" : "");
    if (takes_back_wrongly(facts))
        printable_append(text, VERDICT_BYTES,
                         "; with such gradients the update changes parameters %.4g times as much as one process",
                         facts->first.factor_of_update);
}

/* Row "a factor of all gradients": its advice, asked when the row decides. */
static void
advise_scaled(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    if (takes_back_wrongly(facts))
        sentence_say(text,
                     "the update takes the factor back, and has another factor besides: let it divide sums by the "
                     "rank's share (the count of DDP_SHARD), and by no number of ranks");
    else if (is_divided_by_ranks(facts))
        sentence_say(text,
                     "each rank divides the loss, or the update divides sums, by the whole batch, and DDP_STEP "
                     "averages: divide by the rank's share instead (the count of DDP_SHARD)%s",
                     facts->first.uneven_items > 0 ? ", and call DDP_WEIGHT(count, total) after DDP_SHARD: shares of "
                                                     "this batch are not equal"
                                                   : "");
    else if (is_times_ranks(facts))
        sentence_say(text, "gradients are sums where one process's are means, or the other way round: %s",
                     facts->is_sum ? "leave --reduce sum out"
                                   : "divide by the whole batch in both, and run with --reduce sum");
    else
        sentence_say(text, "look for a factor that depends on the share or on the number of ranks: the divisor of the "
                           "loss, a learning rate in the gradient, a loss scale");
}

/* Row "a factor of all gradients that the update removes": its advice, asked when the row decides. */
static void
advise_scaled_and_back(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    if (is_divided_by_ranks(facts))
        sentence_say(text,
                     "if the loss is divided by the whole batch, divide it by the rank's share (the count of "
                     "DDP_SHARD). If the update divides by that count, nothing is wrong: to compare such a program, "
                     "divide by the whole batch in the update, and use --reduce sum");
    else
        advise_scaled(facts, text);
}

/* ---- a factor of some ---- */

/* Whether the row "a factor of some gradients" applies. */
static bool
are_some_scaled(const struct check_facts *facts)
{
    return facts->first.factor_of_all == 0 && facts->first.factor_of_some != 0;
}

/* Row "a factor of some gradients": the factor that the verdict names, asked when the row decides. */
static double
scale_of_some(const struct check_facts *facts)
{
    return facts->first.factor_of_some;
}

/* Row "a factor of some gradients": its sentence, asked when the row decides. */
static void
say_some_scaled(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    const struct facts_first *first = &facts->first;
    sentence_say_place(facts, first->item, text,
                       ": it is %.4g times that of one process%s; %zu of %zu gradients are equal",
                       first->factor_of_some, sentence_factor(facts, first->factor_of_some),
                       first->all - first->differing, first->all);
}

/* Row "a factor of some gradients": its advice, asked when the row decides. */
static void
advise_some_scaled(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say(text, "%s: compute it as the other gradients are",
                 facts->first.factor_of_some < 1
                     ? "this gradient is divided by the whole batch, or by the number of ranks, and then averaged"
                     : "this gradient is a sum where the others are means, or is multiplied by the number of ranks");
}

/* ---- whole batches ---- */

/* Whether the row "a whole batch on each rank" applies. */
static bool
are_whole_batches(const struct check_facts *facts)
{
    return facts->first.is_of_first_step && facts->take_whole_batches && !facts->have_one_batch && !facts->first.is_few;
}

/* Row "a whole batch on each rank": its sentence, asked when the row decides. */
static void
say_whole_batches(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say_place(facts, facts->first.item, text,
                       "; each of %d ranks computes as large a batch as one process: together %d times as much",
                       facts->ranks, facts->ranks);
}

/* ---- gradients of the first step ---- */

/* Whether the row "one batch that is not one process's" applies. */
static bool
is_another_batch(const struct check_facts *facts)
{
    return facts->first.is_of_first_step && facts->have_one_batch;
}

/* Whether the row "gradients of the first step" applies. */
static bool
are_many_of_first_step(const struct check_facts *facts)
{
    return facts->first.is_of_first_step && !facts->have_one_batch && !facts->first.is_few;
}

/* Rows "one batch that is not one process's", "gradients of the first step": the sentence, asked when one of them
 * decides. */
static void
say_how_many_differ(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say_place(facts, facts->first.item, text, "; %zu of %zu gradients differ", facts->first.differing,
                       facts->first.all);
}

/* Whether the row "a few gradients of the first step" applies. */
static bool
are_few_of_first_step(const struct check_facts *facts)
{
    return facts->first.is_of_first_step && !facts->have_one_batch && facts->first.is_few;
}

/* Row "a few gradients of the first step": its sentence, asked when the row decides. */
static void
say_how_many_are_equal(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say_place(facts, facts->first.item, text, "; %zu of %zu gradients are equal",
                       facts->first.all - facts->first.differing, facts->first.all);
}

/* ---- gradients of later steps, buffers and means ---- */

/* Whether the row "a few gradients of a later step" applies. */
static bool
are_few_of_later_step(const struct check_facts *facts)
{
    return facts->first.is_gradient && !facts->first.is_of_first_step && facts->first.is_few;
}

/* Whether the row "gradients of a later step" applies. */
static bool
are_many_of_later_step(const struct check_facts *facts)
{
    return facts->first.is_gradient && !facts->first.is_of_first_step && !facts->first.is_few;
}

/* Whether the row "a buffer or a mean" applies. */
static bool
is_buffer_or_mean(const struct check_facts *facts)
{
    return facts->first.is_result && !facts->first.is_gradient;
}

/* Rows "a few gradients of a later step", "gradients of a later step", "a buffer or a mean": the sentence, asked when
 * one of them decides. */
static void
say_equal_before(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say_place(facts, facts->first.item, text, "; everything before it is equal");
}

static const char look_for_shuffle[] = "look for a shuffle whose seed depends on the rank, labels or other inputs that "
                                       "are not moved by `first`, shares that "
                                       "overlap or differ in size, memory without an annotation, rows of a gradient "
                                       "that are not cleared before backward, gradients that the host clips or "
                                       "scales before DDP_STEP, a decision on the host";

const struct verdict_row verdict_rows_of_gradients[] = {
    {.name = "shares that are not equal",
     .stage = STAGE_UNEVEN,
     .result = CHECK_NOT_COMPARABLE,
     .cause = CAUSE_INDIVISIBLE,
     .applies = is_uneven,
     .about = verdict_about_first,
     .say = say_uneven,
     .advise = advise_uneven},
    {.name = "a factor of all gradients",
     .stage = STAGE_FACTOR,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_SCALE,
     .applies = is_scaled,
     .about = verdict_about_first,
     .say = say_scaled,
     .advise = advise_scaled,
     .factor = scale_of_all},
    {.name = "a factor of all gradients that the update removes",
     .stage = STAGE_FACTOR,
     .result = CHECK_NOT_COMPARABLE,
     .cause = CAUSE_SCALE,
     .applies = is_scaled_and_back,
     .about = verdict_about_first,
     .say = say_scaled,
     .advise = advise_scaled_and_back,
     .factor = scale_of_all},
    {.name = "a factor of some gradients",
     .stage = STAGE_FACTOR,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_SCALE,
     .applies = are_some_scaled,
     .about = verdict_about_first,
     .say = say_some_scaled,
     .advise = advise_some_scaled,
     .factor = scale_of_some},
    {.name = "a whole batch on each rank",
     .stage = STAGE_WHOLE_BATCHES,
     .result = CHECK_NOT_COMPARABLE,
     .cause = CAUSE_DATA_SET,
     .applies = are_whole_batches,
     .about = verdict_about_first,
     .say = say_whole_batches,
     .advice = "give one process the batch of all ranks: --alone \"ARGUMENTS\""},
    {.name = "one batch that is not one process's",
     .stage = STAGE_LAST,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_DIRECTION,
     .applies = is_another_batch,
     .about = verdict_about_first,
     .say = say_how_many_differ,
     .advice = "all ranks compute one batch, which is not the batch of one process: divide the batch with DDP_SHARD"},
    {.name = "gradients of the first step",
     .stage = STAGE_LAST,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_DIRECTION,
     .applies = are_many_of_first_step,
     .about = verdict_about_first,
     .say = say_how_many_differ,
     .advice = look_for_shuffle},
    {.name = "a few gradients of the first step",
     .stage = STAGE_LAST,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_TENSOR,
     .applies = are_few_of_first_step,
     .about = verdict_about_first,
     .say = say_how_many_are_equal,
     .advice =
         "compare its annotation with its allocation: count and type; and see that it is written before DDP_STEP"},
    {.name = "a few gradients of a later step",
     .stage = STAGE_LAST,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_TENSOR,
     .applies = are_few_of_later_step,
     .about = verdict_about_first,
     .say = say_equal_before,
     .advice = look_for_shuffle},
    {.name = "gradients of a later step",
     .stage = STAGE_LAST,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_UPDATE,
     .applies = are_many_of_later_step,
     .about = verdict_about_first,
     .say = say_equal_before,
     .advice = look_for_shuffle},
    {.name = "a buffer or a mean",
     .stage = STAGE_LAST,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_TENSOR,
     .applies = is_buffer_or_mean,
     .about = verdict_about_first,
     .say = say_equal_before,
     .advice =
         "DDP_STEP copies rank 0's buffer to all ranks, so that a buffer depends on rank 0's share only; if it is "
         "trained, annotate it with DDP_PARAMETER and DDP_GRADIENT"},
    {.name = NULL},
};
