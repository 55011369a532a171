/*
 * casts.c - conversions from floating point to integers in device code, which a GPU holds to the range of the type
 * (softgpu/cast.h):
 *
 *     (int)x                 ->   (int)(::softgpu::cast<int>)x
 *     int(x)                 ->   int(::softgpu::cast<int>(x))
 *     static_cast<int>(x)    ->   static_cast<int>(::softgpu::cast<int>(x))
 *     int i = x;             ->   int i = ::softgpu::cast<int>(x);
 *
 * The types of expressions are not known here, so all conversions to what may be an integer go through cast<T>, which
 * passes on what is none. The compiler's own conversions - arguments, results, assignments - are left as they are.
 */
#include "source.h"

#include <stdlib.h>
#include <string.h>

static const char *const integer_words[] = {"int", "unsigned", "signed", "long", "short", "char", NULL};

static const char *const integer_names[] = {"int8_t",    "int16_t",  "int32_t", "int64_t", "uint8_t",   "uint16_t",
                                            "uint32_t",  "uint64_t", "size_t",  "ssize_t", "ptrdiff_t", "intptr_t",
                                            "uintptr_t", "uint",     "ushort",  "ulong",   "uchar",     NULL};

static const char *const other_types[] = {"float",    "double", "bool",   "void", "auto",
                                          "decltype", "half",   "__half", NULL};

static const char *const before_expressions[] = {"return", "case",      "else",  "do",       "and", "or",
                                                 "not",    "co_return", "throw", "co_yield", NULL};

static const char *const no_operands[] = {"threadIdx", "blockIdx", "blockDim", "gridDim", "sizeof",
                                          "and",       "or",       "xor",      "not_eq",  NULL};

/* Whether the word at i is declared there, as a template's parameter or by `using`. */
static bool
is_type_declaration(const struct source *source, uint32_t i)
{
    static const char *const makers[] = {"typename", "class", NULL};
    return source_is(source, i - 1, "using") || (source_is_one_of(source, i - 1, makers) &&
                                                 (source_is(source, i - 2, "<") || source_is(source, i - 2, ",")));
}

/* Whether the word at i is declared there as a value: `int N`, `float (*F)`. */
static bool
is_value_declaration(const struct source *source, uint32_t i)
{
    return source_is_one_of(source, i - 1, integer_words) || source_is_one_of(source, i - 1, integer_names) ||
           source_is_one_of(source, i - 1, other_types) ||
           (source_is(source, i - 1, "*") && source_is(source, i - 2, "("));
}

/* Whether the word at i is a type that may be an integer: of the table, or by its nearest declaration before it. */
static bool
is_integer_name(const struct source *source, uint32_t i)
{
    const struct token *token = &source->code.tokens[i];
    if (source_is_one_of(source, i, integer_names))
        return true;
    const struct name *name = names_find(&source->type_names, source->code.text + token->begin, token->length);
    if (name == NULL)
        return false;
    for (uint32_t k = i; k-- > name->first;) {
        if (!source_same_word(source, k, i) || source->code.tokens[k].is_system)
            continue;
        if (is_type_declaration(source, k))
            return true;
        if (is_value_declaration(source, k))
            return false;
    }
    return false;
}

/* source->type_names: what is declared as a type, with the token that does so first. */
static void
find_type_names(struct source *source)
{
    for (uint32_t i = 2; i < source->code.count; ++i) {
        const struct token *token = &source->code.tokens[i];
        if (token->is_system || token->kind != TOKEN_WORD || !is_type_declaration(source, i))
            continue;
        struct name *name = names_add(&source->type_names, source->code.text + token->begin, token->length);
        name->first = name->first == 0 ? i : name->first;
    }
}

/* Whether from..to are an integer's words, `unsigned long`, or, with is_any_name, any name: `T`, `std::size_t`. */
static bool
may_be_integer(const struct source *source, uint32_t from, uint32_t to, bool is_any_name)
{
    bool has_words = false, has_name = false;
    for (uint32_t i = from; i < to; ++i) {
        if (source_is_one_of(source, i, integer_words))
            has_words = true;
        else if ((source_is_word(source, i) && !source_is_one_of(source, i, other_types)) || source_is(source, i, "::"))
            has_name = true;
        else
            return false;
    }
    return has_words ? !has_name : has_name && (is_any_name || is_integer_name(source, to - 1));
}

/* Whether an operand that begins at i is worth a conversion: numbers without a fraction and built-in indices are not.
 */
static bool
is_operand(const struct source *source, uint32_t i)
{
    static const char *const signs[] = {"-", "+", "!", "~", "*", "&"};
    const struct token *token = &source->code.tokens[i];
    if (token->kind == TOKEN_NUMBER)
        return memchr(source->code.text + token->begin, '.', token->length) != NULL;
    if (source_is_word(source, i))
        return !source_is_one_of(source, i, no_operands) && !source_is_one_of(source, i, keyword_table);
    bool found = source_is(source, i, "(") || source_is(source, i, "::");
    for (size_t k = 0; k < sizeof(signs) / sizeof(signs[0]); ++k)
        found |= source_is(source, i, signs[k]);
    return found;
}

/* Whether an expression can begin at i, by what stands before it: an operator, a word as `return`, a cast. */
static bool
is_expression_place(const struct source *source, uint32_t i)
{
    const struct token *previous = &source->code.tokens[i - 1];
    if (previous->kind == TOKEN_WORD)
        return source_is_one_of(source, i - 1, before_expressions);
    if (source_is(source, i - 1, ")"))
        return previous->match > 0 && previous->match + 1 < i - 1 && is_expression_place(source, previous->match) &&
               (source_is_one_of(source, previous->match + 1, other_types) ||
                may_be_integer(source, previous->match + 1, i - 1, false));
    return previous->kind == TOKEN_SIGN && !source_is(source, i - 1, "]") && !source_is(source, i - 1, "::") &&
           !source_is(source, i - 1, ".") && !source_is(source, i - 1, "->");
}

/* cast<TYPE>( after token `open`, ) before token `close`. */
static void
wrap(struct source *source, uint32_t from, uint32_t to, uint32_t open, uint32_t close)
{
    char *type = source_spell(source, from, to);
    source_after(source, open, " ::softgpu::cast<%s>(", type);
    source_before(source, close, ")");
    free(type);
}

static void
look_at_static_cast(struct source *source, uint32_t i, uint32_t end)
{
    const uint32_t open = source_skip_angles(source, i + 1, end);
    if (source_is(source, i, "static_cast") && source_is(source, open, "(") && is_operand(source, open + 1) &&
        may_be_integer(source, i + 2, open - 1, true))
        wrap(source, i + 2, open - 1, open, source->code.tokens[open].match);
}

/* At a '('. */
static void
look_at_c_cast(struct source *source, uint32_t i)
{
    const uint32_t close = source->code.tokens[i].match;
    if (!may_be_integer(source, i + 1, close, false) || !is_expression_place(source, i) ||
        !is_operand(source, close + 1))
        return;
    char *type = source_spell(source, i + 1, close);
    source_after(source, close, "(::softgpu::cast<%s>)", type);
    free(type);
}

/* Whether tokens i to close are an argument of a template, which is a constant or a type: `S<int(N)>`. */
static bool
is_template_argument(const struct source *source, uint32_t i, uint32_t close)
{
    const uint32_t bracket = source_enclosing(source, i);
    const uint32_t end = bracket < source->code.count ? source->code.tokens[bracket].match : bracket;
    if (!source_is(source, close + 1, ">") && !source_is(source, close + 1, ","))
        return false;
    for (uint32_t k = i; k-- > 0 && k != bracket && !source_is(source, k, ";");) {
        if (source_is(source, k, "<") && source_is_word(source, k - 1) &&
            source_skip_angles(source, k, end) > close + 1 && source_skip_angles(source, k, end) < end)
            return true;
    }
    return false;
}

/* At a word: `int(x)`, but not the declaration `int (x)`, the type `int(float)`, or `int (*f)(int)`. */
static void
look_at_call(struct source *source, uint32_t i)
{
    const uint32_t open = i + 1, close = source->code.tokens[open].match;
    static const char *const before_statements[] = {";", "{", "}"};
    for (size_t k = 0; k < sizeof(before_statements) / sizeof(before_statements[0]); ++k) {
        if (source_is(source, i - 1, before_statements[k]))
            return;
    }
    const bool is_type = (source_is_one_of(source, open + 1, other_types) && !source_is(source, open + 2, "(")) ||
                         may_be_integer(source, open + 1, close, false);
    if (is_type || !may_be_integer(source, i, open, false) || !is_expression_place(source, i))
        return;
    if (is_template_argument(source, i, close) || source_piece_end(source, open + 1, close) != close)
        return;
    const bool is_declarator =
        source_is(source, open + 1, "*") && (source_is(source, close + 1, "(") || source_is(source, close + 1, "["));
    if (is_operand(source, open + 1) && !is_declarator)
        wrap(source, i, open, open, close);
}

/* At a word: `int i = x, j = y;` of an integer's words or a name of the table. */
static void
look_at_declaration(struct source *source, uint32_t i, uint32_t end)
{
    uint32_t name = i;
    while (source_is_one_of(source, name, integer_words))
        ++name;
    name += name == i && source_is_one_of(source, i, integer_names);
    if (name == i || !source_is_word(source, name) || !source_is(source, name + 1, "=") ||
        source_is_one_of(source, i - 1, integer_words) || source_is(source, i - 1, "<") ||
        source_is(source, i - 1, ","))
        return;
    uint32_t stop = name;
    while (stop < end && !source_is(source, stop, ";") && !source_is(source, stop, ")"))
        stop = source_next(source, stop);
    for (uint32_t from = name; from < stop;) {
        const uint32_t to = source_piece_end(source, from, stop);
        bool has_index = false;
        for (uint32_t k = from; k < to; ++k)
            has_index |= source_is_one_of(source, k, no_operands);
        if (source_is(source, from + 1, "=") && to > from + 3 && !source_is(source, from + 2, "{") && !has_index)
            wrap(source, i, name, from + 1, to);
        from = to + 1;
    }
}

static void
rewrite_range(struct source *source, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; ++i) {
        if (source_is(source, i, "("))
            look_at_c_cast(source, i);
        if (!source_is_word(source, i))
            continue;
        look_at_static_cast(source, i, end);
        if (source_is(source, i + 1, "("))
            look_at_call(source, i);
        else
            look_at_declaration(source, i, end);
    }
}

static void
rewrite_function(struct source *source, const struct function *function)
{
    const uint32_t end = source->code.tokens[function->body].match;
    if ((function->flags & (FUNCTION_DEVICE | FUNCTION_KERNEL)) != 0) {
        rewrite_range(source, function->body + 1, end);
        return;
    }
    for (uint32_t i = function->body + 1; i < end; ++i) { /* lambdas with __device__ */
        if (!source_is_lambda(source, i))
            continue;
        const uint32_t body = source_lambda_body(source, i);
        for (uint32_t k = source->code.tokens[i].match; k < body; ++k) {
            if (source_is(source, k, "__device__")) {
                rewrite_range(source, body + 1, source->code.tokens[body].match);
                i = source->code.tokens[body].match;
                break;
            }
        }
    }
}

void
casts_rewrite_all(struct source *source)
{
    find_type_names(source);
    for (size_t f = 0; f < source->function_count; ++f)
        rewrite_function(source, &source->functions[f]);
    names_free(&source->type_names);
}
