/* unannotated.c - see rows.h: memory and annotations that explain what comes later. */
#include "tools/check/verdict/rows.h"

/* ---- unannotated memory ---- */

/* Whether unannotated memory differs first; not where a factor of all gradients explains it, too. */
static bool
is_unannotated(const struct check_facts *facts)
{
    return facts->memory != NULL && facts->first.factor_of_all == 0;
}

void
memory_say(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say_place(facts, facts->memory, text, "%s", "");
}

void
memory_advise(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    const struct check_tensor *tensor = &facts->memory->tensor;
    if (check_is_in_place_of_parameter(tensor))
        sentence_say(text,
                     "`%s` updates this memory as it updates annotated parameters: annotate all of it with "
                     "DDP_PARAMETER, and its gradient with DDP_GRADIENT",
                     tensor->text);
    else
        sentence_say(text,
                     "`%s` updates this memory together with annotated parameters. It is optimizer state that differs "
                     "between ranks, because each rank loads, initialises or computes it by itself: annotate it with "
                     "DDP_STATE, and compute it after DDP_STEP",
                     tensor->text);
}

/* ---- the start ---- */

static bool
is_state(const struct check_facts *facts)
{
    return facts->first.item->tensor.role == CHECK_STATE;
}

static const char *
annotation(const struct check_facts *facts)
{
    return is_state(facts) ? "DDP_STATE" : "DDP_PARAMETER";
}

static bool
is_wrong_start(const struct check_facts *facts)
{
    return facts->first.is_of_start && !facts->first.is_right_on_rank_0;
}

/* Whether the row "a start that is computed from a share" applies. */
static bool
starts_with_share(const struct check_facts *facts)
{
    return is_wrong_start(facts) && facts->are_alike_at_first;
}

/* Row "a start that is computed from a share": its sentence, asked when the row decides. */
static void
say_alike(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say_place(facts, facts->first.item, text,
                       "; before the first DDP_STEP all ranks have the same values, but one process has others");
}

/* Row "a start that is computed from a share": its advice, asked when the row decides. */
static void
advise_alike(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say(text,
                 "on each rank compute the initial values from the whole batch, or without the batch: %s copies rank "
                 "0's values to all ranks",
                 annotation(facts));
}

/* Whether a parameter differs at the start because the program writes it before its first DDP_STEP: ranks had rank
 * 0's values when it was annotated. Where other parameters have not moved either, that is no update. */
static bool
is_written_early(const struct check_facts *facts)
{
    return is_wrong_start(facts) && !facts->are_alike_at_first && !is_state(facts) && !facts->all_parameters_move;
}

/* Whether the row "an update before the first step" applies. */
static bool
is_updated_early(const struct check_facts *facts)
{
    return is_wrong_start(facts) && !facts->are_alike_at_first && (is_state(facts) || facts->all_parameters_move);
}

/* Rows "a parameter that is written before the first step", "an update before the first step": the sentence, asked when
 * one of them decides. */
static void
say_early(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say_place(facts, facts->first.item, text, ": the program writes it before its first DDP_STEP");
}

/* Row "an update before the first step": its advice, asked when the row decides. */
static void
advise_updated_early(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    if (is_state(facts))
        sentence_say(
            text, "DDP_STATE is for memory that is equal on all ranks: compute it after DDP_STEP, or leave DDP_STATE "
                  "out if the memory belongs to this rank's records alone");
    else
        sentence_say(text, "call DDP_STEP between backward and the optimizer");
}

/* Whether the row "ranks that start apart" applies. */
static bool
starts_apart(const struct check_facts *facts)
{
    return facts->first.is_of_start && facts->first.is_right_on_rank_0;
}

/* Row "ranks that start apart": its sentence, asked when the row decides. */
static void
say_apart(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say_place(facts, facts->first.item, text, ": it does not have rank 0's values at the start");
}

/* Row "ranks that start apart": its advice, asked when the row decides. */
static void
advise_apart(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say(text,
                 "%s copies rank 0's values to all ranks at once: it must come after the initialisation (and after "
                 "loading a checkpoint)",
                 annotation(facts));
}

/* ---- annotations ---- */

/* Whether the row "a gradient of another type" applies. */
static bool
has_other_type(const struct check_facts *facts)
{
    return facts->first.item != NULL && facts->wide != NULL;
}

/* Row "a gradient of another type": its sentence, asked when the row decides. */
static void
say_other_type(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say_place(facts, facts->first.item, text, "; %s of float64, and no parameter has this type",
                       TENSOR_NAME(facts->wide));
}

const struct verdict_row verdict_rows_of_memory[] = {
    {.name = "unannotated memory",
     .stage = STAGE_MEMORY,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_UNANNOTATED,
     .applies = is_unannotated,
     .about = verdict_about_memory,
     .say = memory_say,
     .advise = memory_advise},
    {.name = "a start that is computed from a share",
     .stage = STAGE_START,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_START,
     .applies = starts_with_share,
     .about = verdict_about_first,
     .say = say_alike,
     .advise = advise_alike},
    {.name = "a parameter that is written before the first step",
     .stage = STAGE_START,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_TENSOR,
     .applies = is_written_early,
     .about = verdict_about_first,
     .say = say_early,
     .advice = "if forward writes this memory (running statistics), annotate it with DDP_BUFFER"},
    {.name = "an update before the first step",
     .stage = STAGE_START,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_UPDATE,
     .applies = is_updated_early,
     .about = verdict_about_first,
     .say = say_early,
     .advise = advise_updated_early},
    {.name = "ranks that start apart",
     .stage = STAGE_START,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_START,
     .applies = starts_apart,
     .about = verdict_about_first,
     .say = say_apart,
     .advise = advise_apart},
    {.name = "a gradient of another type",
     .stage = STAGE_TYPE,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_TENSOR,
     .applies = has_other_type,
     .about = verdict_about_first,
     .say = say_other_type,
     .advice = "annotate the gradient with its own type: DDP_TYPE_OF(pointer)",
     .is_precise = true},
    {.name = NULL},
};
