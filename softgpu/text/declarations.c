/*
 * declarations.c - see declarations.h.
 */
#include "text/declarations.h"

#include "text/walk.h"

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
has_type(const struct code *code, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; ++i) {
        const uint32_t behind = token_skip_attribute(code, i);
        if (behind > i) {
            if (token_is(code, i, "decltype") || token_is(code, i, "__typeof__"))
                return true;
            i = behind - 1;
        } else if (token_is(code, i, "*") || token_is(code, i, "&") || token_is(code, i, ">")) {
            return true;
        } else if (token_is_word(code, i) && !token_is_one_of(code, i, qualifier_words)) {
            return true;
        }
    }
    return false;
}

/* Whether the '{' at i opens the members of a class that is declared on the way: `union {`, `struct S {`. */
static bool
opens_members(const struct code *code, uint32_t from, uint32_t i)
{
    static const char *const keys[] = {"struct", "class", "union", NULL};
    uint32_t key = from;
    while (key < i && !token_is_one_of(code, key, keys))
        key = token_next(code, key);
    uint32_t words = 0;
    for (uint32_t k = key + 1; k < i;) {
        const uint32_t behind = token_skip_attribute(code, k);
        words += behind == k;
        k = behind == k ? token_next(code, k) : behind;
    }
    return key < i && words <= 1; /* `struct S x{1}` is a variable and its value */
}

uint32_t
token_declared_name(const struct code *code, uint32_t from, uint32_t to, uint32_t *insert_p)
{
    uint32_t end = to;
    /* From the front: a group that holds a declarator, as in `void (*f)(int)`; the end of the declarator: '=' or ':'.
     */
    for (uint32_t i = from; i < to;) {
        const uint32_t behind = token_skip_attribute(code, i);
        if (behind > i) {
            i = behind;
            continue;
        }
        if (token_is(code, i, "<")) {
            i = token_skip_angles(code, i, to);
            continue;
        }
        if (token_is(code, i, "{") && opens_members(code, from, i)) {
            i = token_next(code, i);
            continue;
        }
        if (token_is(code, i, "=") || token_is(code, i, ":") || token_is(code, i, "{")) {
            end = i;
            break;
        }
        if (token_is(code, i, "(")) {
            uint32_t inside = i + 1;
            while (token_is_word(code, inside) && token_is(code, inside + 1, "::"))
                inside += 2; /* T::*member */
            if (token_is(code, inside, "*") || token_is(code, inside, "&") || token_is(code, inside, "&&")) {
                const uint32_t close = code->tokens[i].match;
                const uint32_t name = token_declared_name(code, inside, close, insert_p);
                return name == close ? to : name;
            }
            end = i;
            break;
        }
        i = token_next(code, i);
    }

    /* From the back: past array bounds and attributes. */
    uint32_t last = end;
    while (last > from) {
        const struct token *token = &code->tokens[last - 1];
        if (token_is(code, last - 1, "]")) {
            last = token->match;
        } else if (token_is(code, last - 1, ")") && token->match > from &&
                   token_skip_attribute(code, token->match - 1) > token->match - 1) {
            last = token->match - 1;
        } else {
            break;
        }
    }
    *insert_p = last;
    if (last == from)
        return to;
    const uint32_t name = last - 1;
    if (!token_is_word(code, name) || token_is_one_of(code, name, type_words))
        return to;
    /* ns::T is a type. */
    if (name > from && token_is(code, name - 1, "::"))
        return to;
    return has_type(code, from, name) ? name : to;
}

uint32_t
token_piece_end(const struct code *code, uint32_t from, uint32_t to)
{
    bool in_value = false;
    for (uint32_t i = from; i < to;) {
        if (token_is(code, i, ","))
            return i;
        if (token_is(code, i, "="))
            in_value = true;
        if (token_is(code, i, "<")) {
            /* In a type, template arguments; in a value perhaps a comparison, which no '>' closes. */
            const uint32_t behind = token_skip_angles(code, i, to);
            if (!in_value || behind < to) {
                i = behind;
                continue;
            }
        }
        i = token_next(code, i);
    }
    return to;
}

/* How far the declarators of a statement have been read. */
struct declarators {
    bool has_type;      /* a word that may be one was read */
    bool has_name;      /* and a name after it */
    bool is_auto;       /* `auto` is among the words */
    bool is_declarator; /* nothing but types and stars since the begin, or since a comma */
};

/* Whether a name of `auto [a, b]` is this one. */
static bool
binds(const struct code *code, uint32_t open, const char *name, size_t length)
{
    for (uint32_t i = open + 1; i < token_next(code, open); ++i) {
        if (token_is_text(code, i, name, length))
            return true;
    }
    return false;
}

/* Reads a word. Whether it is a name that is declared here. */
static bool
take_word(struct declarators *read, const struct code *code, uint32_t i, uint32_t end)
{
    static const char *const after[] = {"=", ";", ",", "[", "(", "{", ":", NULL};
    read->is_auto = read->is_auto || token_is(code, i, "auto");
    const bool is_last = i + 1 >= end || token_is_one_of(code, i + 1, after);
    if (read->has_type && read->is_declarator && is_last) {
        read->has_name = true;
        return true;
    }
    read->has_type = true;
    return false;
}

bool
token_declares(const struct code *code, struct token_range statement, const char *name, size_t length)
{
    static const char *const no_types[] = {"return", "else", "delete", "new", "goto", "case", "throw", NULL};
    static const char *const between[] = {"*", "&", "&&", ":", "::", NULL};
    struct declarators read = {.is_declarator = true};
    for (uint32_t i = statement.first, next; i < statement.end; i = next) {
        next = token_next(code, i);
        if (token_is_word(code, i)) {
            if (token_is_one_of(code, i, no_types))
                return false;
            if (take_word(&read, code, i, statement.end) && token_is_text(code, i, name, length))
                return true;
        } else if (token_is(code, i, "<") && read.has_type && read.is_declarator) {
            next = token_skip_angles(code, i, statement.end);
        } else if (token_is(code, i, ",")) {
            read.is_declarator = read.has_name;
        } else if (token_is(code, i, "[") && read.is_auto && read.is_declarator && binds(code, i, name, length)) {
            return true;
        } else if (!token_is_one_of(code, i, between)) {
            read.is_declarator = false;
        }
    }
    return false;
}
