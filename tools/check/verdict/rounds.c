/* rounds.c - see rows.h: a program whose steps are rounds of DDP_REDUCE calls, and nothing has ended it. */
#include "tools/check/verdict/rows.h"

/* ---- results that cannot be compared ---- */

/* Whether the row "rounds without a call in common" applies. */
static bool
has_no_call(const struct check_facts *facts)
{
    return facts->in_rounds && !facts->reduced.is_any;
}

/* Row "rounds without a call in common": its sentence, asked when the row decides. */
static void
say_no_call(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    (void)facts;
    sentence_say(text, "the ranks and one process have no call of DDP_REDUCE in common");
}

/* Whether the row "rounds that one process does not repeat" applies. */
static bool
is_unrepeated(const struct check_facts *facts)
{
    return facts->in_rounds && facts->reduced.is_any && !facts->reduced.is_repeated;
}

/* Row "rounds that one process does not repeat": its sentence, asked when the row decides. */
static void
say_unrepeated(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    (void)facts;
    sentence_say(text, "two runs of the program in one process differ: DDP_REDUCE has other results");
}

/* Row "rounds that one process does not repeat": its advice, asked when the row decides. */
static void
advise_unrepeated(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say(text, "give the program a fixed seed (not the clock, not std::random_device), for the check at least");
    seeded_add_readings(facts, text);
}

/* ---- results that differ ---- */

static bool
differs(const struct check_facts *facts)
{
    return facts->in_rounds && facts->reduced.first != NULL;
}

/* Whether a smallest or largest value over the ranks differs, and no other result does. */
static bool
is_extreme_alone(const struct check_facts *facts)
{
    if (!differs(facts) || facts->reduced.differing != 1)
        return false;
    const struct check_tensor *tensor = &facts->reduced.first->tensor;
    return tensor->role == CHECK_REDUCE && (tensor->group == CHECK_OP_MIN || tensor->group == CHECK_OP_MAX);
}

/* Whether the row "a mean of unequal shares" applies. */
static bool
is_mean_of_unequal_shares(const struct check_facts *facts)
{
    if (!differs(facts) || facts->reduced.uneven_items == 0)
        return false;
    const struct check_tensor *tensor = &facts->reduced.first->tensor;
    return tensor->role == CHECK_REDUCE && tensor->group == CHECK_OP_MEAN;
}

/* Whether the row "a result that differs" applies. */
static bool
differs_otherwise(const struct check_facts *facts)
{
    return differs(facts) && !is_extreme_alone(facts) && !is_mean_of_unequal_shares(facts);
}

/* Rows "a smallest or largest value, alone", "a mean of unequal shares", "a result that differs": the tensor that it is
 * about, asked when one of them decides. */
static const struct check_item *
about_result(const struct check_facts *facts)
{
    return facts->reduced.first;
}

/* Rows "a smallest or largest value, alone", "a mean of unequal shares", "a result that differs": the sentence, asked
 * when one of them decides. */
static void
say_differs(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    const struct check_item *first = facts->reduced.first;
    sentence_say(text, "%s; %s", ITEM_PLACE(facts, first),
                 first->unbounded ? "it is infinite or NaN there, and finite in one process"
                                  : "everything before it is equal");
}

/* Row "a mean of unequal shares": its advice, asked when the row decides. */
static void
advise_uneven(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say(
        text,
        "%llu items do not divide evenly among %d ranks, and the mean of unequal shares is not the mean of all "
        "items: check with another -n, or add up sums and counts",
        (unsigned long long)facts->reduced.uneven_items, facts->ranks);
}

/* ---- results that are equal, and prove nothing ---- */

/* Whether the row "a result that is a multiple" applies. */
static bool
is_multiple(const struct check_facts *facts)
{
    return facts->in_rounds && facts->reduced.first == NULL && facts->reduced.multiple != NULL;
}

/* Row "a result that is a multiple": the tensor that it is about, asked when the row decides. */
static const struct check_item *
about_multiple(const struct check_facts *facts)
{
    return facts->reduced.multiple;
}

/* Row "a result that is a multiple": the factor that the verdict names, asked when the row decides. */
static double
factor_of_multiple(const struct check_facts *facts)
{
    return facts->reduced.multiple->factor;
}

/* Row "a result that is a multiple": its sentence, asked when the row decides. */
static void
say_multiple(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    const struct check_item *multiple = facts->reduced.multiple;
    sentence_say(text, "%s is %.4g times that of one process in every round", ITEM_NAME(facts, multiple),
                 multiple->factor);
}

/* Whether the row "results that do not depend on each other" applies. */
static bool
is_independent(const struct check_facts *facts)
{
    return facts->in_rounds && facts->reduced.first == NULL && facts->reduced.multiple == NULL &&
           !facts->reduced.depends;
}

/* Row "results that do not depend on each other": its sentence, asked when the row decides. */
static void
say_independent(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    (void)facts;
    sentence_say(text, "the results of DDP_REDUCE are equal, and no result depends on an earlier one: a sum or a count "
                       "without DDP_REDUCE would not be noticed");
}

const struct verdict_row verdict_rows_of_rounds[] = {
    {.name = "rounds without a call in common",
     .stage = STAGE_ROUNDS_READ,
     .result = CHECK_NOT_COMPARABLE,
     .cause = CAUSE_NOTHING,
     .applies = has_no_call,
     .say = say_no_call,
     .advice = "call DDP_REDUCE in one process, too, with the same number of elements: it costs no time there"},
    {.name = "rounds that one process does not repeat",
     .stage = STAGE_ROUNDS_READ,
     .result = CHECK_NOT_COMPARABLE,
     .cause = CAUSE_NOT_REPEATABLE,
     .applies = is_unrepeated,
     .say = say_unrepeated,
     .advise = advise_unrepeated},
    {.name = "a smallest or largest value, alone",
     .stage = STAGE_ROUNDS_DIFFER,
     .result = CHECK_NOT_COMPARABLE,
     .cause = CAUSE_REDUCTION,
     .applies = is_extreme_alone,
     .about = about_result,
     .say = say_differs,
     .advice = "no other result differs: if this result depends on the number of ranks on purpose, like the smallest "
               "value of a share, the program is right"},
    {.name = "a mean of unequal shares",
     .stage = STAGE_ROUNDS_DIFFER,
     .result = CHECK_NOT_COMPARABLE,
     .cause = CAUSE_INDIVISIBLE,
     .applies = is_mean_of_unequal_shares,
     .about = about_result,
     .say = say_differs,
     .advise = advise_uneven},
    {.name = "a result that differs",
     .stage = STAGE_ROUNDS_DIFFER,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_REDUCTION,
     .applies = differs_otherwise,
     .about = about_result,
     .say = say_differs,
     .advice =
         "its inputs are not those of one process: look for shares that overlap or leave items out, for a shuffle "
         "that is seeded by rank, for a sum or a count that has no DDP_REDUCE, or is used before it"},
    {.name = "a result that is a multiple",
     .stage = STAGE_UNMOVED,
     .result = CHECK_NOT_COMPARABLE,
     .cause = CAUSE_SCALE,
     .applies = is_multiple,
     .about = about_multiple,
     .say = say_multiple,
     .factor = factor_of_multiple,
     .advice = "the program is right if it divides by the number of ranks later; for a mean of the ranks' means use "
               "DDP_OP_MEAN"},
    {.name = "results that do not depend on each other",
     .stage = STAGE_UNMOVED,
     .result = CHECK_NOT_COMPARABLE,
     .cause = CAUSE_INDEPENDENT,
     .applies = is_independent,
     .say = say_independent,
     .advice = "compare the program's output with that of one process, or pass all sums to DDP_REDUCE"},
    {.name = NULL},
};
