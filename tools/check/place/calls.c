/* calls.c - see rows.h: a DDP_REDUCE, a copy from the host, and memory that is written before DDP_STEP. */
#include "tools/check/place/rows.h"

#include <stdio.h>

/* ---- DDP_REDUCE ---- */

/* Whether the row "a DDP_REDUCE" applies. */
static bool
is_reduce(const struct operation *operation)
{
    return operation->is_reduce;
}

/* Row "a DDP_REDUCE": its sentence, asked when the row decides. */
static void
say_reduce(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    place_begin(operation->name, operation->is_probable, text,
                "the ranks pass parts of one process's `%.100s` to it, but its result is not that value",
                operation->reduced);
    place_append(text, "%s", operation->changed_element);
}

/* ---- before DDP_STEP ---- */

/* Whether the row "memory that is written before DDP_STEP" applies. */
static bool
is_early_tensor(const struct operation *operation)
{
    return operation->is_early && !operation->is_averaged && operation->is_tensor;
}

/* Whether the row "a parameter that backward writes, as a gradient" applies. */
static bool
is_swapped(const struct operation *operation)
{
    return is_early_tensor(operation) && operation->is_backward;
}

/* Whether the row "a sum over the share, before DDP_STEP" applies. */
static bool
is_early_sum(const struct operation *operation)
{
    return is_early_tensor(operation) && operation->sum.is_there && operation->sum.scalar.level < SCALAR_UNEXPLAINED;
}

/* Row "a sum over the share, before DDP_STEP": its sentence, asked when the row decides. */
static void
say_early_sum(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    place_begin(operation->name, operation->is_probable, text,
                "%s points to a value that %.300s computes from the rank's share alone", operation->sum.argument,
                operation->sum.writer);
    place_append(text, "%s", operation->sum.element);
}

/* Row "memory that is written before DDP_STEP": its sentence, asked when the row decides. */
static void
say_early(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    place_begin(
        operation->name, operation->is_probable, text,
        "before DDP_STEP it writes other values than one process to the memory that %s points to, which must be "
        "equal on all ranks",
        operation->changed);
    place_append(text, "%s", operation->changed_element);
}

/* Row "a parameter that backward writes, as a gradient": its sentence, asked when the row decides. */
static void
say_swapped(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    place_begin(operation->name, operation->is_probable, text,
                "before DDP_STEP it writes the memory that %s points to, which DDP_PARAMETER names, and no operation "
                "before DDP_STEP writes memory that DDP_GRADIENT names",
                operation->changed);
    place_append(text, "%s", operation->changed_element);
}

/* Whether the row "parameters that are not averaged yet" applies. */
static bool
gets_own_parameters(const struct operation *operation)
{
    return operation->is_averaged && operation->gets_averageless;
}

/* Row "parameters that are not averaged yet": its sentence, asked when the row decides. */
static void
say_own_parameters(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    place_begin(
        operation->name, operation->is_probable, text,
        "it reads parameters that the rank's own update has changed, and that DDP_STEP_PARAMETERS has not averaged "
        "yet; its result is not proportional to that change");
    place_append(text, "%s", operation->changed_element);
}

static bool
is_own_update(const struct operation *operation)
{
    return operation->is_averaged && !operation->gets_averageless && operation->is_tensor;
}

/* Whether the row "an update by the part of a gradient" applies. */
static bool
is_part_of_update(const struct operation *operation)
{
    return is_own_update(operation) && operation->is_part;
}

/* Row "an update by the part of a gradient": its sentence, asked when the row decides. */
static void
say_part_of_update(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    place_begin(
        operation->name, operation->is_probable, text,
        "the ranks' changes add up to one process's change, but DDP_STEP_PARAMETERS takes their mean: a factor of "
        "the change, such as alpha, is divided by the whole batch");
    place_append(text, "%s", operation->changed_element);
}

/* Whether the row "an update that is not linear in the gradient" applies. */
static bool
is_no_linear_update(const struct operation *operation)
{
    return is_own_update(operation) && !operation->is_part;
}

/* Row "an update that is not linear in the gradient": its sentence, asked when the row decides. */
static void
say_no_linear_update(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    place_begin(operation->name, operation->is_probable, text,
                "the change of the parameter is not proportional to the gradient");
    place_append(text, "%s", operation->changed_element);
}

/* ---- copies ---- */

/* Whether the row "a copy of items that are not the share's" applies. */
static bool
copies_items(const struct operation *operation)
{
    return operation->is_copy && !operation->is_update && operation->items.text[0] != '\0';
}

/* Row "a copy of items that are not the share's": the kind of the place, asked when the row decides. */
static enum place_kind
kind_of_items(const struct operation *operation)
{
    return operation->items.kind;
}

/* Row "a copy of items that are not the share's": its advice, asked when the row decides. */
static const char *
advise_items(const struct operation *operation)
{
    return operation->items.advice;
}

static void
say_host(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    place_append(text, "%s%s", operation->host_reads, operation->host_writes);
}

/* Row "a copy of items that are not the share's": its sentence, asked when the row decides. */
static void
say_items(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    snprintf(text, PLACE_TEXT_BYTES, "%s", operation->items.text);
    say_host(operation, text);
}

/* Whether the row "a copy of as much as one process copies" applies. */
static bool
copies_whole(const struct operation *operation)
{
    return operation->is_copy && !copies_items(operation) && operation->copies_whole;
}

/* Row "a copy of as much as one process copies": its sentence, asked when the row decides. */
static void
say_whole(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    place_begin(operation->name, operation->is_probable, text,
                "a rank copies other values than one process to the memory of %s%s", operation->changed,
                operation->is_annotated ? "" : ", which is not annotated");
    place_append(text, "%s", operation->changed_element);
    say_host(operation, text);
}

/* Row "a copy of as much as one process copies": its advice, asked when the row decides. */
static const char *
advise_whole(const struct operation *operation)
{
    return operation->comes_again
               ? "if the host computes these values from the share, such as class weights or a number of rows, reduce "
                 "them (DDP_REDUCE); if the host trains them, annotate them (DDP_PARAMETER, DDP_GRADIENT); if they are "
                 "a "
                 "batch, copy only the rank's share"
               : "a data set, weights or state must be the same on all ranks: use the same seed, or annotate this "
                 "memory "
                 "with DDP_PARAMETER or DDP_STATE";
}

/* Whether the row "a copy of values that are not the share's" applies. */
static bool
copies_share(const struct operation *operation)
{
    return operation->is_copy && !copies_items(operation) && !operation->copies_whole;
}

/* Row "a copy of values that are not the share's": its sentence, asked when the row decides. */
static void
say_share(const struct operation *operation, char text[PLACE_TEXT_BYTES])
{
    place_begin(operation->name, operation->is_probable, text,
                "the values that a rank copies to the memory of %s are not its share of those that one process copies",
                operation->changed);
    place_append(text, "%s", operation->changed_element);
    say_host(operation, text);
}

/* Row "a copy of values that are not the share's": its advice, asked when the row decides. */
static const char *
advise_share(const struct operation *operation)
{
    if (operation->has_rank_0_its_share)
        return place_read_checkpoint;
    return "read the batch by `first` and `count` of DDP_SHARD. If the copied values are random numbers, use the same "
           "seed on all ranks, and draw the numbers of the whole batch on each rank. If the host computes them from "
           "the share, reduce them (DDP_REDUCE)";
}

const struct place_row place_rows_of_calls[] = {
    {.name = "a DDP_REDUCE",
     .stage = STAGE_CALL,
     .kind = PLACE_SCALAR,
     .applies = is_reduce,
     .say = say_reduce,
     .advice =
         "choose the operation of DDP_REDUCE by the values: DDP_OP_SUM for sums, DDP_OP_MEAN for means over equal "
         "shares"},
    {.name = "a sum over the share, before DDP_STEP",
     .stage = STAGE_EARLY_SUM,
     .kind = PLACE_SHARE,
     .applies = is_early_sum,
     .say = say_early_sum,
     .advice = place_reduce_value},
    {.name = "memory that is written before DDP_STEP",
     .stage = STAGE_EARLY,
     .kind = PLACE_CHANGED,
     .applies = is_early_tensor,
     .say = say_early},
    {.name = "a parameter that backward writes, as a gradient",
     .stage = STAGE_SWAPPED,
     .kind = PLACE_CHANGED,
     .applies = is_swapped,
     .say = say_swapped,
     .advice = "the pointers of DDP_PARAMETER and DDP_GRADIENT are probably swapped: pass the weights to "
               "DDP_PARAMETER, and what backward computes to DDP_GRADIENT"},
    {.name = "parameters that are not averaged yet",
     .stage = STAGE_EARLY,
     .kind = PLACE_CHANGED,
     .applies = gets_own_parameters,
     .say = say_own_parameters,
     .advice = "call DDP_STEP_PARAMETERS between the update and this operation; if this operation belongs to backward, "
               "compute each layer's input gradient before the layer's weights change"},
    {.name = "an update by the part of a gradient",
     .stage = STAGE_EARLY,
     .kind = PLACE_SCALAR,
     .applies = is_part_of_update,
     .say = say_part_of_update,
     .advice = "divide the loss, or the rate, by the rank's share (the count of DDP_SHARD), not by the batch"},
    {.name = "an update that is not linear in the gradient",
     .stage = STAGE_EARLY,
     .kind = PLACE_CHANGED,
     .applies = is_no_linear_update,
     .say = say_no_linear_update,
     .advice =
         "DDP_STEP_PARAMETERS needs an update that is linear in the gradient, such as SGD; for Adam or clipping give "
         "the gradients buffers, and call DDP_STEP before the update"},
    {.name = "a copy of items that are not the share's",
     .stage = STAGE_COPY,
     .applies = copies_items,
     .say = say_items,
     .advise = advise_items,
     .kind_of = kind_of_items},
    {.name = "a copy of as much as one process copies",
     .stage = STAGE_COPY,
     .kind = PLACE_HOST,
     .applies = copies_whole,
     .say = say_whole,
     .advise = advise_whole},
    {.name = "a copy of values that are not the share's",
     .stage = STAGE_COPY,
     .kind = PLACE_SHARE,
     .applies = copies_share,
     .say = say_share,
     .advise = advise_share},
    {.name = NULL},
};
