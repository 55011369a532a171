/* scalars.c - see rows.h: a number among the arguments is other on the ranks than in one process. */
#include "tools/check/place/rows.h"

#include <stdio.h>

/* ---- what is said of a number ---- */

static enum place_kind
kind_of_scalar(const struct place_scalar *scalar, bool is_update)
{
    const bool is_by_rank = scalar->level == SCALAR_RISES || scalar->level == SCALAR_SEED; /* it may be so on purpose */
    return is_by_rank && !is_update ? PLACE_SHARE : PLACE_SCALAR;
}

static const char *
advise_update(const struct place_scalar *scalar)
{
    if (scalar->scales_average)
        return "DDP_STEP has already averaged this gradient over the ranks: do not divide it by the number of ranks "
               "once more, and do not multiply it by that number";
    return scalar->is_computed_of_share
               ? "compute it from the step, or from the items of the whole batch, not of the rank's share"
               : place_same_update;
}

static const char *
advise_scalar(const struct place_scalar *scalar, bool is_uneven)
{
    switch (scalar->level) {
    case SCALAR_WEIGHS:
        return place_weigh_shares;
    case SCALAR_UNEXPLAINED:
        return "this argument must not depend on the rank or on the number of ranks; if the program computes it from "
               "the "
               "share, reduce it (DDP_REDUCE), or weigh the share (DDP_WEIGHT)";
    case SCALAR_SEED:
        return "if this argument is a seed, use one value on all ranks, for the check at least: it holds the rank, or "
               "the "
               "clock; random numbers of an item may depend on its number in the batch";
    case SCALAR_COUNT:
        return "this argument depends on the number of items in the rank's share: before backward call "
               "DDP_WEIGHT(items "
               "of the rank's share, items of the whole batch)";
    case SCALAR_PART:
        return "a term has another factor on the ranks than in one process: divide it as the loss is divided";
    case SCALAR_RISES:
        return "if this argument is a seed, or depends on the rank, use one value on all ranks; if it is the first "
               "item of "
               "the share, add it once, and let no row depend on other rows of the share";
    default:
        return is_uneven
                   ? "the ranks' shares of this step are not equal: call DDP_WEIGHT(count, total) after DDP_SHARD, or "
                     "leave this batch out, or check with a batch that the number of ranks divides"
                   : "this argument is the size of the share: either the result must not depend on it, or another "
                     "argument is wrong, such as the first item of the share";
    }
}

static void
say_scalar(const struct place_scalar *scalar, bool is_probable, char text[PLACE_TEXT_BYTES])
{
    text[0] = '\0';
    if (scalar->line[0] != '\0')
        place_append(text, "`%s` (%s)%s is %s, and is passed to %s as %s: %sthe first operation that differs",
                     scalar->variable, scalar->line, scalar->computed_from, scalar->values, scalar->operation,
                     scalar->argument, is_probable ? "probably " : "");
    else
        place_begin(scalar->operation, is_probable, text, "%s%s is %s", scalar->argument, scalar->computed_from,
                    scalar->values);
    if (scalar->level == SCALAR_WEIGHS)
        place_append(text, "; with this number as weight, the mean of the ranks' gradients equals one process's");
    else if (scalar->advances_by_share)
        place_append(text, "; since the step before, it has advanced by the share, and in one process by the batch");
    else if (scalar->level == SCALAR_UNEXPLAINED && !scalar->is_computed_of_share)
        place_append(text, "%s", scalar->host_reads);
}

void
place_put_scalar(const struct place_scalar *scalar, bool is_update, bool is_uneven, bool is_probable,
                 struct place *place)
{
    place->kind = kind_of_scalar(scalar, is_update);
    place->advice = is_update ? advise_update(scalar) : advise_scalar(scalar, is_uneven);
    say_scalar(scalar, is_probable, place->text);
}

/* ---- rows ---- */

/* The first item of the share is right beside data that are not moved to it. */
static bool
is_right_first_item(const struct operation *operation)
{
    return operation->scalar.is_first_item && operation->unmoved[0] != '\0' && !operation->is_update;
}

static bool
is_at_least_size(const struct operation *operation)
{
    bool shows_any = operation->is_uneven || operation->gets_same;
    return shows_any && operation->scalar.level >= SCALAR_SIZE && !is_right_first_item(operation);
}

static bool
is_at_least_count(const struct operation *operation)
{
    return operation->scalar.level >= SCALAR_COUNT;
}

/* A mean over the share is right; data that are the same on all ranks are not. */
static bool
is_at_least_part(const struct operation *operation)
{
    bool is_explained = operation->scalar.is_of_mean && operation->unmoved[0] != '\0' && !operation->is_update;
    return operation->scalar.level >= SCALAR_PART && !is_explained;
}

static bool
is_at_least_rising(const struct operation *operation)
{
    bool is_explained = operation->scalar.is_of_mean && !is_at_least_part(operation);
    return operation->scalar.level >= SCALAR_RISES && !is_explained && !is_right_first_item(operation);
}

static void
say_own(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    say_scalar(&operation->scalar, operation->is_probable, text);
}

static const char *
advise_own(const struct operation *operation)
{
    return operation->is_update ? advise_update(&operation->scalar)
                                : advise_scalar(&operation->scalar, operation->is_uneven);
}

/* Random numbers of rows, and noise that is added to a gradient, may be the rank's own on purpose; those from which a
 * result of the whole batch is computed are not. */
static bool
is_seed_of_result(const struct operation *operation)
{
    return operation->scalar.level == SCALAR_SEED && !operation->makes_rows && !operation->is_of_gradient;
}

static enum place_kind
kind_of_own(const struct operation *operation)
{
    if (is_seed_of_result(operation))
        return PLACE_SCALAR;
    return kind_of_scalar(&operation->scalar, operation->is_update);
}

/* ---- a number of the operation that has computed a sum ---- */

static bool
has_unexplained_sum(const struct operation *operation)
{
    return operation->sum.is_there && operation->sum.scalar.level >= SCALAR_UNEXPLAINED;
}

static bool
is_early_number(const struct operation *operation)
{
    bool is_asked = operation->is_early && !operation->is_averaged && operation->is_tensor;
    return is_asked && has_unexplained_sum(operation);
}

static bool
is_number_of_rows(const struct operation *operation)
{
    return operation->makes_rows && has_unexplained_sum(operation);
}

static bool
is_number_of_sum(const struct operation *operation)
{
    return !operation->is_update && has_unexplained_sum(operation);
}

static void
say_of_sum(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    say_scalar(&operation->sum.scalar, operation->is_probable, text);
}

static const char *
advise_of_sum(const struct operation *operation)
{
    return advise_scalar(&operation->sum.scalar, operation->is_uneven);
}

#define OWN_NUMBER(what, at, holds)                                                                               \
    {                                                                                                             \
        .name = what, .stage = at, .applies = holds, .say = say_own, .advise = advise_own, .kind_of = kind_of_own \
    }
#define NUMBER_OF_SUM(what, at, holds)                                                                                \
    {                                                                                                                 \
        .name = what, .stage = at, .applies = holds, .say = say_of_sum, .advise = advise_of_sum, .kind = PLACE_SCALAR \
    }

const struct place_row place_rows_of_scalars[] = {
    NUMBER_OF_SUM("a number of the operation that has computed a sum, before DDP_STEP", STAGE_EARLY_SUM,
                  is_early_number),
    OWN_NUMBER("any number, where memory is the same or shares are unequal", STAGE_SHARE_SIZE, is_at_least_size),
    OWN_NUMBER("a number that no equal share explains", STAGE_COUNT, is_at_least_count),
    NUMBER_OF_SUM("a number of the operation that has computed a sum, which rows get", STAGE_SUM_INTO_ROWS,
                  is_number_of_rows),
    OWN_NUMBER("a number that is the share's part", STAGE_PART, is_at_least_part),
    NUMBER_OF_SUM("a number of the operation that has computed a sum", STAGE_SUM, is_number_of_sum),
    OWN_NUMBER("a number that rises with the rank", STAGE_RISES, is_at_least_rising),
    {.name = NULL},
};
