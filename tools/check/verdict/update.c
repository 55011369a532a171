/* update.c - see rows.h: what comes between a DDP_STEP and the next one. */
#include "tools/check/verdict/rows.h"

#include <math.h>

static bool
is_of_update(const struct check_facts *facts)
{
    return facts->first.item != NULL && !facts->first.is_result;
}

/* Whether the row "the update of a few tensors" applies. */
static bool
are_few(const struct check_facts *facts)
{
    return is_of_update(facts) && facts->first.is_few;
}

/* Row "an update with gradients that are missing": whether some of what is trained has no annotated gradient. */
static bool
lacks_gradients(const struct check_facts *facts)
{
    bool is_short = facts->gradient_elements > 0 && facts->gradient_elements < facts->trained_elements;
    return is_of_update(facts) && !facts->first.is_few && is_short;
}

/* Whether the row "the update" applies. */
static bool
are_many(const struct check_facts *facts)
{
    return is_of_update(facts) && !facts->first.is_few && !lacks_gradients(facts);
}

/* Rows "an update with gradients that are missing", "the update of a few tensors", "the update": the factor that the
 * verdict names, asked when one of them decides. */
static double
scale_of_change(const struct check_facts *facts)
{
    return facts->first.factor_of_change;
}

/* The end of the sentence on an update: whether the gradients that it used are known to be equal. */
static const char *
describe_gradients(const struct check_facts *facts)
{
    if (facts->has_graphs)
        return "; gradients that a CUDA graph averages were not compared";
    return facts->first.is_checked_before ? "; the annotated gradients of the step are equal"
                                          : "; gradients were not compared in each step so far";
}

/* Whether the update, or a part of it, is one process's divided by the number of ranks. */
static bool
is_divided_again(const struct check_facts *facts)
{
    const struct facts_first *first = &facts->first;
    double factor = first->factor_of_change != 0 ? first->factor_of_change : first->factor_of_others;
    return fabs(factor * facts->ranks - 1) < 0.02;
}

/* ": the change is 2 times that of one process, the number of ranks", or nothing. */
static const char *
describe_change(const struct check_facts *facts, char text[200])
{
    const struct facts_first *first = &facts->first;
    double factor = first->factor_of_change;
    const char *whose = "the change";
    text[0] = '\0';
    if (factor == 0) {
        factor = first->factor_of_others;
        whose = "the change of other parameters";
    }
    if (factor == 0)
        return text;
    const char *reason = sentence_factor(facts, factor);
    if (is_divided_again(facts))
        reason = ", as if the mean were divided by the number of ranks after DDP_STEP";
    snprintf(text, 200, ": %s is %.4g times that of one process%s", whose, factor, reason);
    return text;
}

/* Rows "the update of a few tensors", "the update": the sentence, asked when one of them decides. */
static void
say_update(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    const struct facts_first *first = &facts->first;
    uint32_t role = first->item->tensor.role;
    char change[200];
    sentence_say_place(facts, first->item, text, "%s%s", describe_change(facts, change), describe_gradients(facts));
    if (first->is_few)
        printable_append(text, VERDICT_BYTES, "; %zu of %zu %ss are equal in that step", first->all - first->differing,
                         first->all, role == CHECK_MEMORY ? "range" : check_role_name(role));
}

/* Rows "the update of a few tensors", "the update": the advice, asked when one of them decides. */
static void
advise_update(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    if (is_divided_again(facts))
        sentence_say(text,
                     "gradients or the learning rate are divided by the number of ranks after DDP_STEP, which has made "
                     "the mean already: leave that out; if a norm or a clipping of gradients stands before DDP_STEP, "
                     "call DDP_STEP before it");
    else if (facts->first.factor_of_change != 0)
        sentence_say(text,
                     "the update depends on the rank, the number of ranks or the share: if by a learning rate, "
                     "compute it from the step; if by a norm or a clipping of gradients, call DDP_STEP before it");
    else if (facts->has_graphs)
        sentence_say(text, "check the program without CUDA graphs; then the operation is named");
    else if (facts->first.is_few)
        sentence_say(text,
                     "its gradient is not averaged, or only a part of it: annotate the gradient with DDP_GRADIENT "
                     "and its full count, and write it before DDP_STEP; or the update reads memory that differs "
                     "between ranks");
    else
        sentence_say(text, "the update uses values that are not averaged, such as a moment or a norm that is computed "
                           "before DDP_STEP; or DDP_STEP comes before backward, within it or after the optimizer");
}

/* ---- gradients that are missing ---- */

/* The first gradient of the table; NULL: none is annotated. */
static const struct check_item *
find_gradient(const struct check_facts *facts)
{
    for (size_t i = 0; i < facts->item_count; ++i) {
        if (facts->items[i].tensor.role == CHECK_GRADIENT)
            return &facts->items[i];
    }
    return NULL;
}

/* Row "an update with gradients that are missing": its sentence, asked when the row decides. */
static void
say_lacks(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    const struct check_item *gradient = find_gradient(facts);
    say_update(facts, text);
    printable_append(
        text, VERDICT_BYTES,
        "; DDP_GRADIENT names %llu elements in all (%s), and the update changes %llu elements of parameters",
        (unsigned long long)facts->gradient_elements, TENSOR_NAME(&gradient->tensor),
        (unsigned long long)facts->trained_elements);
}

/* ---- an update in another step ---- */

/* What differs first is made in the step in which only the ranks update, or only one process. */
static bool
updates_elsewhere(const struct check_facts *facts)
{
    const struct check_item *first = facts->first.item;
    if (first == NULL || first->is_averaged || facts->takes_turns)
        return false;
    return facts->pace.step > 0 && first->made_in_step == facts->pace.step;
}

/* Row "an update after fewer DDP_STEPs": whether the ranks update a parameter after fewer of them than one process. */
static bool
updates_early(const struct check_facts *facts)
{
    const bool is_early = updates_elsewhere(facts) && facts->pace.of_ranks < facts->pace.of_one;
    return is_early && facts->first.item->tensor.role == CHECK_PARAMETER;
}

/* Row "an update after more DDP_STEPs": whether the ranks update after more of them than one process. */
static bool
updates_late(const struct check_facts *facts)
{
    return updates_elsewhere(facts) && facts->pace.of_ranks > facts->pace.of_one;
}

/* The letter that a noun after `count` ends with: "s", or none. */
static const char *
plural(unsigned count)
{
    return count == 1 ? "" : "s";
}

/* " (train.cu:12)", or nothing. */
static const char *
name_call(const struct facts_pace *pace, char text[160])
{
    text[0] = '\0';
    if (pace->call != NULL)
        snprintf(text, 160, " (%s:%d)", pace->call->file, pace->call->line);
    return text;
}

/* Row "an update after fewer DDP_STEPs": its sentence, asked when the row decides. */
static void
say_updates_early(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    const struct facts_pace *pace = &facts->pace;
    char call[160];
    sentence_say_place(
        facts, facts->first.item, text,
        ": the ranks update it after %u DDP_STEP%s, and one process after %u: DDP_STEP%s is called for each "
        "part of a batch, and a rank computes fewer parts",
        pace->of_ranks, plural(pace->of_ranks), pace->of_one, name_call(pace, call));
}

/* Row "an update after more DDP_STEPs": its sentence, asked when the row decides. */
static void
say_updates_late(const struct check_facts *facts, char text[VERDICT_BYTES])
{
    const struct facts_pace *pace = &facts->pace;
    char call[160];
    sentence_say_place(facts, facts->first.item, text,
                       ": one process updates parameters after %u DDP_STEP%s, and the ranks after %u: only the ranks "
                       "call DDP_STEP%s for each part of a batch",
                       pace->of_one, plural(pace->of_one), pace->of_ranks, name_call(pace, call));
}

static const char step_once[] = "call DDP_STEP once for each update: after the loop over the parts of a batch "
                                "(micro-batches), and before the update";

const struct verdict_row verdict_rows_of_updates[] = {
    {.name = "an update after fewer DDP_STEPs",
     .stage = STAGE_PACE,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_UPDATE,
     .applies = updates_early,
     .about = verdict_about_first,
     .say = say_updates_early,
     .advice = step_once,
     .is_precise = true},
    {.name = "an update after more DDP_STEPs",
     .stage = STAGE_PACE,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_UPDATE,
     .applies = updates_late,
     .about = verdict_about_first,
     .say = say_updates_late,
     .advice = step_once,
     .is_precise = true},
    {.name = "an update with gradients that are missing",
     .stage = STAGE_LAST,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_UPDATE,
     .applies = lacks_gradients,
     .about = verdict_about_first,
     .say = say_lacks,
     .advice =
         "annotate all gradients with DDP_GRADIENT, each with as many elements as its parameter has; the count is "
         "in elements, not in bytes",
     .factor = scale_of_change},
    {.name = "the update of a few tensors",
     .stage = STAGE_LAST,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_TENSOR,
     .applies = are_few,
     .about = verdict_about_first,
     .say = say_update,
     .advise = advise_update,
     .factor = scale_of_change},
    {.name = "the update",
     .stage = STAGE_LAST,
     .result = CHECK_DIFFERENT,
     .cause = CAUSE_UPDATE,
     .applies = are_many,
     .about = verdict_about_first,
     .say = say_update,
     .advise = advise_update,
     .factor = scale_of_change},
    {.name = NULL},
};
