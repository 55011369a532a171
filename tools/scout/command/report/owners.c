/* owners.c - see owners.h. */
#include "tools/scout/command/report/owners.h"

#include "softgpu/text/declarations.h"
#include "softgpu/text/walk.h"
#include "tools/scout/command/report/expression.h"

/* ---- constructors ---- */

/* Where the list of members that a constructor makes begins: behind the ':' in the header of a function; the end of
 * the statement: it has none. */
static uint32_t
members_begin(const struct source_node *statement)
{
    const struct code *code = &statement->source->code;
    const struct token_range own = source_own(statement);
    uint32_t i = own.first;
    if (!token_is(code, own.end, "{"))
        return own.end;
    while (i < own.end && !token_is(code, i, ":"))
        i = token_next(code, i);
    return i < own.end ? i + 1 : own.end;
}

static bool
opens(const struct code *code, uint32_t i)
{
    return token_is(code, i, "(") || token_is(code, i, "{");
}

struct token_range
owners_part(const struct source_node *statement, size_t place)
{
    const struct code *code = &statement->source->code;
    const struct token_range own = source_own(statement);
    for (uint32_t i = members_begin(statement); i < own.end; i = token_next(code, i)) {
        if (!token_is_word(code, i) || !opens(code, i + 1))
            continue;
        const uint32_t end = token_next(code, i + 1);
        if (code->tokens[i].begin <= place && place < token_end(code, end - 1))
            return (struct token_range){i, end};
    }
    return own;
}

/* Whether the class around a constructor declares a member of a class. */
static bool
has_member(const struct source_node *constructor, uint32_t name, const char *class_name)
{
    const struct code *code = &constructor->source->code;
    const struct source_node *block = constructor->parent;
    if (block == NULL)
        return false;
    FOR_EACH_INSIDE(node, block) {
        const struct token_range own = source_own(node);
        const size_t length = strcspn(class_name, "<");
        const bool is_of_class = ANY_NUMBER(i, own.first, own.end, token_is_text(code, i, class_name, length));
        if (node->parent != block || !is_of_class)
            continue;
        if (token_declares(code, own, code->text + code->tokens[name].begin, code->tokens[name].length))
            return true;
    }
    return false;
}

/* What may be the one that is looked for. */
struct candidates {
    size_t place;
    struct call *call;
    uint32_t count;
    bool is_here; /* the place is inside one of them */
};

/* Adds the call whose name is token `name`; the one that holds the place that is asked about is kept before all
 * others. */
static void
add_candidate(struct candidates *found, const struct code *code, uint32_t name)
{
    struct call next = {.name = name, .object = {name, name}};
    call_split(code, name + 1, &next);
    const bool is_here = code->tokens[name].begin <= found->place && found->place < token_end(code, next.close);
    ++found->count;
    if (found->count > 1 && !is_here)
        return;
    found->is_here = found->is_here || is_here;
    *found->call = next;
}

/* "Matrix w(rows, 3), v(3, 3);": tokens behind the name of the class. */
static void
add_declared(struct candidates *found, const struct code *code, uint32_t i, uint32_t end)
{
    while (i + 1 < end && token_is_word(code, i) && opens(code, i + 1)) {
        add_candidate(found, code, i);
        i = token_next(code, i + 1);
        if (!token_is(code, i, ","))
            return;
        ++i;
    }
}

bool
owners_find_made(const struct source_node *statement, const char *class_name, size_t place, struct call *call)
{
    const struct code *code = &statement->source->code;
    const struct token_range own = source_own(statement);
    struct candidates found = {.place = place, .call = call};
    for (uint32_t i = own.first; i < own.end; ++i) {
        if (!token_is_text(code, i, class_name, strcspn(class_name, "<")))
            continue;
        const bool has_angles = token_is(code, i + 1, "<");
        add_declared(&found, code, has_angles ? token_skip_angles(code, i + 1, own.end) : i + 1, own.end);
    }
    for (uint32_t i = members_begin(statement); i < own.end; i = token_next(code, i)) {
        if (token_is_word(code, i) && opens(code, i + 1) && has_member(statement, i, class_name))
            add_candidate(&found, code, i);
    }
    return found.is_here || found.count == 1;
}

/* ---- smart pointers ---- */

static const char *const smart_pointers[] = {"unique_ptr", "shared_ptr", NULL};

/* Whether "using NAME = std::unique_ptr<...>;" is in a source. */
static bool
is_alias(const struct code *code, const char *name, size_t length)
{
    for (uint32_t i = 0; i + 3 < code->count; ++i) {
        if (!token_is(code, i, "using") || !token_is_text(code, i + 1, name, length) || !token_is(code, i + 2, "="))
            continue;
        const uint32_t class_name = i + 3 + (token_is(code, i + 3, "std") ? 2 : 0);
        return class_name < code->count && token_is_one_of(code, class_name, smart_pointers);
    }
    return false;
}

bool
owners_take(const struct source *source, struct token_range value, const char *memory)
{
    const struct code *code = &source->code;
    char text[LIFT_BYTES];
    uint32_t name = value.first;
    if (token_is(code, name, "std") && token_is(code, name + 1, "::"))
        name += 2;
    if (name >= value.end || !token_is_word(code, name))
        return false;
    const struct token *token = &code->tokens[name];
    if (!token_is_one_of(code, name, smart_pointers) && !is_alias(code, code->text + token->begin, token->length))
        return false;
    const uint32_t open = token_is(code, name + 1, "<") ? token_skip_angles(code, name + 1, value.end) : name + 1;
    if (open >= value.end || !opens(code, open) || token_next(code, open) != value.end)
        return false;
    struct call call;
    call_split(code, open, &call);
    return call.count > 0 && expression_copy(code, call.arguments[0], text) && strcmp(text, memory) == 0;
}

bool
owners_find_receiver(const struct source_node *statement, const struct call *call, char to[LIFT_BYTES])
{
    const struct code *code = &statement->source->code;
    const struct token_range own = source_own(statement);
    const uint32_t begin = call_name_begin(code, call);
    if (begin < own.first + 2 || !opens(code, begin - 1) || code->tokens[begin - 1].match != call->close + 1)
        return false;
    const uint32_t name = begin - 2;
    for (uint32_t i = members_begin(statement); i < own.end; i = token_next(code, i)) {
        if (i == name)
            return expression_copy(code, (struct token_range){name, name + 1}, to);
    }
    const bool is_added = token_is(code, name, "push_back") && name > own.first + 1 && token_is(code, begin - 1, "(");
    if (!is_added || (!token_is(code, name - 1, ".") && !token_is(code, name - 1, "->")))
        return false;
    char list[LIFT_BYTES];
    const struct token_range object = {token_postfix_begin(code, name - 1), name};
    return object.first >= own.first && expression_copy(code, object, list) &&
           snprintf(to, LIFT_BYTES, "%sback()", list) < LIFT_BYTES;
}
