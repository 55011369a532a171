/* tensor_line.c - see lines.h. */
#include "tools/scout/command/report/expression.h"

#include "softgpu/text/walk.h"
#include "tools/scout/command/analysis/rules.h"

/* The name of a scout type in ddprun.h. */
static const char *
type_word(uint32_t type)
{
    static const char *const words[] = {"DDP_FLOAT32", "DDP_FLOAT32",  "DDP_FLOAT64",
                                        "DDP_FLOAT16", "DDP_BFLOAT16", "DDP_INT32"};
    return type < sizeof(words) / sizeof(words[0]) ? words[type] : words[0];
}

/* Whether memory holds running statistics, as of a batch normalisation: numbers with a fraction that the program keeps
 * and does not read in its steps. What the host reads there is a figure of the rank's own batches. */
static bool
is_running(const struct scout_log *log, const struct scout_tensor *tensor)
{
    bool has_fraction = tensor->type != SCOUT_INTEGER && tensor->type != SCOUT_UNKNOWN;
    return tensor->role == ROLE_STATISTICS && has_fraction && tensor->hi - tensor->lo > ELEMENT_BYTES &&
           !scout_is_read_by_host(log, tensor);
}

/* The macro of ddprun.h that annotates the tensor; NULL: none does. */
static const char *
macro_of(const struct scout_log *log, const struct scout_tensor *tensor)
{
    static const char *const macros[] = {[ROLE_PARAMETER] = "DDP_PARAMETER",
                                         [ROLE_GRADIENT] = "DDP_GRADIENT",
                                         [ROLE_OPTIMIZER_STATE] = "DDP_STATE",
                                         [ROLE_AVERAGE] = "DDP_STATE",
                                         [ROLE_INPUT] = "DDP_STATE"};
    if (is_running(log, tensor))
        return "DDP_BUFFER";
    return tensor->role < sizeof(macros) / sizeof(macros[0]) ? macros[tensor->role] : NULL;
}

/* Whether the sources give a type of C this name, too. */
static bool
is_alias(const struct sources *sources, const char *type, const char *name, size_t length)
{
    OWNED char *old = xasprintf("typedef %s %.*s;", type, (int)length, name);
    OWNED char *new = xasprintf("using %.*s = %s;", (int)length, name, type);
    OWNED char *macro = xasprintf("#define %.*s %s\n", (int)length, name, type);
    return ANY(file, sources->files, sources->count,
               (*file)->text != NULL && (strstr((*file)->text, old) != NULL || strstr((*file)->text, new) != NULL ||
                                         strstr((*file)->text, macro) != NULL));
}

/* Whether tokens are the bytes of an element: "sizeof(float)", "4". */
static bool
is_element(const struct sources *sources, const struct code *code, struct token_range tokens, uint32_t type)
{
    const char *name = type == SCOUT_FLOAT64 ? "double" : "float";
    const size_t size = scout_type_bytes(type);
    const uint32_t open = tokens.first + 1, close = tokens.end - 1;
    const char figure = (char)('0' + size);
    if (tokens.end == tokens.first + 1)
        return token_is_text(code, tokens.first, &figure, 1);
    if (tokens.end <= tokens.first + 3 || size < sizeof(float) || !token_is(code, tokens.first, "sizeof"))
        return false;
    if (!token_is(code, open, "(") || code->tokens[open].match != close)
        return false;
    const size_t begin = code->tokens[open + 1].begin, length = token_end(code, close - 1) - begin;
    return (length == strlen(name) && strncmp(code->text + begin, name, length) == 0) ||
           is_alias(sources, name, code->text + begin, length);
}

/* Operators that bind no closer than '+', and those that do, but for '*'. */
static const char *const sums[] = {"+", "-",  "?",  ":",  "<",  ">",  "&",  "|", "^",
                                   "=", "==", "!=", "<=", ">=", "&&", "||", ",", NULL};
static const char *const quotients[] = {"/", "%", NULL};

/* Whether an operator of the table stands among tokens, outside of brackets. */
static bool
has_operator(const struct code *code, struct token_range tokens, const char *const *operators)
{
    for (uint32_t i = tokens.first; i < tokens.end; i = token_next(code, i))
        if (token_is_one_of(code, i, operators))
            return true;
    return false;
}

/* The first '*' outside of brackets from token i on; the end: there is none. */
static uint32_t
next_times(const struct code *code, uint32_t i)
{
    while (i < code->count && !token_is(code, i, "*"))
        i = token_next(code, i);
    return i;
}

/* The elements of "count * sizeof(float)" and "sizeof(float) * count". False: the expression is of another form. */
static bool
find_count(const struct sources *sources, const struct code *code, uint32_t type, struct token_range *count)
{
    const uint32_t first = next_times(code, 0);
    uint32_t last = first;
    for (uint32_t next = first; next < code->count; next = next_times(code, next + 1))
        last = next;
    const struct token_range before = {0, last}, behind = {last + 1, code->count};
    if (last == 0 || first + 1 >= code->count) /* no product */
        return false;
    if (is_element(sources, code, behind, type) && !has_operator(code, before, sums)) {
        *count = before;
        return true;
    }
    const struct token_range begin = {0, first}, rest = {first + 1, code->count};
    *count = rest;
    return is_element(sources, code, begin, type) && !has_operator(code, rest, sums) &&
           !has_operator(code, rest, quotients);
}

/* Whether an expression is one operand, with or without a cast: "bytes", "(size_t)n", "layer->size()". */
static bool
is_operand(const struct code *code)
{
    const struct token_range all = {0, code->count};
    for (uint32_t i = 0, next; i < code->count; i = next) {
        next = token_next(code, i);
        if (next < code->count && code->tokens[next].begin > token_end(code, next - 1))
            return false;
    }
    return !has_operator(code, all, sums) && !has_operator(code, all, quotients) && next_times(code, 0) == code->count;
}

/* "count" of "count * sizeof(float)", "bytes / 4" of "bytes". */
static void
count_text(const struct sources *sources, const char *said, uint32_t type, char text[LIFT_BYTES + 16])
{
    char copy[LIFT_BYTES];
    snprintf(copy, sizeof(copy), "%s", said);
    char *bytes = lift_bare(copy);
    struct code code = expression_read(bytes);
    struct token_range count;
    const uint32_t size = scout_type_bytes(type) > 0 ? scout_type_bytes(type) : 4;
    if (find_count(sources, &code, type, &count)) {
        char elements[LIFT_BYTES];
        const size_t begin = code.tokens[count.first].begin, end = token_end(&code, count.end - 1);
        snprintf(elements, sizeof(elements), "%.*s", (int)(end - begin), bytes + begin);
        snprintf(text, LIFT_BYTES + 16, "%s", lift_bare(elements));
    } else {
        snprintf(text, LIFT_BYTES + 16, is_operand(&code) ? "%s / %" PRIu32 : "(%s) / %" PRIu32, bytes, size);
    }
    code_free(&code);
}

/* Whether a place is in a template that takes types. */
static bool
is_in_template(const struct source_node *at)
{
    for (const struct source_node *node = at; node != NULL; node = node->parent) {
        const struct code *code = &node->source->code;
        const uint32_t first = node->tokens.first, end = token_skip_template(code, first, node->tokens.end);
        for (uint32_t i = first; i < end; ++i)
            if (token_is(code, i, "typename") || token_is(code, i, "class"))
                return true;
    }
    return false;
}

/* The type of a tensor's elements, for a line at a place: in a template it is the type of the pointer, since the
 * program may use the template for other types, too. */
static void
write_type(const struct scout_tensor *tensor, const char *memory, const struct source_node *at, char type[LINE_BYTES])
{
    const bool is_float = tensor->type == SCOUT_FLOAT32 || tensor->type == SCOUT_FLOAT64;
    if (is_float && memory[0] != '(' && is_in_template(at))
        snprintf(type, LINE_BYTES, "DDP_TYPE_OF(%s)", memory);
    else
        snprintf(type, LINE_BYTES, "%s", type_word(tensor->type));
}

bool
line_write(const struct search *search, const struct scout_tensor *tensor, const char *memory, const char *count,
           const struct source_node *at, char text[LINE_BYTES])
{
    char group[48] = "", type[LINE_BYTES];
    write_type(tensor, memory, at, type);
    if (search->to->groups > 1)
        snprintf(group, sizeof(group), "DDP_GRADIENT_GROUP(%" PRIu32 "); ",
                 tensor->group != GROUP_NONE ? search->to->group_of[tensor->group] : 0);
    return snprintf(text, LINE_BYTES, "%s%s(%s, %s, %s);%s", group, macro_of(search->log, tensor), memory, count, type,
                    tensor->guessed ? " /* the type is a guess */" : "") < LINE_BYTES;
}

bool
line_write_said(const struct search *search, const struct scout_tensor *tensor, const struct lifted *said,
                const struct source_node *at, char text[LINE_BYTES])
{
    char count[LIFT_BYTES + 16], memory[LIFT_BYTES + 48];
    uint32_t bytes = scout_type_bytes(tensor->type);
    bool is_whole = tensor->lo == 0 && tensor->hi == search->log->allocs[tensor->alloc].bytes;
    if (is_whole && said->bytes[0] != '\0')
        count_text(&search->sources, said->bytes, tensor->type, count);
    else
        snprintf(count, sizeof(count), "%" PRIu64, (tensor->hi - tensor->lo) / (bytes > 0 ? bytes : 4));
    if (tensor->lo > 0)
        snprintf(memory, sizeof(memory), "(char *)(%s) + %" PRIu64, said->memory, tensor->lo);
    else
        snprintf(memory, sizeof(memory), "%s", said->memory);
    return line_write(search, tensor, memory, count, at, text);
}

/* Whether an operation may set memory of the allocation; what steps launch, too, reads it. */
static bool
sets(const struct search *search, const struct scout_op *op, uint32_t alloc)
{
    if (op->kind == SCOUT_COPY || op->kind == SCOUT_FILL)
        return op->to.alloc == alloc;
    return ANY(argument, op->arguments, op->argument_count, argument->alloc == alloc) &&
           !ANY(it, &search->ops[search->first], search->period, it->name == op->name);
}

/* The last operation before the first step that sets the tensor; SCOUT_NONE: none, or it needs none. */
uint32_t
line_setting_of(const struct search *search, const struct scout_tensor *tensor)
{
    const struct scout_alloc *alloc = &search->log->allocs[tensor->alloc];
    for (uint32_t i = search->start; tensor->role != ROLE_GRADIENT && i-- > alloc->made_at;)
        if (sets(search, &search->ops[i], tensor->alloc))
            return i;
    return SCOUT_NONE;
}

bool
line_shares_place(const struct search *search, const struct scout_tensor *a, const struct scout_tensor *b)
{
    return a->role == ROLE_GRADIENT && b->role == ROLE_GRADIENT && a->group != b->group &&
           search->memory_of[a->alloc] == search->memory_of[b->alloc] && a->lo < b->hi && b->lo < a->hi;
}

/* A gradient, and all that lies in its place at other times: one annotation is of all of it. */
struct scout_tensor
line_widen(const struct search *search, const struct scout_tensor *tensor)
{
    struct scout_tensor wide = *tensor;
    FOR_EACH(other, search->finding->tensors, search->finding->tensor_count) {
        bool shares = line_shares_place(search, tensor, other);
        wide.lo = shares && other->lo < wide.lo ? other->lo : wide.lo;
        wide.hi = shares && other->hi > wide.hi ? other->hi : wide.hi;
    }
    return wide;
}

bool
line_is_carried(const struct scout_log *log, const struct scout_tensor *tensor)
{
    return tensor->fused && log->ops[tensor->writer].kind != SCOUT_LAUNCH;
}

bool
insertions_have(const struct scout_log *log, const struct scout_finding *finding, const struct scout_tensor *tensor)
{
    if (line_is_carried(log, tensor))
        return false;
    return tensor->role == ROLE_GRADIENT ||
           (macro_of(log, tensor) != NULL && !scout_is_in_gradient(finding, tensor)); /* DDP_GRADIENT says it */
}

bool
insertions_need(const struct scout_log *log, const struct scout_finding *finding, const struct scout_tensor *tensor)
{
    bool is_alike = tensor->role == ROLE_OPTIMIZER_STATE || tensor->role == ROLE_AVERAGE;
    return insertions_have(log, finding, tensor) && !is_alike;
}
