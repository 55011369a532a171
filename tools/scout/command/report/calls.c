/* calls.c - see lines.h. */
#include "tools/scout/command/report/lines.h"

#include <ctype.h>
#include <string.h>

/* ---- texts ---- */

bool
call_copy_span(const char *text, struct span span, char to[LIFT_BYTES])
{
    size_t length = 0, at = source_skip(text, span.begin), last = at;
    while (at < span.end) {
        size_t end = source_token(text, at);
        if (length + (end - at) + 2 > LIFT_BYTES)
            return false;
        if (at > last)
            to[length++] = ' ';
        memcpy(to + length, text + at, end - at);
        length += end - at;
        last = end;
        at = source_skip(text, end);
    }
    to[length] = '\0';
    return true;
}

bool
call_is_word(const char *text, struct span span, const char *word, size_t length)
{
    return span.end - span.begin == length && strncmp(text + span.begin, word, length) == 0;
}

bool
call_is_primary(const char *expression)
{
    size_t at = 0;
    while (expression[at] != '\0') {
        if (strchr("([", expression[at]) != NULL && at > 0)
            at = source_close(expression, at);
        else if (source_is_word(expression[at]) || strchr(".:", expression[at]) != NULL)
            ++at;
        else if (strncmp(expression + at, "->", 2) == 0)
            at += 2;
        else
            return false;
    }
    return true;
}

size_t
call_begin_of_postfix(const char *text, size_t begin, size_t end)
{
    while (end > begin) {
        size_t at = end;
        while (at > begin && isspace((unsigned char)text[at - 1]))
            --at;
        if (at > begin && strchr(")]", text[at - 1]) != NULL) {
            int depth = 0;
            do {
                --at;
                depth += strchr(")]", text[at]) != NULL;
                depth -= strchr("([", text[at]) != NULL;
            } while (at > begin && depth > 0);
            end = at;
            continue;
        }
        while (at > begin && source_is_word(text[at - 1]))
            --at;
        size_t link = at;
        while (link > begin && isspace((unsigned char)text[link - 1]))
            --link;
        if (link > begin + 1 && text[link - 1] == '>' && text[link - 2] == '-')
            end = link - 2;
        else if (link > begin && text[link - 1] == '.')
            end = link - 1;
        else if (link > begin + 1 && text[link - 1] == ':' && text[link - 2] == ':')
            end = link - 2;
        else
            return at;
    }
    return begin;
}

/* ---- calls ---- */

static void
split_arguments(const char *text, size_t open, struct call *call)
{
    size_t end = source_close(text, open), begin = open + 1;
    call->count = 0;
    for (size_t at = source_skip(text, begin); at < end && call->count < ARGUMENTS_AT_MOST;) {
        if (text[at] == ',' || at == end - 1) {
            if (at > source_skip(text, begin))
                call->arguments[call->count++] = (struct span){begin, at};
            begin = at + 1;
        }
        bool opens = strchr("([{", text[at]) != NULL && text[at] != '\0';
        at = source_skip(text, opens ? source_close(text, at) : source_token(text, at));
    }
}

/* In front of a name: "x." or "p->"; empty: neither. */
static struct span
object_before(const char *text, size_t begin, size_t name)
{
    size_t end = name;
    while (end > begin && isspace((unsigned char)text[end - 1]))
        --end;
    bool is_arrow = end > begin + 1 && text[end - 1] == '>' && text[end - 2] == '-';
    if (!is_arrow && !(end > begin && text[end - 1] == '.'))
        return (struct span){name, name};
    return (struct span){call_begin_of_postfix(text, begin, end - (is_arrow ? 2 : 1)), end};
}

/* Of several calls the one around `place` counts. */
struct choice {
    size_t place;
    unsigned found;
    bool has_place;
    struct call *call;
};

/* A call whose name is at `begin`, and whose arguments begin at `open`. */
static void
choose(const char *text, size_t begin, size_t open, struct span object, bool makes, struct choice *choice)
{
    bool is_there = begin <= choice->place && choice->place < source_close(text, open);
    ++choice->found;
    if (choice->has_place || (choice->found > 1 && !is_there))
        return;
    choice->has_place = is_there;
    *choice->call = (struct call){.name = {begin, begin}, .object = object, .makes = makes};
    split_arguments(text, open, choice->call);
}

/* What a declaration makes: "a(1), b{2}". */
static void
choose_declarators(const char *text, size_t at, size_t end, struct choice *choice)
{
    while (at < end && source_is_word(text[at])) {
        struct span object = {at, source_token(text, at)};
        at = source_skip(text, object.end);
        if (text[at] == '(' || text[at] == '{') {
            choose(text, object.begin, at, object, true, choice);
            at = source_skip(text, source_close(text, at));
        }
        if (text[at] != ',')
            return;
        at = source_skip(text, at + 1);
    }
}

static bool
is_behind_new(const char *text, size_t begin, size_t at)
{
    while (at > begin && isspace((unsigned char)text[at - 1]))
        --at;
    return at >= begin + 3 && strncmp(text + at - 3, "new", 3) == 0 &&
           (at == begin + 3 || !source_is_word(text[at - 4]));
}

bool
call_find(const char *text, struct span in, const char *name, bool makes, size_t place, struct call *call)
{
    struct choice choice = {.place = place, .call = call};
    size_t length = strcspn(name, "<");
    for (size_t at = source_skip(text, in.begin), end; at < in.end; at = source_skip(text, end)) {
        end = source_token(text, at);
        if (!call_is_word(text, (struct span){at, end}, name, length))
            continue;
        size_t open = source_skip_angles(text, source_skip(text, end), in.end);
        if (makes)
            choose_declarators(text, open, in.end, &choice);
        else if (text[open] == '(')
            choose(text, at, open, object_before(text, in.begin, at), is_behind_new(text, in.begin, at), &choice);
    }
    return choice.has_place || choice.found == 1;
}

bool
call_find_member(const struct source *source, struct span in, int line, struct call *call)
{
    const char *text = source->text;
    unsigned found = 0;
    bool is_list = false;
    for (size_t at = source_skip(text, in.begin), end; at < in.end; at = source_skip(text, end)) {
        bool opens = strchr("({", text[at]) != NULL;
        end = opens ? source_close(text, at) : source_token(text, at);
        is_list = is_list || (text[at] == ':' && text[at + 1] != ':' && (at == 0 || text[at - 1] != ':'));
        size_t open = source_skip(text, end);
        if (!is_list || !source_is_word(text[at]) || strchr("({", text[open]) == NULL ||
            source_line(source, at) != line)
            continue;
        ++found;
        *call = (struct call){.name = {at, at}, .object = {at, end}, .makes = true};
        split_arguments(text, open, call);
    }
    return found == 1;
}

struct span
call_own_part(const struct source *source, uint32_t node)
{
    struct span span = {source->nodes[node].begin, source->nodes[node].end};
    if (node + 1 < source->count && source->nodes[node + 1].begin < span.end)
        span.end = source->nodes[node + 1].begin;
    return span;
}
