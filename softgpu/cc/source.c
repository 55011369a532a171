/*
 * source.c - see source.h.
 */
#include "source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const keyword_table[] = {
    "__host__",    "__device__",        "__global__",  "__shared__", "__constant__",
    "__managed__", "__grid_constant__", "__nv_pure__", NULL,
};

const char *const keyword_call_table[] = {
    "__launch_bounds__", "__cluster_dims__", "__block_size__", "__maxnreg__", "__local_maxnreg__", NULL,
};

/* ---- edits ---- */

void
source_close(struct source *source)
{
    for (uint32_t i = 0; i <= source->lexed.count; ++i) {
        free(source->edits[i].before);
        free(source->edits[i].after);
    }
    free(source->edits);
    free(source->functions);
    lexed_free(&source->lexed);
}

static void
add(char **place, bool in_front, const char *format, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, format, args) < 0) {
        complain("out of memory");
        exit(EXIT_FAILURE);
    }
    if (*place != NULL) {
        char *both = in_front ? text_format("%s%s", text, *place) : text_format("%s%s", *place, text);
        free(*place);
        free(text);
        text = both;
    }
    *place = text;
}

void
source_before(struct source *source, uint32_t i, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(&source->edits[i].before, false, format, args);
    va_end(args);
}

void
source_before_all(struct source *source, uint32_t i, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(&source->edits[i].before, true, format, args);
    va_end(args);
}

void
source_after(struct source *source, uint32_t i, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(&source->edits[i].after, false, format, args);
    va_end(args);
}

void
source_drop(struct source *source, uint32_t i)
{
    source->edits[i].drop = true;
}

void
source_drop_range(struct source *source, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; ++i)
        source_drop(source, i);
}

void
source_error(struct source *source, uint32_t i, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = NULL;
    if (vasprintf(&text, format, args) >= 0)
        token_complain(&source->lexed, i, "%s", text);
    free(text);
    va_end(args);
    source->failed = true;
}

/* ---- reading tokens ---- */

bool
source_same_word(const struct source *source, uint32_t a, uint32_t b)
{
    const struct token *x = &source->lexed.tokens[a], *y = &source->lexed.tokens[b];
    return x->kind == TOKEN_WORD && y->kind == TOKEN_WORD && x->length == y->length &&
           memcmp(source->lexed.text + x->begin, source->lexed.text + y->begin, x->length) == 0;
}

bool
source_is_one_of(const struct source *source, uint32_t i, const char *const *table)
{
    for (; *table != NULL; ++table) {
        if (source_is(source, i, *table))
            return true;
    }
    return false;
}

char *
source_spell(const struct source *source, uint32_t from, uint32_t to)
{
    struct text text = {0};
    text_append(&text, "", 0);
    for (uint32_t i = from; i < to; ++i) {
        const struct token *token = &source->lexed.tokens[i];
        const bool apart = i > from && token->begin != token[-1].begin + token[-1].length;
        if (apart)
            text_append(&text, " ", 1);
        text_append(&text, source->lexed.text + token->begin, token->length);
    }
    return text.data;
}

uint32_t
source_next(const struct source *source, uint32_t i)
{
    const struct token *token = &source->lexed.tokens[i];
    return token->match > i ? token->match + 1 : i + 1;
}

uint32_t
source_skip_angles(const struct source *source, uint32_t i, uint32_t end)
{
    uint32_t depth = 0;
    for (; i < end; i = source_next(source, i)) {
        if (source_is(source, i, "<"))
            ++depth;
        else if (source_is(source, i, ">") && --depth == 0)
            return i + 1;
        else if (source_is(source, i, ";"))
            return end;
    }
    return end;
}

uint32_t
source_open_angle(const struct source *source, uint32_t i, uint32_t begin)
{
    uint32_t depth = 0;
    for (uint32_t k = i;; --k) {
        const struct token *token = &source->lexed.tokens[k];
        if (source_is(source, k, ">"))
            ++depth;
        else if (source_is(source, k, "<") && --depth == 0)
            return k;
        else if (source_is(source, k, ";") || source_is(source, k, "{") || source_is(source, k, "("))
            return i;
        else if (token->kind == TOKEN_SIGN && token->match != 0 && token->match < k)
            k = token->match;
        if (k <= begin)
            return i;
    }
}

uint32_t
source_skip_attribute(const struct source *source, uint32_t i)
{
    static const char *const with_group[] = {"__attribute__",    "__attribute",    "alignas",     "_Alignas",
                                             "__declspec",       "noexcept",       "throw",       "decltype",
                                             "__typeof__",       "explicit",       "requires",    "__launch_bounds__",
                                             "__cluster_dims__", "__block_size__", "__maxnreg__", NULL};
    if (source_is_one_of(source, i, with_group) && source_is(source, i + 1, "("))
        return source_next(source, i + 1);
    if (source_is(source, i, "[") && source_is(source, i + 1, "["))
        return source_next(source, i);
    return i;
}

/* Words that are part of a type but never a declared name. */
static const char *const type_words[] = {
    "void",        "bool",
    "char",        "short",
    "int",         "long",
    "float",       "double",
    "signed",      "unsigned",
    "wchar_t",     "char8_t",
    "char16_t",    "char32_t",
    "auto",        "const",
    "volatile",    "__restrict__",
    "__restrict",  "restrict",
    "struct",      "class",
    "union",       "enum",
    "typename",    "static",
    "extern",      "inline",
    "register",    "constexpr",
    "mutable",     "thread_local",
    "__int128",    "__shared__",
    "__device__",  "__constant__",
    "__managed__", "__grid_constant__",
    "__host__",    "_Bool",
    NULL,
};

/* Of those, the ones that say nothing of the type: after them a lone word is still the type. */
static const char *const qualifier_words[] = {
    "const",      "volatile",     "__restrict__", "__restrict",        "restrict",     "struct",
    "class",      "union",        "enum",         "typename",          "static",       "extern",
    "inline",     "register",     "constexpr",    "mutable",           "thread_local", "__shared__",
    "__device__", "__constant__", "__managed__",  "__grid_constant__", "__host__",     NULL,
};

/* Whether tokens from..to contain something that can be a type. */
static bool
has_type(const struct source *source, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; ++i) {
        const uint32_t behind = source_skip_attribute(source, i);
        if (behind > i) {
            if (source_is(source, i, "decltype") || source_is(source, i, "__typeof__"))
                return true;
            i = behind - 1;
        } else if (source_is(source, i, "*") || source_is(source, i, "&") || source_is(source, i, ">")) {
            return true;
        } else if (source_is_word(source, i) && !source_is_one_of(source, i, qualifier_words)) {
            return true;
        }
    }
    return false;
}

/* Whether the '{' at i opens the members of a class that is declared on the way: `union {`, `struct S {`. */
static bool
opens_members(const struct source *source, uint32_t from, uint32_t i)
{
    static const char *const keys[] = {"struct", "class", "union", NULL};
    uint32_t key = from;
    while (key < i && !source_is_one_of(source, key, keys))
        key = source_next(source, key);
    uint32_t words = 0;
    for (uint32_t k = key + 1; k < i;) {
        const uint32_t behind = source_skip_attribute(source, k);
        words += behind == k;
        k = behind == k ? source_next(source, k) : behind;
    }
    return key < i && words <= 1; /* `struct S x{1}` is a variable and its value */
}

uint32_t
source_declared_name(const struct source *source, uint32_t from, uint32_t to, uint32_t *insert_p)
{
    uint32_t end = to;
    /* From the front: a group that holds a declarator, as in `void (*f)(int)`; the end of the declarator: '=' or ':'.
     */
    for (uint32_t i = from; i < to;) {
        const uint32_t behind = source_skip_attribute(source, i);
        if (behind > i) {
            i = behind;
            continue;
        }
        if (source_is(source, i, "<")) {
            i = source_skip_angles(source, i, to);
            continue;
        }
        if (source_is(source, i, "{") && opens_members(source, from, i)) {
            i = source_next(source, i);
            continue;
        }
        if (source_is(source, i, "=") || source_is(source, i, ":") || source_is(source, i, "{")) {
            end = i;
            break;
        }
        if (source_is(source, i, "(")) {
            uint32_t inside = i + 1;
            while (source_is_word(source, inside) && source_is(source, inside + 1, "::"))
                inside += 2; /* T::*member */
            if (source_is(source, inside, "*") || source_is(source, inside, "&") || source_is(source, inside, "&&")) {
                const uint32_t close = source->lexed.tokens[i].match;
                const uint32_t name = source_declared_name(source, inside, close, insert_p);
                return name == close ? to : name;
            }
            end = i;
            break;
        }
        i = source_next(source, i);
    }

    /* From the back: past array bounds and attributes. */
    uint32_t last = end;
    while (last > from) {
        const struct token *token = &source->lexed.tokens[last - 1];
        if (source_is(source, last - 1, "]")) {
            last = token->match;
        } else if (source_is(source, last - 1, ")") && token->match > from &&
                   source_skip_attribute(source, token->match - 1) > token->match - 1) {
            last = token->match - 1;
        } else {
            break;
        }
    }
    *insert_p = last;
    if (last == from)
        return to;
    const uint32_t name = last - 1;
    if (!source_is_word(source, name) || source_is_one_of(source, name, type_words))
        return to;
    /* ns::T is a type. */
    if (name > from && source_is(source, name - 1, "::"))
        return to;
    return has_type(source, from, name) ? name : to;
}

uint32_t
source_piece_end(const struct source *source, uint32_t from, uint32_t to)
{
    bool in_value = false;
    for (uint32_t i = from; i < to;) {
        if (source_is(source, i, ","))
            return i;
        if (source_is(source, i, "="))
            in_value = true;
        if (source_is(source, i, "<")) {
            /* In a type, template arguments; in a value perhaps a comparison, which no '>' closes. */
            const uint32_t behind = source_skip_angles(source, i, to);
            if (!in_value || behind < to) {
                i = behind;
                continue;
            }
        }
        i = source_next(source, i);
    }
    return to;
}

uint32_t
source_enclosing(const struct source *source, uint32_t i)
{
    while (i-- > 0) {
        if (source_is(source, i, "(") || source_is(source, i, "[") || source_is(source, i, "{"))
            return i;
        if (source_is(source, i, ")") || source_is(source, i, "]") || source_is(source, i, "}"))
            i = source->lexed.tokens[i].match;
    }
    return source->lexed.count;
}

uint32_t
source_postfix_begin(const struct source *source, uint32_t end)
{
    uint32_t i = end; /* first token of what is certain to belong to it */
    for (;;) {
        uint32_t k = i - 1;
        if (source_is(source, k, ">"))
            k = source_open_angle(source, k, 0) - 1;
        while (source_is(source, k, ")") || source_is(source, k, "]")) {
            const uint32_t open = source->lexed.tokens[k].match;
            const bool callee_before =
                open > 0 && (source_is_word(source, open - 1) || source_is(source, open - 1, ")") ||
                             source_is(source, open - 1, "]"));
            static const char *const not_callees[] = {"return", "else", "do",     "case", "if",
                                                      "while",  "for",  "switch", NULL};
            if (!callee_before || source_is_one_of(source, open - 1, not_callees) ||
                (source_is(source, open - 1, ")") && source_is(source, k, ")"))) {
                k = open;
                break;
            }
            k = open - 1;
        }
        i = k;
        if (i == 0)
            return i;
        if (source_is(source, i - 1, "::")) {
            --i;
            const bool has_scope = i > 0 && ((source_is_word(source, i - 1) && !source_is(source, i - 1, "return")) ||
                                             source_is(source, i - 1, ">"));
            if (!has_scope)
                return i;
        } else if (source_is(source, i - 1, ".") || source_is(source, i - 1, "->") ||
                   source_is(source, i - 1, "template")) {
            --i;
            if (source_is(source, i, "template") && i > 0 &&
                (source_is(source, i - 1, ".") || source_is(source, i - 1, "->") || source_is(source, i - 1, "::")))
                --i;
        } else {
            return i;
        }
    }
}

bool
source_is_lambda(const struct source *source, uint32_t i)
{
    static const char *const words_before[] = {"return", "case", "else", "do", "co_return", NULL};
    if (!source_is(source, i, "[") || source_is(source, i + 1, "[") || i == 0)
        return false;
    const struct token *previous = &source->lexed.tokens[i - 1];
    if (previous->kind == TOKEN_STRING || previous->kind == TOKEN_NUMBER || source_is(source, i - 1, ")") ||
        source_is(source, i - 1, "]") || source_is(source, i - 1, "["))
        return false;
    if (previous->kind == TOKEN_WORD && !source_is_one_of(source, i - 1, words_before))
        return false;
    const uint32_t behind = source->lexed.tokens[i].match + 1;
    return source_is(source, behind, "(") || source_is(source, behind, "{") || source_is(source, behind, "<") ||
           source_is(source, behind, "__device__") || source_is(source, behind, "__host__") ||
           source_is(source, behind, "mutable");
}

uint32_t
source_lambda_body(const struct source *source, uint32_t i)
{
    for (uint32_t k = source->lexed.tokens[i].match + 1; k < source->lexed.count; k = source_next(source, k)) {
        if (source_is(source, k, "{"))
            return k;
        if (source_is(source, k, ";"))
            break;
    }
    return i;
}
