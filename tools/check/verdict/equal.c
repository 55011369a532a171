/* equal.c - see rows.h: nothing differs. Whatever hides mistakes is not called equal. */
#include "tools/check/verdict/rows.h"

/* Whether the row "equal" applies. */
static bool
is_equal(const struct check_facts *facts)
{
    return !verdict_has_difference(facts);
}

/* Whether nothing differs but results of DDP_REDUCE, which may differ on purpose beside equal tensors. */
static bool
is_equal_but_for_results(const struct check_facts *facts)
{
    return !facts->in_rounds && facts->first.item == NULL;
}

/* ---- the same batch ---- */

/* Whether the row "one batch on all ranks" applies. */
static bool
is_one_batch(const struct check_facts *facts)
{
    return is_equal(facts) && facts->have_one_batch;
}

/* Row "one batch on all ranks": its sentence, asked when the row decides. */
static void
say_one_batch(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say(text, "the ranks computed the same batch: %s of all %d ranks are equal, so more ranks do not help",
                 facts->in_rounds ? "the values that they pass to DDP_REDUCE" : "before averaging, the gradients",
                 facts->ranks);
}

/* ---- tolerances that hide mistakes ---- */

/* Rows "a tolerance that hides mistakes", "a change that is little more than rounding": the tensor that it is about,
 * asked when one of them decides. */
static const struct check_item *
about_unclear(const struct check_facts *facts)
{
    return facts->unclear;
}

/* Whether the row "a tolerance that hides mistakes" applies. */
static bool
hides_mistakes(const struct check_facts *facts)
{
    return is_equal(facts) && facts->unclear != NULL && facts->unclear->hidden > 0;
}

/* Row "a tolerance that hides mistakes": its sentence, asked when the row decides. */
static void
say_hidden(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say(text, "%s, differs by %.2g, and %s; a tolerance above %.1e hides mistakes",
                 ITEM_NAME(facts, facts->unclear), facts->unclear->hidden,
                 facts->tolerance > facts->bearable ? "only --tolerance allows this"
                                                    : "runs of one process differ as much",
                 facts->bearable);
}

/* Row "a tolerance that hides mistakes": its advice, asked when the row decides. */
static void
advise_hidden(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say(text, "%s",
                 facts->is_forced
                     ? "check fewer steps (--steps), or start from a warmed-up checkpoint"
                     : "check fewer steps (--steps 1), a smaller learning rate, or start from a warmed-up checkpoint");
}

/* Whether the row "a change that is little more than rounding" applies. */
static bool
is_little_more_than_rounding(const struct check_facts *facts)
{
    return is_equal(facts) && facts->unclear != NULL && !(facts->unclear->hidden > 0);
}

/* Row "a change that is little more than rounding": its sentence, asked when the row decides. */
static void
say_rounding(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say(text, "a step changes %s, by little more than rounding, and the changes do not have the same bits",
                 ITEM_NAME(facts, facts->unclear));
}

/* ---- no parameter moves ---- */

/* Whether the row "no parameter moves" applies. */
static bool
is_unmoved(const struct check_facts *facts)
{
    return is_equal_but_for_results(facts) && facts->is_unmoved;
}

/* Row "no parameter moves": its sentence, asked when the row decides. */
static void
say_unmoved(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say(text, "no parameter has moved in %u step%s in one process, so that no update was compared",
                 facts->steps, facts->steps == 1 ? "" : "s");
}

/* ---- what differs beside equal tensors ---- */

/* Whether the row "a result of DDP_REDUCE beside equal tensors" applies. */
static bool
is_equal_beside_result(const struct check_facts *facts)
{
    return is_equal_but_for_results(facts) && facts->reduced.first != NULL &&
           facts->reduced.first->tensor.role == CHECK_REDUCE;
}

/* Row "a result of DDP_REDUCE beside equal tensors": the tensor that it is about, asked when the row decides. */
static const struct check_item *
about_result(const struct check_facts *facts)
{
    return facts->reduced.first;
}

/* Row "a result of DDP_REDUCE beside equal tensors": its sentence, asked when the row decides. */
static void
say_result(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    sentence_say_place(facts, facts->reduced.first, text, "; gradients and parameters are equal");
}

/* Whether the row "memory of the host beside equal tensors" applies. */
static bool
is_equal_beside_host(const struct check_facts *facts)
{
    return is_equal(facts) && facts->carried.bytes > 0;
}

/* Row "memory of the host beside equal tensors": its sentence, asked when the row decides. */
static void
say_host(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    const struct facts_carried *carried = &facts->carried;
    sentence_say(text,
                 "gradients and parameters are equal, but in step %u rank %d copies %llu bytes of the host's memory to "
                 "the device at %s whose bits differ from rank 0's, %s",
                 carried->step, carried->rank, (unsigned long long)carried->bytes, carried->place,
                 carried->is_trained ? "and these bytes depend on the parameters: each rank trains its own copy"
                                     : "and it is not known whether these bytes depend on the parameters");
}

const struct verdict_row verdict_rows_of_equality[] = {
    {.name = "one batch on all ranks",
     .stage = STAGE_ONE_BATCH,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_SAME_BATCH,
     .applies = is_one_batch,
     .say = say_one_batch,
     .advice = "divide the batch: DDP_SHARD(total, &first, &count), or DDP_RANK() and DDP_WORLD_SIZE()"},
    {.name = "a tolerance that hides mistakes",
     .stage = STAGE_DOUBT,
     .result = CHECK_NOT_COMPARABLE,
     .cause = CAUSE_CHAOTIC,
     .applies = hides_mistakes,
     .about = about_unclear,
     .say = say_hidden,
     .advise = advise_hidden},
    {.name = "a change that is little more than rounding",
     .stage = STAGE_DOUBT,
     .result = CHECK_NOT_COMPARABLE,
     .cause = CAUSE_CHAOTIC,
     .applies = is_little_more_than_rounding,
     .about = about_unclear,
     .say = say_rounding,
     .advice = "check with a larger learning rate, or after the warm-up"},
    {.name = "no parameter moves",
     .stage = STAGE_UNMOVED,
     .result = CHECK_NOT_COMPARABLE,
     .cause = CAUSE_UNMOVED,
     .applies = is_unmoved,
     .say = say_unmoved,
     .advice = "check with a larger learning rate, or more steps (--steps); annotate the memory that the optimizer "
               "writes"},
    {.name = "a result of DDP_REDUCE beside equal tensors",
     .stage = STAGE_BESIDES,
     .result = CHECK_NOT_COMPARABLE,
     .cause = CAUSE_REDUCTION,
     .applies = is_equal_beside_result,
     .about = about_result,
     .say = say_result,
     .advice =
         "if this result depends on the number of ranks on purpose, like the largest value of a share, the program "
         "is right; a sum or a mean over all items must not depend on it"},
    {.name = "memory of the host beside equal tensors",
     .stage = STAGE_HOST,
     .result = CHECK_NOT_COMPARABLE,
     .cause = CAUSE_CARRIED,
     .applies = is_equal_beside_host,
     .say = say_host,
     .advice =
         "if the host updates this memory, as a weight or an optimizer's state: annotate it with DDP_PARAMETER and "
         "its gradient with DDP_GRADIENT, or with DDP_STATE; if each rank has its own values there on purpose, "
         "such as the loss of its share, the program is right"},
    {.name = "equal", .stage = STAGE_EQUAL, .result = CHECK_EQUAL, .cause = CAUSE_NONE, .applies = is_equal},
    {.name = NULL},
};
