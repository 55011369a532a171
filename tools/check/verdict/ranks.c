/* ranks.c - see rows.h: ranks that differ from each other, before anything differs from one process. */
#include "tools/check/verdict/rows.h"

/* Whether ranks differ from each other, and unannotated memory differs, too: its update tells the ranks apart. */
static bool
is_of_memory(const struct check_facts *facts)
{
    return facts->apart.tensor != NULL && facts->memory != NULL;
}

/* Whether the row "ranks that differ from each other" applies. */
static bool
are_apart(const struct check_facts *facts)
{
    return facts->apart.tensor != NULL && facts->memory == NULL;
}

/* Row "ranks that differ from each other": the tensor that it is about, asked when the row decides. */
static const struct check_item *
about_tensor(const struct check_facts *facts)
{
    return facts->apart.item;
}

/* Row "ranks that differ from each other": its sentence, asked when the row decides. */
static void
say_apart(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    const struct facts_apart *apart = &facts->apart;
    const struct check_item unknown = {.tensor = *apart->tensor};
    sentence_say(
        text,
        "%s step %u %s, does not have the same bits on ranks 0 and %d, though neither differs from one process "
        "by more than %.1e and rounding",
        apart->tensor->role == CHECK_GRADIENT ? "in" : "after", apart->step,
        ITEM_NAME(facts, apart->item != NULL ? apart->item : &unknown), apart->rank, facts->tolerance);
}

/* Row "ranks that differ from each other": its advice, asked when the row decides. */
static void
advise_apart(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    if (facts->apart.is_start)
        sentence_say(text, "DDP_PARAMETER and DDP_STATE copy rank 0's values to all ranks at once: call them after "
                           "initialisation and loading, and do not change the values before the first DDP_STEP");
    else if (facts->apart.tensor->role == CHECK_GRADIENT)
        sentence_say(text, "a kernel or a copy writes it after it was averaged: look for a DDP_STEP that is called too "
                           "early");
    else
        sentence_say(text,
                     "the update uses a value that differs between ranks: a learning rate, a decision on the host, "
                     "random numbers, a gradient or optimizer state that is not annotated");
}

const struct verdict_row verdict_rows_of_ranks[] = {
    {.name = "ranks that unannotated memory tells apart",
     .stage = STAGE_RANKS,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_UNANNOTATED,
     .applies = is_of_memory,
     .about = verdict_about_memory,
     .say = memory_say,
     .advise = memory_advise},
    {.name = "ranks that differ from each other",
     .stage = STAGE_RANKS,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_RANKS,
     .applies = are_apart,
     .about = about_tensor,
     .say = say_apart,
     .advise = advise_apart},
    {.name = NULL},
};
