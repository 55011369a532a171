/* sentence.c - see verdict.h. */
#include "tools/check/command/pattern.h"
#include "tools/check/command/place.h"
#include "tools/common/each.h"

#include <stdarg.h>

void
sentence_say(char text[1024], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(text, 1024, format, args);
    va_end(args);
}

void
sentence_conclude(struct check_verdict *verdict, enum check_result result, enum check_cause cause,
                  const struct check_item *first, const char *advice, const char *format, ...)
{
    va_list args;
    verdict->result = result;
    verdict->cause = cause;
    verdict->first = first;
    va_start(args, format);
    vsnprintf(verdict->text, sizeof(verdict->text), format, args);
    va_end(args);
    if (advice != NULL)
        sentence_say(verdict->advice, "%s", advice);
}

bool
verdict_conclude(struct judgement *judgement, const char *advice, const char *format, ...)
{
    char rest[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(rest, sizeof(rest), format, args);
    va_end(args);
    sentence_conclude(
        judgement->verdict, judgement->row->result, judgement->row->cause, judgement->first, advice, "%s%s",
        judgement->first != NULL ? ITEM_PLACE(judgement->evidence, judgement->verdict, judgement->first) : "", rest);
    return true;
}

const char *
sentence_name_tensor(const struct check_tensor *tensor, char text[400])
{
    snprintf(text, 400, "%s %u, `%s` (%s:%d), %llu element%s", check_role_name(tensor->role), tensor->number + 1,
             tensor->text, tensor->file, tensor->line, (unsigned long long)tensor->count,
             tensor->count == 1 ? "" : "s");
    return text;
}

const char *
sentence_name_item(const struct check_verdict *verdict, const struct check_item *item, char text[400])
{
    const struct check_tensor *tensor = &item->tensor;
    unsigned long long count = tensor->count, first = item->block_first, last = first + item->block_count - 1;
    unsigned of = 0;
    for (size_t i = 0; i < verdict->item_count; ++i)
        of += verdict->items[i].tensor.role == tensor->role;
    if (tensor->role == CHECK_MEMORY)
        snprintf(text, 400, "unannotated memory %u, which `%s` writes (argument %u)", tensor->number + 1, tensor->text,
                 tensor->argument + 1);
    else if (tensor->role == CHECK_MEAN || tensor->role == CHECK_REDUCE)
        snprintf(text, 400, "%s `%s` (%s:%d)", tensor->role == CHECK_MEAN ? "DDP_MEAN" : "DDP_REDUCE", tensor->text,
                 tensor->file, tensor->line);
    else
        snprintf(text, 400, "%s %u of %u, `%s` (%s:%d)", check_role_name(tensor->role), tensor->number + 1, of,
                 tensor->text, tensor->file, tensor->line);
    if (tensor->role == CHECK_MEAN)
        return text;
    if (item->block_count > 1)
        printable_append(text, 400, ", elements %llu to %llu of %llu", first, last, count);
    else if (item->block_count == 1)
        printable_append(text, 400, ", element %llu of %llu", first, count);
    else
        printable_append(text, 400, ", %llu element%s", count, count == 1 ? "" : "s");
    return text;
}

/* "on all ranks", "on rank 1", "on 3 of 4 ranks" */
static const char *
name_ranks(const struct check_evidence *evidence, const struct check_item *item, char text[48])
{
    if (item->rank_count == evidence->ranks)
        snprintf(text, 48, "on all ranks");
    else if (item->rank_count == 1)
        snprintf(text, 48, "on rank %d", item->first_rank);
    else
        snprintf(text, 48, "on %d of %d ranks, rank %d first", item->rank_count, evidence->ranks, item->first_rank);
    return text;
}

const char *
sentence_place(const struct check_evidence *evidence, const struct check_verdict *verdict,
               const struct check_item *item, char text[600])
{
    char ranks[48], when[32], by[96] = "";
    const bool takes_turns = evidence->by_plan || check_evidence_takes_turns(evidence);
    const char *step = takes_turns ? "round" : "step";
    bool is_during = item->first_step == items_step(item);
    if (item->first_step == 1 && !is_during)
        snprintf(when, sizeof(when), "before %s 1", step);
    else
        snprintf(when, sizeof(when), "%s %s %u", is_during ? "in" : "after", step, items_step(item));
    const struct check_row *row =
        item->differs ? pattern_row(&evidence->ranked[item->first_rank], &item->tensor, item->first_step) : NULL;
    if (isfinite(item->at_first))
        snprintf(by, sizeof(by), " by %.2g %s", item->at_first,
                 row != NULL && row->of_change ? "times the change there in this step" : "times its norm");
    if (item->at_first > item->limit && item->at_first < 100 * item->limit) /* else it is no matter of the limit */
        printable_append(by, sizeof(by), " (up to %.1e counts as equal)", item->limit);
    snprintf(text, 600, "%s %s%s, differs %s from that of one process%s%s", when,
             item->tensor.role == CHECK_GRADIENT ? "averaged " : "", ITEM_NAME(verdict, item),
             name_ranks(evidence, item, ranks), takes_turns ? " with all turns" : "", by);
    return text;
}

static const char *const sources[] = {"", "the clock", "random bytes", "the clock or random bytes"};

void
sentence_add_readings(const struct check_evidence *evidence, struct check_verdict *verdict)
{
    printable_append(verdict->advice, sizeof(verdict->advice), "; %s: read by %s", sources[evidence->readings],
                     evidence->reading_places);
}

void
sentence_say_seeded(const struct check_evidence *evidence, struct check_verdict *verdict)
{
    static const char *const others[] = {"", "another date", "other random bytes",
                                         "another date and other random bytes"};
    char old[600];
    if (verdict->first != NULL && verdict->first->differs)
        (void)sentence_place(evidence, verdict, verdict->first, old);
    else
        snprintf(old, sizeof(old), "%.420s", verdict->text);
    sentence_conclude(
        verdict, CHECK_DIFFERENT, CAUSE_SEEDED, verdict->first,
        "use one seed on all ranks, a constant or an option: clocks and random bytes differ between ranks, "
        "and ranks with different seeds take other items, or items in another order",
        "%s if each rank has %s, and is equal if all ranks have the same: the seed comes from %s, read by %s", old,
        others[evidence->readings], sources[evidence->readings], evidence->reading_places);
}

/* The place proves a cause; an operation over the rows of a share may be meant so. */
static void
set_cause(struct check_verdict *verdict, const struct place *place)
{
    uint32_t role = verdict->first->tensor.role;
    bool is_gradient = role == CHECK_GRADIENT, is_first = verdict->first->first_step == 1;
    if (role == CHECK_REDUCE || verdict->cause == CAUSE_START || verdict->cause == CAUSE_INDIVISIBLE)
        return;
    if (place->kind == PLACE_UNNAMED || (place->kind == PLACE_INPUT && is_gradient))
        verdict->cause = CAUSE_UNANNOTATED;
    else if (place->kind == PLACE_DATA || (place->kind == PLACE_HOST && is_gradient))
        verdict->cause = CAUSE_DATA;
    else if (place->kind == PLACE_SHARE && is_first && verdict->factor == 0)
        verdict->result = CHECK_NOT_COMPARABLE, verdict->cause = CAUSE_BATCH_DEPENDENT;
    else if ((place->kind != PLACE_INPUT && verdict->cause == CAUSE_UNANNOTATED) ||
             (place->kind == PLACE_BEFORE && items_step(verdict->first) == 0)) /* an update before the first DDP_STEP */
        verdict->cause = CAUSE_UPDATE;
}

void
sentence_put_place(const struct check_evidence *evidence, struct check_verdict *verdict, const struct place *place)
{
    char old[1024], where[1024], name[400] = "";
    snprintf(old, sizeof(old), "%s", verdict->text);
    FOR_EACH(item, verdict->items, verdict->item_count)
        if (((item->tensor.role + 1) << 24 | item->tensor.number) == place->tensor)
            (void)sentence_name_tensor(&item->tensor, name);
    bool is_memory = (verdict->cause == CAUSE_UNANNOTATED && place->kind <= PLACE_BEFORE) ||
                     verdict->first->tensor.role == CHECK_BUFFER;
    uint32_t step = items_step(verdict->first);
    bool is_known = verdict->cause == CAUSE_INDIVISIBLE; /* which explains what the place shows */
    sentence_say(where, "%s %s %u %s%s%s", place->is_before ? "before" : "in",
                 check_evidence_takes_turns(evidence) ? "round" : "step", step > 0 ? step : 1, place->text,
                 name[0] != '\0' ? ": " : "", name);
    sentence_say(verdict->text, "%s; %s", is_known ? old : where, is_known ? where : old);
    if (is_memory || (verdict->cause == CAUSE_START && place->kind == PLACE_MISSING)) /* the memory itself says more */
        return;
    set_cause(verdict, place);
    if (place->advice != NULL &&
        (verdict->factor == 0 || verdict->cause == CAUSE_UPDATE || place->kind == PLACE_INPUT ||
         place->kind == PLACE_BEFORE || place->kind == PLACE_UNNAMED || place->kind == PLACE_MISSING))
        sentence_say(verdict->advice, "%s", place->advice);
}
