/*
 * statements.c - see statements.h.
 */
#include "text/statements.h"

#include "text/memory.h"
#include "text/walk.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH_AT_MOST = 200 }; /* of statements inside each other: beyond it the rest of the file is one */

struct parser {
    const struct code *code;
    struct statements *out;
    uint32_t capacity;
};

static uint32_t
add(struct parser *parser, uint32_t first, uint32_t parent)
{
    struct statements *out = parser->out;
    if (out->count == parser->capacity) {
        parser->capacity = 2 * (parser->capacity + 64);
        out->list = memory_grow(out->list, parser->capacity * sizeof(*out->list));
    }
    out->list[out->count] = (struct statement){.tokens = {first, first}, .parent = parent};
    return out->count++;
}

static uint32_t parse_statement(struct parser *parser, uint32_t i, uint32_t parent, int depth);

/* From the { on. */
static uint32_t
parse_block(struct parser *parser, uint32_t i, uint32_t parent, int depth)
{
    const struct code *code = parser->code;
    const uint32_t block = add(parser, i, parent);
    parser->out->list[block].is_block = true;
    ++i;
    while (i < code->count && !token_is(code, i, "}"))
        i = parse_statement(parser, i, block, depth + 1);
    i += i < code->count;
    parser->out->list[block].tokens.end = i;
    return i;
}

/* Whether a statement may go on with token i after a block in it: "= {1, 2};", "f([&] { ... });". */
static bool
goes_on(const struct code *code, uint32_t i)
{
    return i == code->count || strchr(";,)]({.", code->text[code->tokens[i].begin]) != NULL;
}

/* A declaration, an expression, a function, a class: up to its semicolon, or to the block that ends it. */
static uint32_t
parse_plain(struct parser *parser, uint32_t i, uint32_t statement, int depth)
{
    const struct code *code = parser->code;
    uint32_t brackets = 0;
    while (i < code->count) {
        if (brackets == 0 && token_is(code, i, "}"))
            return i;
        if (brackets == 0 && token_is(code, i, ";"))
            return i + 1;
        if (token_is(code, i, "{")) {
            i = parse_block(parser, i, statement, depth);
            if (brackets == 0 && !goes_on(code, i))
                return i;
            continue;
        }
        const bool opens = token_is(code, i, "(") || token_is(code, i, "[");
        const bool closes = token_is(code, i, ")") || token_is(code, i, "]");
        brackets += opens;
        brackets -= closes && brackets > 0;
        ++i;
    }
    return i;
}

/* Behind "case 3:", "public:", "default:". */
static uint32_t
parse_label(const struct code *code, uint32_t i)
{
    for (; i < code->count; ++i) {
        if (token_is(code, i, ":"))
            return i + 1;
        if (token_is(code, i, ";") || token_is(code, i, "}"))
            return i;
    }
    return i;
}

/* Behind "if (...)", "for (...)". */
static uint32_t
parse_head(const struct code *code, uint32_t i)
{
    ++i;
    i += token_is(code, i, "constexpr");
    return token_is(code, i, "(") ? token_next(code, i) : i;
}

static bool
is_in_capitals(const struct code *code, uint32_t i)
{
    const struct token *token = &code->tokens[i];
    static const char capitals[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    return token->kind == TOKEN_WORD && strspn(code->text + token->begin, capitals) >= token->length;
}

/* Behind "CREATE(w)" without a semicolon, which a macro's text has: the next line is another statement. i: it is none.
 */
static uint32_t
parse_macro(const struct code *code, uint32_t i)
{
    if (!is_in_capitals(code, i) || !token_is(code, i + 1, "(") || code->tokens[i + 1].begin != token_end(code, i))
        return i;
    const uint32_t next = token_next(code, i + 1);
    const bool is_word = code->tokens[next].kind == TOKEN_WORD || code->tokens[next].kind == TOKEN_NUMBER;
    return is_word && code->tokens[next].line > code->tokens[next - 1].line ? next : i;
}

static uint32_t
parse_if(struct parser *parser, uint32_t i, uint32_t statement, int depth)
{
    const struct code *code = parser->code;
    const bool is_if = token_is(code, i, "if");
    i = parse_statement(parser, parse_head(code, i), statement, depth + 1);
    if (is_if && token_is(code, i, "else"))
        i = parse_statement(parser, i + 1, statement, depth + 1);
    return i;
}

static uint32_t
parse_statement(struct parser *parser, uint32_t i, uint32_t parent, int depth)
{
    static const char *const heads[] = {"if", "for", "while", "switch", "catch", NULL};
    static const char *const loops[] = {"for", "while", "do", NULL};
    static const char *const bare[] = {"else", "do", "try", NULL};
    static const char *const labels[] = {"case", "default", "public", "private", "protected", NULL};
    const struct code *code = parser->code;
    if (depth >= DEPTH_AT_MOST)
        return code->count;
    if (token_is(code, i, "{"))
        return parse_block(parser, i, parent, depth);

    const uint32_t statement = add(parser, i, parent);
    parser->out->list[statement].is_loop = token_is_one_of(code, i, loops);
    if (token_is_one_of(code, i, heads)) {
        i = parse_if(parser, i, statement, depth);
    } else if (token_is_one_of(code, i, bare)) {
        const bool is_do = token_is(code, i, "do");
        i = parse_statement(parser, i + 1, statement, depth + 1);
        if (is_do)
            i = parse_plain(parser, i, statement, depth);
    } else if (token_is_one_of(code, i, labels)) {
        i = parse_label(code, i);
    } else {
        const uint32_t end = parse_macro(code, i);
        i = end > i ? end : parse_plain(parser, i, statement, depth);
    }
    parser->out->list[statement].tokens.end = i;
    return i;
}

void
statements_read(const struct code *code, struct statements *statements)
{
    *statements = (struct statements){.code = code};
    struct parser parser = {.code = code, .out = statements};
    for (uint32_t i = 0; i < code->count;)
        i = token_is(code, i, "}") ? i + 1 : parse_statement(&parser, i, STATEMENT_NONE, 0);
}

void
statements_free(struct statements *statements)
{
    free(statements->list);
    *statements = (struct statements){0};
}

uint32_t
statement_at(const struct statements *statements, uint32_t token)
{
    uint32_t found = STATEMENT_NONE;
    for (uint32_t s = 0; s < statements->count && statements->list[s].tokens.first <= token; ++s) {
        if (!statements->list[s].is_block && token < statements->list[s].tokens.end)
            found = s;
    }
    return found;
}

uint32_t
statement_block(const struct statements *statements, uint32_t statement)
{
    const struct statement *list = statements->list;
    const uint32_t end = list[statement].tokens.end;
    uint32_t found = STATEMENT_NONE;
    for (uint32_t s = statement + 1; s < statements->count && list[s].tokens.first < end; ++s) {
        if (list[s].parent == statement && list[s].is_block)
            found = s;
    }
    return found;
}

static bool
is_function(const struct statements *statements, uint32_t statement)
{
    static const char *const classes[] = {"class", "struct", "union", "namespace", "extern", NULL};
    const struct code *code = statements->code;
    const struct statement *it = &statements->list[statement];
    const uint32_t block = it->is_block ? STATEMENT_NONE : statement_block(statements, statement);
    if (block == STATEMENT_NONE)
        return false;
    const uint32_t body = statements->list[block].tokens.first;
    uint32_t open = it->tokens.first;
    while (open < body && !token_is(code, open, "("))
        ++open;
    return open < body && !token_is_one_of(code, token_skip_template(code, it->tokens.first, it->tokens.end), classes);
}

uint32_t
statement_function(const struct statements *statements, uint32_t statement)
{
    uint32_t outermost = STATEMENT_NONE;
    for (; statement != STATEMENT_NONE; statement = statements->list[statement].parent) {
        if (is_function(statements, statement))
            outermost = statement;
    }
    return outermost;
}

struct token_range
statement_own(const struct statements *statements, uint32_t statement)
{
    const struct token_range all = statements->list[statement].tokens;
    const bool has_next = statement + 1 < statements->count;
    const uint32_t next = has_next ? statements->list[statement + 1].tokens.first : all.end;
    return (struct token_range){all.first, next < all.end ? next : all.end};
}
