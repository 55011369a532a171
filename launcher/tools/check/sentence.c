/*
 * sentence.c - see sentence.h.
 */
#include "launcher/tools/check/sentence.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *
check_role_name(uint32_t role)
{
    static const char *const names[CHECK_ROLES] = {
        [CHECK_PARAMETER] = "parameter", [CHECK_GRADIENT] = "gradient", [CHECK_BUFFER] = "buffer",
        [CHECK_MEAN] = "mean",           [CHECK_MEMORY] = "memory",     [CHECK_STATE] = "state"};
    return role < CHECK_ROLES ? names[role] : "?";
}

void
sentence_say(char text[1024], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(text, 1024, format, args);
    va_end(args);
}

void
sentence_decide(struct check_verdict *verdict, enum check_result result, enum check_cause cause,
                const struct check_item *first)
{
    verdict->result = result;
    verdict->cause = cause;
    verdict->first = first;
}

const char *
sentence_name_item(const struct check_verdict *verdict, const struct check_item *item, char text[400])
{
    const struct check_tensor *tensor = &item->tensor;
    unsigned of = 0;
    for (size_t i = 0; i < verdict->item_count; ++i)
        of += verdict->items[i].tensor.role == tensor->role;
    if (tensor->role == CHECK_MEMORY)
        snprintf(text, 400, "unannotated memory %u, which `%s` writes (argument %u, %llu elements),",
                 tensor->number + 1, tensor->text, tensor->argument + 1, (unsigned long long)tensor->count);
    else if (tensor->role == CHECK_MEAN)
        snprintf(text, 400, "DDP_MEAN `%s` (%s:%d)", tensor->text, tensor->file, tensor->line);
    else
        snprintf(text, 400, "%s %u of %u, `%s` (%s:%d)", check_role_name(tensor->role), tensor->number + 1, of,
                 tensor->text, tensor->file, tensor->line);
    size_t length = strlen(text);
    if (item->block_count == 1)
        snprintf(text + length, 400 - length, ", element %llu", (unsigned long long)item->block_first);
    else if (item->block_count > 0)
        snprintf(text + length, 400 - length, ", elements %llu to %llu", (unsigned long long)item->block_first,
                 (unsigned long long)(item->block_first + item->block_count - 1));
    return text;
}

const char *
sentence_name_ranks(const struct check_evidence *evidence, const struct check_item *item, char text[48])
{
    if (item->rank_count == evidence->ranks)
        snprintf(text, 48, "on all ranks");
    else if (item->rank_count == 1)
        snprintf(text, 48, "on rank %d", item->first_rank);
    else
        snprintf(text, 48, "on %d of %d ranks, rank %d first", item->rank_count, evidence->ranks, item->first_rank);
    return text;
}
