/*
 * walk.c - see walk.h.
 */
#include "text/walk.h"

uint32_t
token_skip_angles(const struct code *code, uint32_t i, uint32_t end)
{
    uint32_t depth = 0;
    for (; i < end; i = token_next(code, i)) {
        if (token_is(code, i, "<"))
            ++depth;
        else if (token_is(code, i, ">") && --depth == 0)
            return i + 1;
        else if (token_is(code, i, ";"))
            return end;
    }
    return end;
}

uint32_t
token_open_angle(const struct code *code, uint32_t i, uint32_t begin)
{
    uint32_t depth = 0;
    for (uint32_t k = i;; --k) {
        const struct token *token = &code->tokens[k];
        if (token_is(code, k, ">"))
            ++depth;
        else if (token_is(code, k, "<") && --depth == 0)
            return k;
        else if (token_is(code, k, ";") || token_is(code, k, "{") || token_is(code, k, "("))
            return i;
        else if (token->kind == TOKEN_SIGN && token->match != 0 && token->match < k)
            k = token->match;
        if (k <= begin)
            return i;
    }
}

uint32_t
token_skip_template(const struct code *code, uint32_t i, uint32_t end)
{
    if (!token_is(code, i, "template"))
        return i;
    return token_is(code, i + 1, "<") ? token_skip_angles(code, i + 1, end) : i + 1;
}

uint32_t
token_skip_attribute(const struct code *code, uint32_t i)
{
    static const char *const with_group[] = {"__attribute__",    "__attribute",    "alignas",     "_Alignas",
                                             "__declspec",       "noexcept",       "throw",       "decltype",
                                             "__typeof__",       "explicit",       "requires",    "__launch_bounds__",
                                             "__cluster_dims__", "__block_size__", "__maxnreg__", NULL};
    if (token_is_one_of(code, i, with_group) && token_is(code, i + 1, "("))
        return token_next(code, i + 1);
    if (token_is(code, i, "[") && token_is(code, i + 1, "["))
        return token_next(code, i);
    return i;
}

uint32_t
token_postfix_begin(const struct code *code, uint32_t end)
{
    uint32_t i = end; /* first token of what is certain to belong to it */
    for (;;) {
        uint32_t k = i - 1;
        if (token_is(code, k, ">"))
            k = token_open_angle(code, k, 0) - 1;
        while (token_is(code, k, ")") || token_is(code, k, "]")) {
            const uint32_t open = code->tokens[k].match;
            const bool callee_before = open > 0 && (token_is_word(code, open - 1) || token_is(code, open - 1, ")") ||
                                                    token_is(code, open - 1, "]"));
            static const char *const not_callees[] = {"return", "else", "do",     "case", "if",
                                                      "while",  "for",  "switch", NULL};
            if (!callee_before || token_is_one_of(code, open - 1, not_callees) ||
                (token_is(code, open - 1, ")") && token_is(code, k, ")"))) {
                k = open;
                break;
            }
            k = open - 1;
        }
        i = k;
        if (i == 0)
            return i;
        if (token_is(code, i - 1, "::")) {
            --i;
            const bool has_scope = i > 0 && ((token_is_word(code, i - 1) && !token_is(code, i - 1, "return")) ||
                                             token_is(code, i - 1, ">"));
            if (!has_scope)
                return i;
        } else if (token_is(code, i - 1, ".") || token_is(code, i - 1, "->") || token_is(code, i - 1, "template")) {
            --i;
            if (token_is(code, i, "template") && i > 0 &&
                (token_is(code, i - 1, ".") || token_is(code, i - 1, "->") || token_is(code, i - 1, "::")))
                --i;
        } else {
            return i;
        }
    }
}

bool
token_is_lambda(const struct code *code, uint32_t i)
{
    static const char *const words_before[] = {"return", "case", "else", "do", "co_return", NULL};
    if (!token_is(code, i, "[") || token_is(code, i + 1, "[") || i == 0)
        return false;
    const struct token *previous = &code->tokens[i - 1];
    if (previous->kind == TOKEN_STRING || previous->kind == TOKEN_NUMBER || token_is(code, i - 1, ")") ||
        token_is(code, i - 1, "]") || token_is(code, i - 1, "["))
        return false;
    if (previous->kind == TOKEN_WORD && !token_is_one_of(code, i - 1, words_before))
        return false;
    const uint32_t behind = code->tokens[i].match + 1;
    return token_is(code, behind, "(") || token_is(code, behind, "{") || token_is(code, behind, "<") ||
           token_is(code, behind, "__device__") || token_is(code, behind, "__host__") ||
           token_is(code, behind, "mutable");
}

uint32_t
token_lambda_body(const struct code *code, uint32_t i)
{
    for (uint32_t k = code->tokens[i].match + 1; k < code->count; k = token_next(code, k)) {
        if (token_is(code, k, "{"))
            return k;
        if (token_is(code, k, ";"))
            break;
    }
    return i;
}
