/* received.c - see rows.h: the operation gets memory that is not one process's. */
#include "tools/check/place/rows.h"

#include <stdio.h>

/* ---- all ranks compute the same items ---- */

static bool
computes_one_batch(const struct operation *operation)
{
    return !operation->is_update && operation->gets_same && operation->are_alike;
}

/* Whether the row "data that are not moved to the share" applies. */
static bool
is_unmoved(const struct operation *operation)
{
    return computes_one_batch(operation) && operation->unmoved[0] != '\0';
}

/* Whether the row "the first rows on all ranks" applies. */
static bool
are_first_rows(const struct operation *operation)
{
    return computes_one_batch(operation) && operation->unmoved[0] == '\0' && operation->makes_rows;
}

/* Rows "data that are not moved to the share", "the first rows on all ranks": the sentence, asked when one of them
 * decides. */
static void
say_first_rows(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    place_begin(operation->name, operation->is_probable, text,
                "all ranks compute the first items of the batch in the memory that %s points to", operation->changed);
    place_append(text, "%s%s%s", operation->changed_element, operation->share_size, operation->unmoved);
}

/* ---- whole numbers ---- */

/* Whether the row "integers that differ" applies. */
static bool
gets_integers(const struct operation *operation)
{
    return !operation->is_update && operation->integers[0] != '\0';
}

/* Row "integers that differ": its sentence, asked when the row decides. */
static void
say_integers(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    place_begin(operation->name, operation->is_probable, text,
                "%s points to integers that %.200s computes, and that differ from one process's", operation->integers,
                operation->integers_writer);
    place_append(text, "%s", operation->integers_element);
}

/* ---- sums over the share ---- */

/* Whether the row "a sum over the share" applies. */
static bool
gets_sum(const struct operation *operation)
{
    return !operation->is_update && operation->sum.is_there && operation->sum.scalar.level < SCALAR_UNEXPLAINED;
}

/* Whether the row "a sum over the share, from which rows are computed" applies. */
static bool
makes_rows_of_sum(const struct operation *operation)
{
    return gets_sum(operation) && operation->makes_rows;
}

/* Rows "a sum over the share, from which rows are computed", "a sum over the share": the sentence, asked when one of
 * them decides. */
static void
say_sum(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    const struct place_sum *sum = &operation->sum;
    place_begin(operation->name, operation->is_probable, text,
                "%s points to a value that %.300s computes from the rank's share alone", sum->argument, sum->writer);
    place_append(text, "%s", sum->element);
    if (sum->weighs)
        place_append(text, "; with this number as weight, the mean of the ranks' gradients equals one process's");
}

/* It makes a gradient of sums over the share alone, and reads no row of it: the sums could be reduced. */
static bool
makes_gradient_of_sums(const struct operation *operation)
{
    return operation->is_of_gradient && !operation->makes_rows && !operation->gets_rows;
}

/* Rows "a sum over the share, from which rows are computed", "a sum over the share": the kind of the place, asked when
 * one of them decides. */
static enum place_kind
kind_of_sum(const struct operation *operation)
{
    if (operation->is_late || makes_gradient_of_sums(operation))
        return PLACE_CHANGED;
    return operation->sum.weighs ? PLACE_SCALAR : PLACE_SHARE;
}

/* Rows "a sum over the share, from which rows are computed", "a sum over the share": the advice, asked when one of them
 * decides. */
static const char *
advise_sum(const struct operation *operation)
{
    if (operation->is_late)
        return place_move_step;
    if (makes_gradient_of_sums(operation) && !operation->sum.weighs)
        return "the gradient is not proportional to this value, as where it is limited: reduce the value over the "
               "batch "
               "before this operation (DDP_REDUCE), or limit the gradient after DDP_STEP";
    return operation->sum.weighs ? place_weigh_shares : place_reduce_value;
}

/* ---- memory that nothing compares: the place is the input's ---- */

/* Whether the row "memory without relation to one process's" applies. */
static bool
has_input(const struct operation *operation)
{
    return operation->input.text[0] != '\0';
}

/* Whether the row "rows that are not of the batch" applies. */
static bool
has_input_of_rows(const struct operation *operation)
{
    bool may_be_wrong = !operation->is_update || operation->is_target;
    return may_be_wrong && operation->input_of_rows.text[0] != '\0';
}

/* Whether the row "memory that it changes besides" applies. */
static bool
has_input_besides(const struct operation *operation)
{
    return !operation->is_update && operation->input_besides.text[0] != '\0';
}

const struct place_row place_rows_of_memory[] = {
    {.name = "data that are not moved to the share",
     .stage = STAGE_ONE_BATCH,
     .kind = PLACE_SCALAR,
     .applies = is_unmoved,
     .say = say_first_rows,
     .advice = place_add_first},
    {.name = "the first rows on all ranks",
     .stage = STAGE_ONE_BATCH,
     .kind = PLACE_SHARE,
     .applies = are_first_rows,
     .say = say_first_rows,
     .advice = place_add_first},
    {.name = "integers that differ",
     .stage = STAGE_INTEGERS,
     .kind = PLACE_SHARE,
     .applies = gets_integers,
     .say = say_integers,
     .advice = "if these integers count or pick rows of the share, compute them over the whole batch; if they number "
               "rows, add `first` of DDP_SHARD"},
    {.name = "a sum over the share, from which rows are computed",
     .stage = STAGE_SUM_INTO_ROWS,
     .applies = makes_rows_of_sum,
     .say = say_sum,
     .advise = advise_sum,
     .kind_of = kind_of_sum},
    {.name = "memory without relation to one process's", .stage = STAGE_INPUT, .applies = has_input},
    {.name = "a sum over the share",
     .stage = STAGE_SUM,
     .applies = gets_sum,
     .say = say_sum,
     .advise = advise_sum,
     .kind_of = kind_of_sum},
    {.name = "rows that are not of the batch", .stage = STAGE_INPUT_OF_ROWS, .applies = has_input_of_rows},
    {.name = "memory that it changes besides", .stage = STAGE_INPUT_BESIDES, .applies = has_input_besides},
    {.name = NULL},
};
