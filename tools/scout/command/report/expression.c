/* expression.c - see expression.h. */
#include "tools/scout/command/report/expression.h"

#include "base/assertion.h"

bool
expression_copy(const struct code *code, struct token_range tokens, char to[LIFT_BYTES])
{
    size_t length = 0;
    for (uint32_t i = tokens.first; i < tokens.end; ++i) {
        const struct token *token = &code->tokens[i];
        const bool is_apart = i > tokens.first && token->begin > token_end(code, i - 1);
        if (length + token->length + 2 > LIFT_BYTES)
            return false;
        if (is_apart)
            to[length++] = ' ';
        memcpy(to + length, code->text + token->begin, token->length);
        length += token->length;
    }
    to[length] = '\0';
    return true;
}

struct code
expression_read(const char *text)
{
    struct code code;
    const bool is_read = code_read(text, strlen(text), &code);
    ASSERT(is_read); /* it is shorter than 4 GiB */
    return code;
}

bool
expression_is_primary(const char *expression)
{
    static const char *const links[] = {".", "->", "::", NULL};
    struct code code = expression_read(expression);
    bool is_primary = true;
    for (uint32_t i = 0, next; i < code.count && is_primary; i = next) {
        const bool opens = i > 0 && (token_is(&code, i, "(") || token_is(&code, i, "["));
        const bool is_word = token_is_word(&code, i) || code.tokens[i].kind == TOKEN_NUMBER;
        const bool is_apart = i > 0 && code.tokens[i].begin > token_end(&code, i - 1);
        next = opens ? token_next(&code, i) : i + 1;
        is_primary = !is_apart && (opens || is_word || token_is_one_of(&code, i, links));
    }
    code_free(&code);
    return is_primary;
}

/* Types and casts of the language, which are the same everywhere. */
static const char *const types[] = {
    "float",       "double",           "int",        "char", "short", "long", "unsigned", "signed", "bool", "size_t",
    "static_cast", "reinterpret_cast", "const_cast", NULL,
};

bool
expression_next_name(const struct code *code, uint32_t *i)
{
    static const char *const links[] = {".", "->", "::", NULL};
    for (; *i < code->count; ++*i) {
        const bool is_member = *i > 0 && token_is_one_of(code, *i - 1, links);
        const bool has_arguments = token_is(code, *i + 1, "(") && !token_is(code, *i + 2, ")");
        const bool is_scope = token_is(code, *i + 1, "::");
        if (!token_is_word(code, *i) || is_member || has_arguments || is_scope)
            continue;
        if (!token_is_one_of(code, *i, types))
            return true;
    }
    return false;
}

bool
expression_has(const struct code *code, struct token_range tokens, const char *spelling)
{
    return ANY_NUMBER(i, tokens.first, tokens.end, token_is(code, i, spelling));
}

bool
expression_assigned(const struct code *code, struct token_range statement, struct token_range *value)
{
    for (uint32_t i = statement.first; i < statement.end; ++i) {
        if (!token_is(code, i, "="))
            continue;
        *value = (struct token_range){i + 1, statement.end - 1};
        return true;
    }
    return false;
}

/* Whether a method that is called of the name at token i gives it other elements, or another pointer. */
static bool
calls_changing_method(const struct code *code, uint32_t i)
{
    static const char *const methods[] = {
        "assign",    "clear",   "emplace", "emplace_back", "erase", "insert", "pop_back",
        "push_back", "release", "reset",   "resize",       "swap",  NULL,
    };
    const bool is_object = token_is(code, i + 1, ".") || token_is(code, i + 1, "->");
    return is_object && token_is_one_of(code, i + 2, methods) && token_is(code, i + 3, "(");
}

bool
expression_sets(const struct code *code, struct token_range tokens, const char *name, size_t length)
{
    static const char *const assignments[] = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "++", "--", NULL};
    static const char *const changes[] = {"++", "--", NULL};
    static const char *const parts[] = {".", "[", "->", NULL};
    static const char *const before[] = {".", "->", ">", NULL}; /* of another object, or declared */
    for (uint32_t i = tokens.first; i < tokens.end; ++i) {
        if (!token_is_text(code, i, name, length))
            continue;
        const bool is_moved = i > 1 && token_is(code, i - 1, "(") && token_is(code, i - 2, "move");
        if (is_moved || calls_changing_method(code, i))
            return true;
        if (token_is_one_of(code, i + 1, assignments) && (i == 0 || !token_is_one_of(code, i - 1, before)))
            return true;
        const bool has_address = i > 0 && token_is(code, i - 1, "&") && !token_is_one_of(code, i + 1, parts);
        if (has_address || (i > 0 && token_is_one_of(code, i - 1, changes)))
            return true;
    }
    return false;
}
