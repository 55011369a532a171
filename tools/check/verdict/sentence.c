/* sentence.c - see verdict.h and rows.h. */
#include "tools/check/verdict/rows.h"

#include <stdarg.h>

void
sentence_say(char text[VERDICT_BYTES], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(text, VERDICT_BYTES, format, args);
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

void
sentence_say_place(const struct check_facts *facts, const struct check_item *item, char text[VERDICT_BYTES],
                   const char *rest, ...)
{
    char end[VERDICT_BYTES];
    va_list args;
    va_start(args, rest);
    vsnprintf(end, sizeof(end), rest, args);
    va_end(args);
    sentence_say(text, "%s%s", ITEM_PLACE(facts, item), end);
}

const char *
sentence_name_tensor(const struct check_tensor *tensor, char text[400])
{
    snprintf(text, 400, "%s %u, `%s` (%s:%d), %llu element%s", check_role_name(tensor->role), tensor->number + 1,
             tensor->text, tensor->file, tensor->line, (unsigned long long)tensor->count,
             tensor->count == 1 ? "" : "s");
    return text;
}

/* How many tensors of this role (enum check_role) the table has: the "6" of "parameter 2 of 6". */
static unsigned
count_of_role(const struct check_facts *facts, uint32_t role)
{
    unsigned count = 0;
    for (size_t i = 0; i < facts->item_count; ++i)
        count += facts->items[i].tensor.role == role;
    return count;
}

/* A tensor's name for a sentence, with role, number from 1, expression and place in the source, into text[]. */
static void
name_without_elements(const struct check_facts *facts, const struct check_tensor *tensor, char text[400])
{
    switch (tensor->role) {
    case CHECK_MEMORY:
        snprintf(text, 400, "unannotated memory %u, which `%s` writes (argument %u)", tensor->number + 1, tensor->text,
                 tensor->argument + 1);
        break;
    case CHECK_MEAN:
        snprintf(text, 400, "DDP_MEAN `%s` (%s:%d)", tensor->text, tensor->file, tensor->line);
        break;
    case CHECK_REDUCE:
        snprintf(text, 400, "DDP_REDUCE `%s` (%s:%d)", tensor->text, tensor->file, tensor->line);
        break;
    default:
        snprintf(text, 400, "%s %u of %u, `%s` (%s:%d)", check_role_name(tensor->role), tensor->number + 1,
                 count_of_role(facts, tensor->role), tensor->text, tensor->file, tensor->line);
    }
}

const char *
sentence_name_item(const struct check_facts *facts, const struct check_item *item, char text[400])
{
    unsigned long long count = item->tensor.count, first = item->block_first, last = first + item->block_count - 1;
    name_without_elements(facts, &item->tensor, text);
    if (item->tensor.role == CHECK_MEAN)
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
name_ranks(const struct check_facts *facts, const struct check_item *item, char text[48])
{
    if (item->rank_count == facts->ranks)
        snprintf(text, 48, "on all ranks");
    else if (item->rank_count == 1)
        snprintf(text, 48, "on rank %d", item->first_rank);
    else
        snprintf(text, 48, "on %d of %d ranks, rank %d first", item->rank_count, facts->ranks, item->first_rank);
    return text;
}

/* "before step 1", "in round 3", "after step 2" */
static const char *
name_step(const struct check_item *item, const char *step, char text[32])
{
    if (!item->is_at_beginning)
        snprintf(text, 32, "in %s %u", step, item->made_in_step);
    else if (item->first_step == 1)
        snprintf(text, 32, "before %s 1", step);
    else
        snprintf(text, 32, "after %s %u", step, item->made_in_step);
    return text;
}

/* " by 0.5 times its norm (up to 1.0e-05 counts as equal)" */
static const char *
name_difference(const struct check_item *item, char text[96])
{
    text[0] = '\0';
    if (isfinite(item->at_first))
        snprintf(text, 96, " by %.2g %s", item->at_first,
                 item->is_of_change ? "times the change there in this step" : "times its norm");
    bool is_near_limit = item->at_first > item->limit && item->at_first < 100 * item->limit;
    if (is_near_limit)
        printable_append(text, 96, " (up to %.1e counts as equal)", item->limit);
    return text;
}

const char *
sentence_place(const struct check_facts *facts, const struct check_item *item, char text[600])
{
    char ranks[48], when[32], by[96];
    bool takes_turns = facts->by_plan || facts->takes_turns;
    snprintf(text, 600, "%s %s%s, differs %s from that of one process%s%s",
             name_step(item, takes_turns ? "round" : "step", when),
             item->tensor.role == CHECK_GRADIENT ? "averaged " : "", ITEM_NAME(facts, item),
             name_ranks(facts, item, ranks), takes_turns ? " with all turns" : "", name_difference(item, by));
    return text;
}

const char *
sentence_factor(const struct check_facts *facts, double factor)
{
    if (fabs(factor * facts->ranks - 1) < 0.02)
        return ", the reciprocal of the number of ranks";
    return fabs(factor / facts->ranks - 1) < 0.02 ? ", the number of ranks" : "";
}
