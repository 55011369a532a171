/* results.c - see rows.h: nothing that the operation gets explains what it makes. */
#include "tools/check/place/rows.h"

/* ---- updates ---- */

/* Whether the row "an update with another grid" applies. */
static bool
has_other_grid(const struct operation *operation)
{
    return operation->is_update && operation->is_target && operation->blocks_rank >= 0;
}

/* Row "an update with another grid": its sentence, asked when the row decides. */
static void
say_other_grid(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    place_begin(
        operation->name, operation->is_probable, text, "its grid has %llu blocks on rank %d and %llu in one process",
        (unsigned long long)operation->rank_blocks, operation->blocks_rank, (unsigned long long)operation->blocks);
}

/* Whether the row "an update that gets the same memory" applies. */
static bool
is_alike_update(const struct operation *operation)
{
    return operation->is_update && operation->is_target && operation->blocks_rank < 0 && operation->gets_same;
}

/* Row "an update that gets the same memory": its sentence, asked when the row decides. */
static void
say_alike_update(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    place_begin(
        operation->name, operation->is_probable, text,
        "it reads the same memory on the ranks and in one process, but its result differs: a number differs that "
        "it gets by a pointer or in a struct, such as alpha, or from a variable of the device");
}

/* Whether the row "an operation between DDP_STEP and the update" applies. */
static bool
is_before_update(const struct operation *operation)
{
    return operation->is_update && !operation->is_target;
}

/* Row "an operation between DDP_STEP and the update": its sentence, asked when the row decides. */
static void
say_before_update(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    place_begin(operation->name, operation->is_probable, text,
                "between DDP_STEP and the update it changes %s in another way than in one process",
                operation->is_of_gradient ? "averaged gradients" : "memory that the update depends on");
}

/* ---- before backward ---- */

/* Whether the row "a gradient that is cleared in part" applies. */
static bool
clears_part(const struct operation *operation)
{
    return operation->clears_part;
}

/* Row "a gradient that is cleared in part": its sentence, asked when the row decides. */
static void
say_cleared_part(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    place_begin(operation->name, operation->is_probable, text,
                "it clears less of the gradient that %s points to on a rank than in one process: the rest keeps the "
                "average that DDP_STEP has left there",
                operation->changed);
    place_append(text, "%s", operation->changed_element);
}

/* ---- after backward ---- */

/* Nothing that the operation gets tells another rank that its share is not the first: whatever else it changes, rows
 * show what is wrong. */
static bool
has_first_rows(const struct operation *operation)
{
    return !operation->is_update && operation->first_rows[0] != '\0';
}

static bool
reads_own_gradient(const struct operation *operation)
{
    return operation->is_late && operation->makes_rows && operation->gradient[0] != '\0';
}

static const char *
shown_element(const struct operation *operation)
{
    return reads_own_gradient(operation) ? operation->gradient_element : operation->changed_element;
}

/* Whether the row "a term that each rank adds" applies. */
static bool
adds_same_term(const struct operation *operation)
{
    return !operation->is_update && !has_first_rows(operation) && operation->adds_same_term;
}

/* Row "a term that each rank adds": its sentence, asked when the row decides. */
static void
say_same_term(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    place_begin(
        operation->name, operation->is_probable, text,
        "each rank adds the same term to its gradient as one process does, and the ranks' gradients are parts of a "
        "sum: the term counts several times");
    place_append(text, "%s%s", shown_element(operation), operation->equal_number);
}

/* Whether the row "rows that are computed from a gradient" applies. */
static bool
makes_rows_of_gradient(const struct operation *operation)
{
    if (operation->is_update || has_first_rows(operation) || operation->adds_same_term)
        return false;
    return reads_own_gradient(operation);
}

/* Row "rows that are computed from a gradient": its sentence, asked when the row decides. */
static void
say_rows_of_gradient(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    place_begin(operation->name, operation->is_probable, text,
                "%s points to a gradient of the rank's share alone, from which it computes rows", operation->gradient);
    place_append(text, "%s", shown_element(operation));
}

/* Whether the row "an operation after backward" applies. */
static bool
is_late(const struct operation *operation)
{
    if (operation->is_update || has_first_rows(operation) || operation->adds_same_term)
        return false;
    return operation->is_late && !reads_own_gradient(operation);
}

/* Row "an operation after backward": its sentence, asked when the row decides. */
static void
say_late(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    bool has_gradient = operation->gradient[0] != '\0';
    place_begin(
        operation->name, operation->is_probable, text,
        "after backward it reads or changes gradients that are not averaged yet%s%s%s, and the mean of the ranks' "
        "results is not the result of one process",
        has_gradient ? " (" : "", operation->gradient, has_gradient ? ")" : "");
    place_append(text, "%s", shown_element(operation));
}

/* ---- rows and results of a share ---- */

static bool
is_of_share(const struct operation *operation)
{
    return !operation->is_update && !operation->is_late && !has_first_rows(operation);
}

/* Whether the row "rows of a share" applies. */
static bool
makes_rows(const struct operation *operation)
{
    return is_of_share(operation) && operation->makes_rows;
}

/* Row "rows that are right on the first rank alone": its advice, asked when the row decides. */
static const char *
advise_counts_from_share(const struct operation *operation)
{
    return operation->unmoved[0] != '\0' ? place_add_first
                                         : "add `first` of DDP_SHARD to where each rank's share begins, and to a row's "
                                           "number in the share where positions or random numbers depend on it; and "
                                           "see whether a rank gets labels or other inputs of other items than its "
                                           "share's";
}

/* Row "rows that are right on the first rank alone": its sentence, asked when the row decides. */
static void
say_counts_from_share(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    place_begin(operation->name, operation->is_probable, text,
                "in the memory that %s points to rank 0's rows are one process's, but other ranks' rows are not: it "
                "counts rows, or reads data, from the beginning of the share and not of the batch%s",
                operation->first_rows,
                operation->unmoved[0] != '\0' ? operation->unmoved : ", or its inputs are of other items");
    place_append(text, "%s%s", operation->first_rows_element, operation->share_size);
}

/* Row "rows of a share": its sentence, asked when the row decides. */
static void
say_rows(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    place_begin(operation->name, operation->is_probable, text,
                "the ranks' rows in the memory that %s points to differ from one process's%s", operation->changed,
                operation->unmoved[0] != '\0'
                    ? operation->unmoved
                    : ": a row depends on other rows of the share, or on its position in the share");
    place_append(text, "%s%s", operation->changed_element, operation->share_size);
}

/* Whether the row "a result of a share" applies. */
static bool
makes_result(const struct operation *operation)
{
    return is_of_share(operation) && !operation->makes_rows;
}

/* Row "a result of a share": its sentence, asked when the row decides. */
static void
say_result(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    place_begin(operation->name, operation->is_probable, text,
                "the ranks' values in the memory that %s points to have neither the sum nor the mean that one process "
                "has%s",
                operation->changed,
                operation->unmoved[0] != '\0'
                    ? operation->unmoved /* such as labels */
                    : ": each depends on the share alone, such as a variance or a maximum, or "
                      "on a row's place in it");
    place_append(text, "%s", operation->changed_element);
}

/* Data begin alike on all ranks, and a number beside them is the first item of the share: rather that than a statistic.
 */
static bool
reads_unmoved(const struct operation *operation)
{
    return operation->unmoved[0] != '\0' && operation->scalar.is_first_item;
}

/* Rows "rows of a share", "a result of a share": the advice, asked when one of them decides. */
static const char *
advise_share(const struct operation *operation)
{
    if (reads_unmoved(operation))
        return place_add_first;
    return operation->is_of_reduce
               ? "if these are initial values, compute them from the whole data, or copy rank 0's to all ranks with "
                 "DDP_STATE; if they are computed from the share, reduce them (DDP_REDUCE)"
               : "look in this kernel for statistics of the share (reduce them over the batch with DDP_REDUCE); for "
                 "positions and random numbers that depend on a row's number in the share (add `first` to it); for "
                 "labels "
                 "or other inputs of other items than the share's";
}

const struct place_row place_rows_of_results[] = {
    {.name = "an update with another grid",
     .stage = STAGE_LAST,
     .kind = PLACE_SCALAR,
     .applies = has_other_grid,
     .say = say_other_grid,
     .advice =
         "the update must reach the whole parameter on each rank: compute its grid from the parameter's elements, "
         "not from the share"},
    {.name = "an update that gets the same memory",
     .stage = STAGE_LAST,
     .kind = PLACE_SCALAR,
     .applies = is_alike_update,
     .say = say_alike_update,
     .advice = place_same_update},
    {.name = "an operation between DDP_STEP and the update",
     .stage = STAGE_LAST,
     .kind = PLACE_CHANGED,
     .applies = is_before_update,
     .say = say_before_update,
     .advice = "the update must read averaged gradients, and no results of the rank's own rows: finish backward before "
               "DDP_STEP"},
    {.name = "a gradient that is cleared in part",
     .stage = STAGE_CLEARED,
     .kind = PLACE_CHANGED,
     .applies = clears_part,
     .say = say_cleared_part,
     .advice = "clear the whole gradient before backward, not only the rows of the rank's own items: DDP_STEP writes "
               "the rows of all ranks"},
    {.name = "a term that each rank adds",
     .stage = STAGE_LAST,
     .kind = PLACE_CHANGED,
     .applies = adds_same_term,
     .say = say_same_term,
     .advice = "if this term is equal on all ranks, such as weight decay, divide it as the loss is divided, or add it "
               "after DDP_STEP"},
    {.name = "rows that are computed from a gradient",
     .stage = STAGE_LAST,
     .kind = PLACE_CHANGED,
     .applies = makes_rows_of_gradient,
     .say = say_rows_of_gradient,
     .advice = "if backward needs these sums of the whole batch, copy the gradient, reduce the copy over the batch "
               "(DDP_REDUCE), and read the copy"},
    {.name = "an operation after backward",
     .stage = STAGE_LAST,
     .kind = PLACE_CHANGED,
     .applies = is_late,
     .say = say_late,
     .advice = place_move_step},
    {.name = "rows that are right on the first rank alone",
     .stage = STAGE_LAST,
     .kind = PLACE_SCALAR,
     .applies = has_first_rows,
     .say = say_counts_from_share,
     .advise = advise_counts_from_share},
    {.name = "rows of a share",
     .stage = STAGE_LAST,
     .kind = PLACE_SHARE,
     .applies = makes_rows,
     .say = say_rows,
     .advise = advise_share},
    {.name = "a result of a share",
     .stage = STAGE_LAST,
     .kind = PLACE_SHARE,
     .applies = makes_result,
     .say = say_result,
     .advise = advise_share},
    {.name = NULL},
};
