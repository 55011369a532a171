/*
 * calls.c - see calls.h.
 */
#include "text/calls.h"

#include "text/walk.h"

#include <string.h>

void
call_split(const struct code *code, uint32_t open, struct call *call)
{
    const uint32_t match = code->tokens[open].match;
    call->open = open;
    call->close = match > open ? match : code->count;
    call->count = 0;
    uint32_t first = open + 1;
    for (uint32_t i = first; i <= call->close && call->count < CALL_ARGUMENTS_AT_MOST; i = token_next(code, i)) {
        if (i < call->close && !token_is(code, i, ","))
            continue;
        if (i > first)
            call->arguments[call->count++] = (struct token_range){first, i};
        first = i + 1;
    }
}

/* In front of a name: "x." or "p->". */
static struct token_range
object_before(const struct code *code, uint32_t name, uint32_t begin)
{
    const bool is_member = name > begin + 1 && (token_is(code, name - 1, ".") || token_is(code, name - 1, "->"));
    if (!is_member)
        return (struct token_range){name, name};
    const uint32_t first = token_postfix_begin(code, name - 1);
    return (struct token_range){first > begin ? first : begin, name};
}

uint32_t
call_name_begin(const struct code *code, const struct call *call)
{
    uint32_t i = call->name;
    while (i > 1 && token_is(code, i - 1, "::") && token_is_word(code, i - 2))
        i -= 2;
    return i;
}

bool
call_read(const struct code *code, uint32_t i, uint32_t begin, struct call *call)
{
    if (!token_is_word(code, i))
        return false;
    const uint32_t open = token_is(code, i + 1, "<") ? token_skip_angles(code, i + 1, code->count) : i + 1;
    if (!token_is(code, open, "("))
        return false;
    call->name = i;
    call->object = object_before(code, i, begin);
    call_split(code, open, call);
    return true;
}

bool
call_read_launch(const struct code *code, uint32_t i, struct call *call)
{
    if (!token_run(code, i, '<', 3))
        return false;
    uint32_t end = i + 3;
    while (end < code->count && !token_run(code, end, '>', 3))
        end = token_next(code, end);
    if (end == code->count || !token_is(code, end + 3, "("))
        return false;
    call->name = i;
    call->object = (struct token_range){i, i};
    call_split(code, end + 3, call);
    return true;
}

/* Whether token i is the name of a function, whose own template arguments do not count. */
static bool
is_function(const struct code *code, uint32_t i, const char *function)
{
    return token_is_word(code, i) && token_is_text(code, i, function, strcspn(function, "<"));
}

bool
call_find(const struct code *code, struct token_range in, const char *function, size_t place, struct call *call)
{
    uint32_t found = 0;
    bool has_place = false;
    for (uint32_t i = in.first; i < in.end; ++i) {
        struct call next;
        if (!is_function(code, i, function) || !call_read(code, i, in.first, &next))
            continue;
        const bool is_here = code->tokens[i].begin <= place && place < token_end(code, next.close);
        ++found;
        if (found > 1 && !is_here)
            continue;
        has_place = has_place || is_here;
        *call = next;
    }
    return has_place || found == 1;
}

bool
call_find_outermost(const struct code *code, struct token_range in, const char *function, struct call *call)
{
    uint32_t found = 0;
    for (uint32_t i = in.first; i < in.end; ++i) {
        struct call next;
        if (!is_function(code, i, function) || !call_read(code, i, in.first, &next))
            continue;
        if (found == 0)
            *call = next;
        ++found;
        i = next.close;
    }
    return found == 1;
}
