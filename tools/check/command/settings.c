/*
 * settings.c - see settings.h.
 */
#include "tools/check/command/settings.h"

enum { DEPTH_AT_MOST = 4 }; /* of variables that are computed from variables */

/* ---- variables ---- */

static bool
is_link(const struct code *code, uint32_t i)
{
    return token_is(code, i, ".") || token_is(code, i, "->");
}

/* Whether the header of a function has a parameter of this name. */
static bool
is_parameter(const struct code *code, uint32_t first, uint32_t body, const struct variable *variable)
{
    for (uint32_t i = first; i < body; ++i) {
        const bool is_name = token_is_text(code, i, variable->name, variable->length);
        if (is_name && !token_is(code, i + 1, "(") && !token_is(code, i + 1, "<"))
            return true;
    }
    return false;
}

struct variable
variable_find(const struct source *source, uint32_t at, const char *name, size_t length)
{
    struct variable variable = {
        .source = source, .name = name, .length = length, .in = {0, source->code.count}, .is_of_file = true};
    const struct source_node *node = source_statement_of(source, at);
    const struct source_node *function = node != NULL ? source_function(node) : NULL;
    if (function == NULL)
        return variable;
    const uint32_t body = source_block(function)->tokens.first;
    if (is_parameter(&source->code, function->tokens.first, body, &variable)) {
        variable.in = function->tokens;
        variable.is_of_file = false;
        variable.is_parameter = true;
    }
    FOR_EACH_NODE(it, source->first) {
        const struct source_node *around = it->is_loop || it->parent == NULL ? it : it->parent;
        const bool is_inside = it->tokens.first > body && it->tokens.first <= at && at < around->tokens.end;
        if (is_inside && !it->is_block && source_declares(it, name, length))
            variable = (struct variable){.source = source, .name = name, .length = length, .in = around->tokens};
    }
    return variable;
}

uint32_t
variable_next(const struct variable *variable, uint32_t at)
{
    while (at < variable->in.end && !token_is_text(&variable->source->code, at, variable->name, variable->length))
        ++at;
    return at;
}

uint32_t
variable_behind_parts(const struct code *code, uint32_t at)
{
    for (;;) {
        if (token_is(code, at, "["))
            at = token_next(code, at);
        else if (is_link(code, at))
            at += 2;
        else
            return at;
    }
}

/* Whether the variable is a pointer: what it points to may have any value. */
static bool
is_pointer(const struct variable *variable)
{
    const uint32_t at = variable_next(variable, variable->in.first); /* where it is declared */
    return at > 0 && at < variable->in.end && token_is(&variable->source->code, at - 1, "*");
}

/* ---- what sets a variable ---- */

static bool
contains(const struct code *code, uint32_t i, const char *text)
{
    const struct token *token = &code->tokens[i];
    return token->kind == TOKEN_WORD && memmem(code->text + token->begin, token->length, text, strlen(text)) != NULL;
}

bool
tokens_mention(const struct code *code, uint32_t first, uint32_t end, const char *text)
{
    return ANY_NUMBER(i, first, end, contains(code, i, text));
}

/* Whether a call that begins a statement gives no value to what it gets by a pointer: an allocation, or cuBLAS, which
 * only reads alpha. */
static bool
only_reads(const struct code *code, uint32_t first, uint32_t end)
{
    static const char *const results[] = {"nrm2", "dot", "asum", "amax", "amin"};
    uint32_t call = first;
    while (call < end && !contains(code, call, "cublas"))
        ++call;
    const bool gives = ANY(it, results, sizeof(results) / sizeof(results[0]), contains(code, call, *it));
    return tokens_mention(code, first, end, "lloc") || (call < end && !gives);
}

/* Up to the comma, semicolon or bracket that ends an expression. */
static struct token_range
expression_at(const struct code *code, uint32_t i)
{
    static const char *const ends[] = {",", ";", ")", "]", "}", NULL};
    struct token_range range = {i, i};
    while (range.end < code->count && !token_is_one_of(code, range.end, ends))
        range.end = token_next(code, range.end);
    return range;
}

/* How the name at a token may get a value. */
enum way {
    WAY_NONE,
    WAY_ASSIGNED,    /* "x = 1", "x.y += 1" */
    WAY_INITIALISED, /* "float x(1)", "float x{1}" */
    WAY_PASSED,      /* "f(&x)", "cudaMemcpy(x" */
};

/* How the variable, which stands at token `at`, gets a value there, if at all: assigned, initialised where it is
 * declared, or passed to a call that may write it. */
static enum way
way_of(const struct variable *variable, uint32_t at)
{
    static const char *const assignments[] = {"=", "+=", "-=", "*=", "/=", "%=", NULL};
    const struct code *code = &variable->source->code;
    const uint32_t next = variable_behind_parts(code, at + 1);
    if (token_is_one_of(code, next, assignments))
        return WAY_ASSIGNED;
    if (at == 0)
        return WAY_NONE;
    const bool is_declared = token_is_word(code, at - 1) && !token_is(code, at - 1, "return");
    const bool opens = token_is(code, next, "(") || token_is(code, next, "{");
    if (is_declared && opens && at > variable->in.first)
        return WAY_INITIALISED;
    const bool is_argument = at > 1 && (token_is(code, at - 2, "(") || token_is(code, at - 2, ","));
    if (token_is(code, at - 1, "&") && is_argument)
        return WAY_PASSED;
    const bool is_first = at > 1 && token_is(code, at - 1, "(");
    return is_first && token_begins(code, at - 2, "cudaMemcpy") ? WAY_PASSED : WAY_NONE;
}

/* What sets the variable at one of its names. False: nothing does. */
static bool
read_setting(const struct variable *variable, uint32_t at, struct setting *setting)
{
    const struct code *code = &variable->source->code;
    const uint32_t next = variable_behind_parts(code, at + 1);
    *setting = (struct setting){.token = at};
    switch (way_of(variable, at)) {
    case WAY_ASSIGNED:
        setting->value = expression_at(code, next + 1);
        return true;
    case WAY_INITIALISED:
        setting->value = (struct token_range){next + 1, token_next(code, next) - 1};
        return true;
    case WAY_PASSED:
        break;
    default:
        return false;
    }
    const struct source_node *node = source_statement_of(variable->source, at);
    const uint32_t begin = node != NULL ? node->tokens.first : at;
    setting->is_call = true;
    setting->is_share = tokens_mention(code, begin, at, "DDP_SHARD");
    return !only_reads(code, begin, at);
}

/* All places in the variable's scope that set it, in the order of the text; returns how many. */
static size_t
list_settings(const struct variable *variable, struct setting list[SETTINGS_AT_MOST])
{
    const struct code *code = &variable->source->code;
    size_t count = 0;
    for (uint32_t at = variable_next(variable, variable->in.first); at < variable->in.end && count < SETTINGS_AT_MOST;
         at = variable_next(variable, at + 1)) {
        const bool is_of_another = at > 0 && is_link(code, at - 1) && !variable->is_of_file; /* else of a class */
        if (!is_of_another && read_setting(variable, at, &list[count]))
            ++count;
    }
    return count;
}

/* ---- what may differ ---- */

static bool may_differ(const struct variable *variable, int depth);

/* Whether token i of an expression is a name that is neither a member nor a function; else *differs_p becomes true of a
 * function that may return anything. */
static bool
is_variable(const struct expression *expression, uint32_t i, bool *differs_p)
{
    static const char *const pure[] = {
        "sizeof", "float", "double", "int",   "long",   "size_t", "unsigned", "static_cast", "sqrt",  "sqrtf",
        "pow",    "powf",  "exp",    "expf",  "log",    "logf",   "min",      "max",         "fminf", "fmaxf",
        "fmin",   "fmax",  "cos",    "cosf",  "sin",    "sinf",   "tanh",     "tanhf",       "fabs",  "fabsf",
        "abs",    "floor", "ceil",   "round", "lround", "clamp",  "std",      NULL,
    };
    const struct code *code = expression->code;
    const bool is_member = i > expression->tokens.first && is_link(code, i - 1);
    if (!token_is_word(code, i) || is_member || token_is_one_of(code, i, pure))
        return false;
    const bool is_function = token_is(code, i + 1, "(") || token_is(code, i, "DDP_WORLD_SIZE");
    *differs_p = *differs_p || is_function;
    return !is_function;
}

/* Adds a variable that differs to *count_p, the first one to *only. */
static void
count_variable(const struct variable *variable, bool is_pointer, struct variable *only, size_t *count_p)
{
    if (is_pointer) /* no variable alone */
        *count_p += 2;
    const bool is_known = *count_p > 0 && only->name != NULL && only->length == variable->length &&
                          strncmp(only->name, variable->name, only->length) == 0;
    if (is_known)
        return;
    if (*count_p == 0)
        *only = *variable;
    ++*count_p;
}

/* Whether an expression may have another value on a rank, whatever `but` has; *only and *count_p: its variables that
 * may, which are counted if `only` is not NULL. */
static bool
differs(const struct expression *expression, const struct variable *but, int depth, struct variable *only,
        size_t *count_p)
{
    const struct code *code = expression->code;
    bool found = false;
    for (uint32_t i = expression->tokens.first; i < expression->tokens.end; ++i) {
        if (!is_variable(expression, i, &found))
            continue;
        if (but != NULL && token_is_text(code, i, but->name, but->length))
            continue;
        const uint32_t place = code == &expression->source->code ? i : expression->token;
        const char *name = code->text + code->tokens[i].begin;
        const struct variable variable = variable_find(expression->source, place, name, code->tokens[i].length);
        const bool is_any = is_pointer(&variable);
        if (!is_any && !may_differ(&variable, depth + 1))
            continue;
        found = true;
        if (only != NULL)
            count_variable(&variable, is_any, only, count_p);
    }
    return found;
}

size_t
expression_variables(const struct expression *expression, const struct variable *but, struct variable *only)
{
    size_t count = 0;
    *only = (struct variable){0};
    (void)differs(expression, but, 0, only, &count);
    return count;
}

/* Whether the variable may have another value on another rank after it is set there; one that is set without a value
 * may. */
static bool
setting_differs(const struct variable *variable, const struct setting *setting, int depth)
{
    const struct expression value = {&variable->source->code, setting->value, variable->source, setting->token};
    const bool has_value = value.tokens.end > value.tokens.first;
    return !has_value || differs(&value, variable, depth, NULL, NULL);
}

/* Whether the variable may have another value on another rank, as far as the source tells: one that it is set to may,
 * or it is a parameter of the function. `depth`: variables that led to it. */
static bool
may_differ(const struct variable *variable, int depth)
{
    struct setting list[SETTINGS_AT_MOST];
    if (variable->is_parameter || depth >= DEPTH_AT_MOST)
        return true;
    const size_t count = list_settings(variable, list);
    return ANY(it, list, count, setting_differs(variable, it, depth));
}

/* Whether a setting reaches the use of the variable: it stands before it, or after it if a loop is around both and
 * not around the variable. */
static bool
reaches(const struct variable *variable, uint32_t set, uint32_t use)
{
    const struct source_node *node = source_statement_of(variable->source, set);
    if (node != NULL && node->tokens.first == use)
        return false;
    if (variable->is_of_file || set < use)
        return true;
    for (; node != NULL; node = node->parent) {
        const uint32_t begin = node->tokens.first;
        if (node->is_loop && begin > variable->in.first && begin < use)
            return true;
    }
    return false;
}

bool
settings_find_condition(const struct source *source, uint32_t at, struct token_range in, const struct variable *but,
                        struct expression *condition)
{
    static const char *const words[] = {"if", "while", NULL};
    const struct code *code = &source->code;
    for (const struct source_node *node = source_statement_of(source, at); node != NULL; node = node->parent) {
        const uint32_t begin = node->tokens.first, open = begin + 1;
        if (begin < in.first)
            return false;
        if (!token_is_one_of(code, begin, words) || !token_is(code, open, "("))
            continue;
        *condition = (struct expression){code, {open + 1, token_next(code, open) - 1}, source, begin};
        if (differs(condition, but, 0, NULL, NULL))
            return true;
    }
    return false;
}

size_t
settings_that_differ(const struct variable *variable, uint32_t use, struct setting list[SETTINGS_AT_MOST])
{
    struct setting all[SETTINGS_AT_MOST];
    struct expression condition;
    size_t known = list_settings(variable, all), count = 0;
    FOR_EACH(it, all, known < SETTINGS_AT_MOST ? known : 0) {
        if (!reaches(variable, it->token, use))
            continue;
        if (setting_differs(variable, it, 0) ||
            settings_find_condition(variable->source, it->token, variable->in, variable, &condition))
            list[count++] = *it;
    }
    return count;
}

bool
settings_find_one(const struct variable *variable, uint32_t use, struct setting *setting)
{
    struct setting list[SETTINGS_AT_MOST];
    if (settings_that_differ(variable, use, list) != 1)
        return false;
    *setting = list[0];
    return true;
}
