/*
 * stride.c - grid-stride loops, one turn of all threads of a block after the other.
 *
 *     __global__ void k(float *x, int n)
 *     {
 *         for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
 *             x[i] = ...;
 *     }
 *
 * Thread by thread, such a loop jumps through memory, and is no vector code. Turn t of block b is what the only turn of
 * block b + t * gridDim.x would be, so run_kernel.h runs it as that: the loop gets `if (softgpu_turn.single) break;` at
 * its end, and, to be asked whether there is such a turn, `if (softgpu_turn.ask) { softgpu_turn.more = true; break; }`
 * at its begin.
 *
 * Only where nothing else can tell: the kernel is declarations without effect, tests that return, and the loop; what is
 * declared before it, its parameters and its counter do not change in it; blockIdx is named nowhere else. Whatever is
 * not understood here stays as it is, which costs speed and nothing else.
 */
#include "source.h"

#include <string.h>

enum { NAMES_AT_MOST = 64 };

struct tokens {
    uint32_t from, to;
};

struct loop {
    struct source *source;
    uint32_t names[NAMES_AT_MOST]; /* parameters and variables, whose values are the same in every turn, */
    bool differs[NAMES_AT_MOST];   /* though not in every thread */
    unsigned name_count;
    uint32_t index;  /* the variable that counts, or 0 */
    uint32_t stride; /* a variable that holds the stride, or 0 */
};

/* ---- the expressions of a grid-stride loop ---- */

static bool
is_type_word(const struct source *source, uint32_t i)
{
    static const char *const words[] = {"int",      "unsigned",  "long",     "size_t",  "const",
                                        "uint32_t", "int32_t",   "uint64_t", "int64_t", "ssize_t",
                                        "uint",     "ptrdiff_t", "std",      "auto",    NULL};
    return source_is_one_of(source, i, words) || source_is(source, i, "::");
}

/* `(size_t)`, `static_cast<int>`: after it, or i. */
static uint32_t
skip_cast(const struct source *source, uint32_t i, uint32_t end)
{
    if (source_is(source, i, "static_cast"))
        return source_skip_angles(source, i + 1, end);
    if (!source_is(source, i, "("))
        return i;
    const uint32_t close = source->code.tokens[i].match;
    uint32_t k = i + 1;
    while (k < close && is_type_word(source, k))
        ++k;
    return k == close && close > i + 1 ? close + 1 : i;
}

static struct tokens
without_parentheses(const struct source *source, struct tokens tokens)
{
    for (;;) {
        const uint32_t from = skip_cast(source, tokens.from, tokens.to);
        const bool all = source_is(source, from, "(") && source->code.tokens[from].match == tokens.to - 1;
        if (!all)
            return tokens; /* a cast that belongs to the first factor only */
        tokens = (struct tokens){from + 1, tokens.to - 1};
    }
}

/* The '+' or '*' outside of parentheses that splits the expression, or `to`. */
static uint32_t
find_operator(const struct source *source, struct tokens tokens, const char *operator)
{
    for (uint32_t i = tokens.from; i < tokens.to; i = source_next(source, i)) {
        if (source_is(source, i, operator))
            return i;
    }
    return tokens.to;
}

/* `word.x`, with casts and in parentheses. */
static bool
is_index_x(const struct source *source, struct tokens tokens, const char *word)
{
    tokens = without_parentheses(source, tokens);
    const uint32_t from = skip_cast(source, tokens.from, tokens.to);
    if (from != tokens.from)
        return is_index_x(source, (struct tokens){from, tokens.to}, word);
    return tokens.to == from + 3 && source_is(source, from, word) && source_is(source, from + 1, ".") &&
           source_is(source, from + 2, "x");
}

static bool
is_product(const struct source *source, struct tokens tokens, const char *one, const char *other)
{
    tokens = without_parentheses(source, tokens);
    const uint32_t times = find_operator(source, tokens, "*");
    if (times == tokens.to)
        return false;
    const struct tokens left = {tokens.from, times}, right = {times + 1, tokens.to};
    return (is_index_x(source, left, one) && is_index_x(source, right, other)) ||
           (is_index_x(source, left, other) && is_index_x(source, right, one));
}

static bool
is_grid_index(const struct source *source, struct tokens tokens)
{
    tokens = without_parentheses(source, tokens);
    const uint32_t plus = find_operator(source, tokens, "+");
    if (plus == tokens.to)
        return false;
    const struct tokens left = {tokens.from, plus}, right = {plus + 1, tokens.to};
    return (is_product(source, left, "blockIdx", "blockDim") && is_index_x(source, right, "threadIdx")) ||
           (is_product(source, right, "blockIdx", "blockDim") && is_index_x(source, left, "threadIdx"));
}

/* ---- what may stand before and in it ---- */

static bool
is_name(const struct loop *loop, uint32_t i)
{
    for (unsigned k = 0; k < loop->name_count; ++k) {
        if (source_same_word(loop->source, loop->names[k], i))
            return true;
    }
    return false;
}

static bool
add_name(struct loop *loop, uint32_t name, bool differs)
{
    if (loop->name_count == NAMES_AT_MOST)
        return false;
    loop->names[loop->name_count] = name;
    loop->differs[loop->name_count++] = differs;
    return true;
}

/* Whether an expression may have another value in another thread of the block. */
static bool
may_differ(const struct loop *loop, struct tokens tokens)
{
    for (uint32_t i = tokens.from; i < tokens.to; ++i) {
        if (source_is(loop->source, i, "threadIdx"))
            return true;
        for (unsigned k = 0; k < loop->name_count; ++k) {
            if (loop->differs[k] && source_same_word(loop->source, loop->names[k], i))
                return true;
        }
    }
    return false;
}

/* Arithmetic over variables and numbers: reads no memory, calls nothing, changes nothing. */
static bool
is_pure(const struct source *source, struct tokens tokens)
{
    static const char *const operators[] = {
        "+", "-", "*", "/", "%", "(", ")", ".", "<", "<=", ">", ">=", "==", "!=", "&&", "||", "!", "::", "?", ":"};
    for (uint32_t i = tokens.from; i < tokens.to; ++i) {
        const enum token_kind kind = source->code.tokens[i].kind;
        bool known = kind == TOKEN_WORD || kind == TOKEN_NUMBER;
        for (size_t k = 0; !known && k < sizeof(operators) / sizeof(operators[0]); ++k)
            known = source_is(source, i, operators[k]);
        const bool is_value_before =
            i > tokens.from && (source->code.tokens[i - 1].kind == TOKEN_NUMBER || source_is(source, i - 1, ")") ||
                                (source_is_word(source, i - 1) && !source_is(source, i - 1, "return")));
        const bool dereferences = source_is(source, i, "*") &&
                                  (!is_value_before || (source_is(source, i - 1, ")") &&
                                                        skip_cast(source, source->code.tokens[i - 1].match, i) == i));
        const bool calls = source_is(source, i, "(") && i > tokens.from && source_is_word(source, i - 1);
        if (!known || dereferences || calls || source_is(source, i, "volatile"))
            return false;
    }
    return true;
}

static bool
mentions(const struct source *source, struct tokens tokens, const char *word)
{
    for (uint32_t i = tokens.from; i < tokens.to; ++i) {
        if (source_is(source, i, word))
            return true;
    }
    return false;
}

/* One `name = value` of a declaration. */
static bool
read_variable(struct loop *loop, uint32_t name, struct tokens value, bool is_integer)
{
    struct source *source = loop->source;
    if (!add_name(loop, name, may_differ(loop, value)))
        return false;
    if (is_integer && loop->index == 0 && is_grid_index(source, value)) {
        loop->index = name;
        return true;
    }
    if (is_integer && is_product(source, value, "blockDim", "gridDim"))
        loop->stride = name;
    return is_pure(source, value) && !mentions(source, value, "blockIdx");
}

/* `T a = ..., b = ...`, of numbers; false if it is anything else. */
static bool
read_declaration(struct loop *loop, struct tokens tokens)
{
    static const char *const numbers[] = {"float", "double", "bool", NULL};
    const struct source *source = loop->source;
    uint32_t i = tokens.from;
    bool is_integer = true;
    for (; i < tokens.to && (is_type_word(source, i) || source_is_one_of(source, i, numbers)); ++i)
        is_integer &= !source_is_one_of(source, i, numbers);
    if (i == tokens.from || i == tokens.to)
        return false;
    while (i < tokens.to) {
        const uint32_t end = source_piece_end(source, i, tokens.to);
        if (!source_is_word(source, i) || !source_is(source, i + 1, "=") ||
            !read_variable(loop, i, (struct tokens){i + 2, end}, is_integer))
            return false;
        i = end + 1;
    }
    return true;
}

static bool
is_assignment(const struct source *source, uint32_t i)
{
    static const char *const operators[] = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "++", "--"};
    for (size_t k = 0; k < sizeof(operators) / sizeof(operators[0]); ++k) {
        if (source_is(source, i, operators[k]))
            return true;
    }
    return (source_is(source, i, "<") && source_is(source, i + 1, "<=")) || /* <<= and >>= */
           (source_is(source, i, ">") && source_is(source, i + 1, ">="));
}

/* The word before the '(' around token i, if that is a call; else 0. */
static uint32_t
callee_of(const struct source *source, uint32_t i, uint32_t begin)
{
    static const char *const no_calls[] = {"if", "while", "for", "switch", "return", "sizeof", NULL};
    for (uint32_t k = i; k-- > begin;) {
        if (source_is(source, k, ")") || source_is(source, k, "]") || source_is(source, k, "}")) {
            k = source->code.tokens[k].match;
        } else if (source_is(source, k, "(")) {
            const bool is_call = source_is_word(source, k - 1) && !source_is_one_of(source, k - 1, no_calls);
            return is_call || source_is(source, k - 1, ">") ? k - 1 : 0;
        } else if (source_is(source, k, ";") || source_is(source, k, "{")) {
            return 0;
        }
    }
    return 0;
}

/* Whether a call may change what it is given: a functor, or a function with a reference among its parameters. */
static bool
may_change_arguments(const struct loop *loop, uint32_t callee)
{
    const struct source *source = loop->source;
    static const char *const changers[] = {"swap", "exchange", "tie", "ref", NULL};
    static const char *const links[] = {".", "->", NULL};
    if (!source_is_word(source, callee) || is_name(loop, callee) || source_is_one_of(source, callee, changers) ||
        source_is_one_of(source, callee - 1, links))
        return true;
    for (size_t f = 0; f < source->function_count; ++f) {
        const struct function *function = &source->functions[f];
        if (source_same_word(source, function->name, callee) &&
            (mentions(source, (struct tokens){function->params, function->body}, "&") ||
             mentions(source, (struct tokens){function->params, function->body}, "&&")))
            return true;
    }
    return false;
}

/* Whether what is named at i, a parameter or a variable from before the loop, could be changed there. */
static bool
may_change(const struct loop *loop, uint32_t i, uint32_t begin)
{
    const struct source *source = loop->source;
    if (source_is(source, i - 1, ".") || source_is(source, i - 1, "->"))
        return false; /* a member of that name */
    if (is_assignment(source, i + 1) || source_is(source, i - 1, "++") || source_is(source, i - 1, "--") ||
        source_is(source, i - 1, "&"))
        return true;
    if (source_is(source, i + 1, ".")) { /* parts of a struct: reading them is fine */
        uint32_t k = i + 1;
        bool element = false;
        while (source_is(source, k, ".") || source_is(source, k, "[")) {
            element |= source_is(source, k, "[");
            k = source_is(source, k, ".") ? k + 2 : source_next(source, k);
        }
        return (is_assignment(source, k) && element) || is_assignment(source, k) || source_is(source, k, "(");
    }
    const bool bare = (source_is(source, i - 1, "(") || source_is(source, i - 1, ",")) &&
                      (source_is(source, i + 1, ")") || source_is(source, i + 1, ","));
    const uint32_t callee = bare ? callee_of(source, i, begin) : 0;
    return callee != 0 && may_change_arguments(loop, callee);
}

static bool
turns_are_independent(const struct loop *loop, struct tokens statement, uint32_t step)
{
    static const char *const words[] = {"break",  "return", "goto",     "asm",        "__asm__",  "static",
                                        "extern", "switch", "blockIdx", "__shared__", "volatile", NULL};
    const struct source *source = loop->source;
    for (uint32_t i = statement.from; i < statement.to; ++i) {
        if (i == step) {
            i = source_piece_end(source, i, statement.to); /* the step of a while, understood already */
            continue;
        }
        if (source_is_one_of(source, i, words) ||
            (source_is_word(source, i) && is_name(loop, i) && may_change(loop, i, statement.from)) ||
            (source_is(source, i, "[") && source_is_lambda(source, i)))
            return false;
    }
    return true;
}

/* ---- the loop ---- */

/* `i < pure` or `i <= pure`, the same for all threads. */
static bool
is_condition(const struct loop *loop, struct tokens tokens)
{
    const struct source *source = loop->source;
    const struct tokens limit = {tokens.from + 2, tokens.to};
    static const char *const less[] = {"<", "<=", NULL};
    static const char *const decisions[] = {"<", ">", "&&", "||", "?", "==", "!=", "!", "<=", ">=", NULL};
    if (tokens.to < tokens.from + 3 || !source_same_word(source, tokens.from, loop->index) ||
        !source_is_one_of(source, tokens.from + 1, less))
        return false;
    if (!is_pure(source, limit) || may_differ(loop, limit))
        return false;
    for (uint32_t i = limit.from; i < limit.to; ++i) { /* no second comparison */
        if (source_is_one_of(source, i, decisions))
            return false;
    }
    return true;
}

/* `i += stride`, `i = i + stride`. */
static bool
is_step(const struct loop *loop, struct tokens tokens)
{
    const struct source *source = loop->source;
    if (tokens.to < tokens.from + 3 || !source_same_word(source, tokens.from, loop->index))
        return false;
    struct tokens by = {tokens.from + 2, tokens.to};
    if (source_is(source, tokens.from + 1, "=") && source_same_word(source, tokens.from + 2, loop->index) &&
        source_is(source, tokens.from + 3, "+"))
        by.from += 2;
    else if (!source_is(source, tokens.from + 1, "+="))
        return false;
    return is_product(source, by, "blockDim", "gridDim") ||
           (loop->stride != 0 && by.to == by.from + 1 && source_same_word(source, by.from, loop->stride));
}

static uint32_t
find_semicolon(const struct source *source, uint32_t i, uint32_t end)
{
    while (i < end && !source_is(source, i, ";"))
        i = source_next(source, i);
    return i;
}

/* Behind the statement that begins at i: a block, or what ends with ';'. */
static uint32_t
simple_statement_end(const struct source *source, uint32_t i, uint32_t end)
{
    static const char *const compound[] = {"if", "for", "while", "do", "switch", "else", "try", NULL};
    if (source_is(source, i, "{"))
        return source->code.tokens[i].match + 1;
    if (source_is_one_of(source, i, compound))
        return end + 1; /* not worth reading */
    return find_semicolon(source, i, end) + 1;
}

static void
rewrite_loop(struct source *source, struct tokens statement)
{
    source_before(source, statement.from, " { if (softgpu_turn.ask) { softgpu_turn.more = true; break; } do { ");
    source_after(source, statement.to - 1, " } while (0); if (softgpu_turn.single) break; }");
}

/* At `for`: the loop, which must be the last statement. */
static bool
read_for(struct loop *loop, uint32_t i, uint32_t end)
{
    struct source *source = loop->source;
    if (!source_is(source, i + 1, "("))
        return false;
    const uint32_t close = source->code.tokens[i + 1].match;
    const uint32_t first = find_semicolon(source, i + 2, close), second = find_semicolon(source, first + 1, close);
    if (second >= close || (first > i + 2 && !read_declaration(loop, (struct tokens){i + 2, first})))
        return false;
    const struct tokens statement = {close + 1, simple_statement_end(source, close + 1, end)};
    if (loop->index == 0 || statement.to != end || !is_condition(loop, (struct tokens){first + 1, second}) ||
        !is_step(loop, (struct tokens){second + 1, close}) || !turns_are_independent(loop, statement, 0))
        return false;
    rewrite_loop(source, statement);
    return true;
}

/* At `while (i < n) { ...; i += stride; }`. */
static bool
read_while(struct loop *loop, uint32_t i, uint32_t end)
{
    struct source *source = loop->source;
    if (!source_is(source, i + 1, "("))
        return false;
    const uint32_t close = source->code.tokens[i + 1].match;
    if (loop->index == 0 || !source_is(source, close + 1, "{") || source->code.tokens[close + 1].match + 1 != end ||
        !is_condition(loop, (struct tokens){i + 2, close}))
        return false;
    uint32_t step = end - 2; /* back from the last ';' */
    if (!source_is(source, step, ";"))
        return false;
    while (step > close + 2 && !source_is(source, step - 1, ";") && !source_is(source, step - 1, "{") &&
           !source_is(source, step - 1, "}"))
        --step;
    const struct tokens body = {close + 2, end - 1};
    if (!is_step(loop, (struct tokens){step, end - 2}) || mentions(source, body, "continue") ||
        !turns_are_independent(loop, body, step))
        return false;
    source_after(source, close + 1, " if (softgpu_turn.ask) { softgpu_turn.more = true; break; }");
    source_before(source, end - 1, " if (softgpu_turn.single) break; ");
    return true;
}

/* `if (pure) return;`, for all threads of the block or none: after it, or i. */
static uint32_t
skip_early_return(const struct loop *loop, uint32_t i)
{
    const struct source *source = loop->source;
    if (!source_is(source, i, "if") || !source_is(source, i + 1, "("))
        return i;
    const uint32_t close = source->code.tokens[i + 1].match;
    const struct tokens condition = {i + 2, close};
    return is_pure(source, condition) && !mentions(source, condition, "blockIdx") && !may_differ(loop, condition) &&
                   source_is(source, close + 1, "return") && source_is(source, close + 2, ";")
               ? close + 3
               : i;
}

static bool
add_parameters(struct loop *loop, const struct function *function)
{
    const struct source *source = loop->source;
    const uint32_t close = source->code.tokens[function->params].match;
    for (uint32_t from = function->params + 1; from < close;) {
        const uint32_t end = source_piece_end(source, from, close);
        uint32_t unused;
        const uint32_t name = source_declared_name(source, from, end, &unused);
        if (name < end && !add_name(loop, name, false))
            return false;
        from = end + 1;
    }
    return true;
}

bool
stride_rewrite(struct source *source, const struct function *function)
{
    struct loop loop = {.source = source};
    const uint32_t end = source->code.tokens[function->body].match;
    if (function->findings.may_wait || function->findings.may_ask_too || !add_parameters(&loop, function))
        return false;
    for (uint32_t i = function->body + 1; i < end;) {
        const uint32_t behind_return = skip_early_return(&loop, i);
        if (source_is(source, i, "for"))
            return read_for(&loop, i, end);
        if (source_is(source, i, "while"))
            return read_while(&loop, i, end);
        if (behind_return != i) {
            i = behind_return;
            continue;
        }
        const uint32_t semicolon = find_semicolon(source, i, end);
        if (semicolon == end || !read_declaration(&loop, (struct tokens){i, semicolon}))
            return false;
        i = semicolon + 1;
    }
    return false;
}
