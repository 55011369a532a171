/* placed.c - see placed.h. */
#include "tools/check/command/placed.h"

#include "tools/common/each.h"

/* Whether the memory that the verdict names says more than its place: of a buffer, and where the place is only an
 * operation that reads it. */
static bool
is_of_memory(const struct check_verdict *verdict, const struct place *place)
{
    if (verdict->first->tensor.role == CHECK_BUFFER)
        return true;
    return verdict->cause == CAUSE_UNANNOTATED && place->kind <= PLACE_BEFORE;
}

static bool
is_missing_at_start(const struct check_verdict *verdict, const struct place *place)
{
    return verdict->cause == CAUSE_START && place->kind == PLACE_MISSING;
}

/* Whether the verdict has proved its cause from more than one operation. */
static bool
is_cause_known(const struct check_verdict *verdict)
{
    return verdict->first->tensor.role == CHECK_REDUCE || verdict->cause == CAUSE_START ||
           verdict->cause == CAUSE_INDIVISIBLE;
}

/* The cause that the place proves; the verdict's where it proves none. */
static enum check_cause
proved_cause(const struct check_verdict *verdict, const struct place *place)
{
    bool is_gradient = verdict->first->tensor.role == CHECK_GRADIENT,
         is_before_first_step = verdict->first->made_in_step == 0;
    switch (place->kind) {
    case PLACE_UNNAMED:
        return CAUSE_UNANNOTATED;
    case PLACE_INPUT:
        return is_gradient ? CAUSE_UNANNOTATED : verdict->cause;
    case PLACE_DATA:
        return CAUSE_DATA;
    case PLACE_HOST:
        if (is_gradient)
            return CAUSE_DATA;
        break;
    case PLACE_SHARE: /* an operation over the rows of a share may be meant so; ranks that take turns have no shares */
        if (verdict->first->first_step == 1 && verdict->factor == 0 && !verdict->facts->takes_turns)
            return CAUSE_BATCH_DEPENDENT;
        break;
    case PLACE_BEFORE:
        if (is_before_first_step)
            return CAUSE_UPDATE;
        break;
    default:
        break;
    }
    return verdict->cause == CAUSE_UNANNOTATED ? CAUSE_UPDATE : verdict->cause;
}

/* Whether the gradients are equal, and an update is not: of all parameters, or of a few. */
static bool
is_of_update(const struct check_verdict *verdict)
{
    return verdict->cause == CAUSE_UPDATE ||
           (verdict->cause == CAUSE_TENSOR && verdict->first->tensor.role == CHECK_PARAMETER);
}

/* Whether the place's advice says more than the verdict's: beside a factor of gradients that of most places does
 * not, for they do not explain why it is a factor. */
static bool
advises_better(const struct check_verdict *verdict, const struct place *place)
{
    if (place->advice == NULL)
        return false;
    if (place->kind == PLACE_UPDATED)
        return verdict->factor == 0;
    if (verdict->factor == 0 || is_of_update(verdict))
        return true;
    switch (place->kind) {
    case PLACE_INPUT:
    case PLACE_BEFORE:
    case PLACE_UNNAMED:
    case PLACE_MISSING:
    case PLACE_TERM:
        return true;
    default:
        return false;
    }
}

/* Whether the place's advice holds where ranks take turns, too: others speak of shares of a batch. */
static bool
holds_in_turns(const struct place *place)
{
    switch (place->kind) {
    case PLACE_SCALAR:
    case PLACE_BEFORE:
    case PLACE_UNNAMED:
    case PLACE_MISSING:
        return true;
    default:
        return false;
    }
}

/* Puts the place's sentence before the verdict's, with the step (or round) and the tensor's name; after it where the
 * cause is the more precise one. */
static void
put_text(struct check_verdict *verdict, const struct place *place)
{
    char old[VERDICT_BYTES], where[VERDICT_BYTES], name[400] = "";
    FOR_EACH(item, verdict->facts->items, verdict->facts->item_count)
        if (((item->tensor.role + 1) << 24 | item->tensor.number) == place->tensor)
            (void)sentence_name_tensor(&item->tensor, name);
    uint32_t step = verdict->first->made_in_step;
    bool explains_place = verdict->cause == CAUSE_INDIVISIBLE;
    sentence_say(old, "%s", verdict->text);
    sentence_say(where, "%s %s %u %s%s%s", place->is_before ? "before" : "in",
                 verdict->facts->takes_turns ? "round" : "step", step > 0 ? step : 1, place->text,
                 name[0] != '\0' ? ": " : "", name);
    sentence_say(verdict->text, "%s; %s", explains_place ? old : where, explains_place ? where : old);
}

void
placed_verdict(struct check_verdict *verdict, const struct place *place)
{
    put_text(verdict, place);
    verdict->place_rule = place->rule;
    if (is_of_memory(verdict, place) || is_missing_at_start(verdict, place))
        return;
    if (!is_cause_known(verdict))
        verdict->cause = proved_cause(verdict, place);
    if (verdict->cause == CAUSE_BATCH_DEPENDENT)
        verdict->result = CHECK_NOT_COMPARABLE;
    if (!advises_better(verdict, place))
        return;
    sentence_say(verdict->advice, "%s", place->advice);
    verdict->is_advised_by_place = place->advice[0] != '\0' && holds_in_turns(place);
}
