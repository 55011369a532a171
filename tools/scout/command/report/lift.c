/* lift.c - see lines.h. */
#include "softgpu/text/calls.h"
#include "softgpu/text/declarations.h"
#include "softgpu/text/walk.h"
#include "tools/scout/command/report/expression.h"
#include "tools/scout/command/report/owners.h"
#include "tools/scout/command/report/passage.h"

/* ---- what a statement says ---- */

/* The argument by which a call gives an address, without a cast: "&w" of "(void **)&w". */
static struct token_range
without_cast(const struct code *code, struct token_range argument)
{
    const uint32_t first = argument.first;
    if (token_is(code, first, "reinterpret_cast") && token_is(code, first + 1, "<")) {
        const uint32_t open = token_skip_angles(code, first + 1, argument.end);
        return (struct token_range){open + 1, token_next(code, open) - 1};
    }
    const uint32_t behind = token_next(code, first);
    const bool has_cast = token_is(code, first, "(") && behind < argument.end;
    return has_cast ? (struct token_range){behind, argument.end} : argument;
}

/* Writes what an expression points to: "w" of "&w" and of "(void **)&w", "*w" of "w". False: it has no room. */
static bool
pointed_to(const struct code *code, struct token_range argument, char to[LIFT_BYTES])
{
    char text[LIFT_BYTES];
    struct token_range pointer = without_cast(code, argument);
    const bool is_address = token_is(code, pointer.first, "&");
    pointer.first += is_address;
    return expression_copy(code, pointer, text) &&
           snprintf(to, LIFT_BYTES, "%s%s", is_address ? "" : "*", text) < LIFT_BYTES;
}

/* A call of CUDA that makes or fills memory: which argument says how much. */
struct memory_call {
    const char *name;
    uint32_t bytes;
    bool copies;
};

/* Reads from a call that makes or copies memory the program's expressions for its address and its bytes. False: they
 * cannot stand elsewhere. */
static bool
read_memory_call(const struct code *code, const struct memory_call *made, const struct call *call,
                 struct lifted *lifted)
{
    const struct token_range *arguments = call->arguments;
    const bool is_known = made->copies ? expression_copy(code, arguments[0], lifted->memory)
                                       : pointed_to(code, arguments[0], lifted->memory);
    return is_known && expression_copy(code, arguments[made->bytes], lifted->bytes);
}

/* The call of CUDA in a statement; of several the one around a place of the text. False: there is none. */
static bool
read_innermost(const struct source_node *node, size_t place, struct lifted *lifted)
{
    static const struct memory_call calls[] = {
        {"cudaMalloc", 1, false},        {"cudaMallocManaged", 1, false}, {"cudaMallocAsync", 1, false},
        {"cudaMallocHost", 1, false},    {"cudaHostAlloc", 1, false},     {"cuMemAlloc", 1, false},
        {"cuMemAllocManaged", 1, false}, {"cudaMemcpy", 2, true},         {"cudaMemcpyAsync", 2, true},
    };
    const struct code *code = &node->source->code;
    struct call call;
    FOR_EACH(it, calls, sizeof(calls) / sizeof(calls[0])) {
        if (call_find(code, source_own(node), it->name, place, &call) && call.count > it->bytes)
            return read_memory_call(code, it, &call, lifted);
    }
    return false;
}

/* Of "l == 0 ? x : z" what it is where the condition holds: x. *is_choice_p: it is such an expression. */
static struct token_range
choose_first(const struct code *code, struct token_range expression, bool *is_choice_p)
{
    uint32_t question = expression.first, colon = expression.end;
    while (question < expression.end && !token_is(code, question, "?"))
        ++question;
    if (question == expression.end)
        return expression;
    *is_choice_p = true;
    while (colon > question && !token_is(code, colon, ":"))
        --colon;
    const bool compares = expression_has(code, (struct token_range){expression.first, question}, "==");
    return colon > question && compares ? (struct token_range){question + 1, colon} : expression;
}

/* Whether an expression may be said twice: it changes nothing, and chooses nothing. */
static bool
is_repeatable(const struct code *code, struct token_range expression)
{
    static const char *const changes[] = {"++", "--", "{", "?", NULL};
    for (uint32_t i = expression.first; i < expression.end; ++i) {
        const struct token *token = &code->tokens[i];
        const bool has_equal =
            token->kind == TOKEN_SIGN && memchr(code->text + token->begin, '=', token->length) != NULL;
        if (has_equal || token_is_one_of(code, i, changes))
            return false;
    }
    return true;
}

bool
lift_argument(const struct source_node *node, uint32_t slot, char to[LIFT_BYTES], bool *is_choice)
{
    const struct code *code = &node->source->code;
    const struct token_range own = source_own(node);
    struct call call = {.count = 0};
    for (uint32_t i = own.first; i < own.end && call.count <= slot; ++i) {
        const bool launches = token_run(code, i, '>', 3);
        const bool calls = token_begins(code, i, "cublas") || token_begins(code, i, "cudaMemcpy");
        const uint32_t open = launches ? i + 3 : i + 1;
        if ((launches || calls) && token_is(code, open, "("))
            call_split(code, open, &call);
    }
    if (slot >= call.count)
        return false;
    const struct token_range argument = choose_first(code, call.arguments[slot], is_choice);
    return is_repeatable(code, argument) && expression_copy(code, argument, to);
}

/* ---- the statements of a call's frames ---- */

/* The statement of a frame, also among several of one line: that of the call. NULL: not known. */
static const struct source_node *
statement_of(struct sources *sources, const struct site_place *frames, uint32_t depth)
{
    const struct site_place *at = &frames[depth];
    const struct source *source = sources_open(sources, at->file);
    if (source == NULL)
        return NULL;
    if (depth > 0)
        return source_statement_calling(source, at->line, at->column, at[-1].function);
    const struct source_node *makes = source_statement_calling(source, at->line, at->column, "cudaMalloc");
    const struct source_node *copies = source_statement_calling(source, at->line, at->column, "cudaMemcpy");
    if (makes == NULL || copies == makes)
        return copies;
    return copies == NULL ? makes : NULL;
}

/* Finds the call of a frame's function in its caller's statement. False: the source does not show it. */
static bool
find_passage(struct sources *sources, const struct source_node *statement, const struct site_place *frames,
             uint32_t depth, struct passage *passage)
{
    const struct site_place *from = &frames[depth - 1], *at = &frames[depth];
    const struct source_node *node = statement_of(sources, frames, depth - 1);
    passage->function = node != NULL ? source_function(node) : NULL;
    if (passage->function == NULL)
        return false;
    passage->inner = node->source;
    passage->said = node->tokens.first;
    passage->outer = statement->source;
    passage->caller = statement;
    passage->name = from->function;
    passage->callee = depth > 1 ? frames[depth - 2].function : "";
    const struct token_range header = {passage->function->tokens.first, source_block(passage->function)->tokens.first};
    if (!call_find(&passage->inner->code, header, from->function, 0, &passage->parameters))
        return false;
    const size_t place = source_place(passage->outer, at->line, at->column);
    passage->makes = false;
    if (call_find(&passage->outer->code, owners_part(statement, place), from->function, place, &passage->call))
        return true;
    passage->makes = owners_find_made(statement, from->function, place, &passage->call);
    return passage->makes;
}

/* Whether a statement calls a function, or, NULL, one of CUDA's for memory. */
static bool
makes_call(const struct source_node *node, const char *callee)
{
    struct lifted said = {0};
    const struct token_range own = source_own(node);
    const size_t length = callee != NULL ? strcspn(callee, "<") : 0;
    if (callee == NULL)
        return read_innermost(node, 0, &said);
    return ANY_NUMBER(i, own.first, own.end, token_is_text(&node->source->code, i, callee, length));
}

/* The last statement of a function of this name that ends with such a call; NULL: `node` is no such function. */
static const struct source_node *
last_calling(const struct source_node *node, const char *function, const char *callee)
{
    const struct source_node *block = source_function(node) == node ? source_block(node) : NULL, *last = block;
    struct call header;
    if (block == NULL)
        return NULL;
    const struct token_range in = {node->tokens.first, block->tokens.first};
    if (!call_find(&node->source->code, in, function, 0, &header))
        return NULL;
    FOR_EACH_INSIDE(it, block)
        last = it->parent == block ? it : last;
    return makes_call(last, callee) ? last : NULL;
}

/* Finds the function that the statement calls and that ends with such a call: it ends by a jump there, and its frame
 * is missing. False: there is none. */
static bool
find_tail(const struct sources *sources, const struct source_node *statement, const char *callee,
          struct site_place *tail)
{
    const struct code *code = &statement->source->code;
    const struct token_range own = source_own(statement);
    for (uint32_t i = own.first; i < own.end; ++i) {
        const bool is_call = token_is(code, i + 1, "(") || token_is_word(code, i + 1); /* or a constructor's */
        if (!token_is_word(code, i) || !is_call)
            continue;
        snprintf(tail->function, sizeof(tail->function), "%.*s", (int)code->tokens[i].length,
                 code->text + code->tokens[i].begin);
        for (uint32_t f = 0; f < sources->count; ++f)
            FOR_EACH_NODE(node, sources->files[f]->first) {
                const struct source_node *last = last_calling(node, tail->function, callee);
                if (last == NULL)
                    continue;
                snprintf(tail->file, sizeof(tail->file), "%s", sources->files[f]->path);
                tail->line = source_line(sources->files[f], last->begin);
                return true;
            }
    }
    return false;
}

bool
lift_find_tail(struct sources *sources, const char *callee, const struct site_place *from, struct site_place *tail)
{
    const struct source *source = sources_open(sources, from->file);
    const struct source_node *node = source != NULL ? source_statement(source, from->line, from->column) : NULL;
    *tail = (struct site_place){0};
    return node != NULL && !makes_call(node, callee) && find_tail(sources, node, callee, tail);
}

/* ---- from frame to frame ---- */

/* Finds what the innermost frame says, or that of a function which ends with the call and has no frame. False:
 * neither says it. */
static bool
lift_innermost(struct sources *sources, const struct source_node *node, const struct site_place *frame,
               struct lifted *lifted)
{
    struct site_place both[2] = {{.line = 0}, *frame};
    if (read_innermost(node, source_place(node->source, frame->line, frame->column), lifted))
        return true;
    return find_tail(sources, node, NULL, &both[0]) && lift(sources, both, 1, lifted);
}

/* What the caller says. */
static void
lift_through(const struct passage *passage, struct lifted *lifted)
{
    const bool is_known = lifted->memory[0] != '\0';
    const bool returns = passage_returns(passage, lifted->memory);
    const bool makes_owner = is_known && passage_returns_owner(passage, lifted->memory);
    const bool passes_owner = !is_known && lifted->is_owned && passage_returns_call(passage);
    lifted->is_owned = lifted->is_owned || makes_owner;
    passage_lift(passage, lifted->memory);
    lifted->is_fixed = lifted->is_fixed || passage_is_fixed(passage, lifted->bytes);
    passage_lift(passage, lifted->bytes);
    lifted->is_fixed = lifted->is_fixed && lifted->bytes[0] == '\0';
    if (lifted->memory[0] != '\0')
        return;
    if (makes_owner || passes_owner)
        passage_owned(passage, lifted->memory);
    else if (returns && !lifted->is_owned)
        passage_assigned_to(passage, lifted->memory);
}

/* Whether the memory's name is not known after the statement: "if (float *w = make(n))". */
static bool
is_known_inside(const struct source_node *node, const char *memory)
{
    const struct code *code = &node->source->code;
    struct token_range own = source_own(node);
    if (!token_is(code, own.first, "if"))
        return false;
    while (own.first < own.end && !token_is(code, own.first, "("))
        ++own.first;
    ++own.first;
    return token_declares(code, own, memory, strlen(memory));
}

bool
lift(struct sources *sources, const struct site_place *frames, uint32_t depth, struct lifted *lifted)
{
    struct passage passage = {0};
    *lifted = (struct lifted){0};
    for (uint32_t i = 0; i <= depth; ++i) {
        const struct source_node *node = statement_of(sources, frames, i);
        if (node == NULL)
            return false;
        if (i == 0) {
            if (!lift_innermost(sources, node, &frames[0], lifted))
                return false;
        } else {
            if (!find_passage(sources, node, frames, i, &passage))
                return false;
            lift_through(&passage, lifted);
        }
        if (i == depth && is_known_inside(node, lifted->memory))
            return false;
    }
    return lifted->memory[0] != '\0' || lifted->bytes[0] != '\0';
}

bool
lift_up(struct sources *sources, const struct site_place *frames, uint32_t depth, char expression[LIFT_BYTES])
{
    const struct source_node *node = statement_of(sources, frames, depth);
    struct passage passage = {.is_front = true};
    if (node == NULL || !find_passage(sources, node, frames, depth, &passage))
        return false;
    struct call *call = &passage.call, first; /* a call makes an argument of the call, before it: the launch is its */
    while (call->count > 0) {
        const struct token_range arguments = {call->arguments[0].first, call->arguments[call->count - 1].end};
        if (!call_find_outermost(&node->source->code, arguments, frames[depth - 1].function, &first))
            break;
        *call = first;
    }
    passage_follow_value(&passage, expression);
    passage_lift(&passage, expression);
    return expression[0] != '\0';
}

/* ---- changes ---- */

/* Whether the statements of `part` set or declare a name of the expression, so that it has another value after them. */
static bool
changes_expression(const struct source *source, struct token_range part, const char *expression)
{
    struct code code = expression_read(expression);
    bool changes = false;
    for (uint32_t i = 0; !changes && expression_next_name(&code, &i); ++i) {
        const char *name = code.text + code.tokens[i].begin;
        const size_t length = code.tokens[i].length;
        changes = expression_sets(&source->code, part, name, length) || passage_is_declared(source, part, name, length);
    }
    code_free(&code);
    return changes;
}

bool
lift_changes(const struct source *source, struct span part, const struct lifted *lifted)
{
    const struct code *code = &source->code;
    struct token_range tokens = {code_token_at(code, part.begin), 0};
    tokens.end = tokens.first;
    while (tokens.end < code->count && code->tokens[tokens.end].begin < part.end)
        ++tokens.end;
    return changes_expression(source, tokens, lifted->memory) || changes_expression(source, tokens, lifted->bytes);
}

char *
lift_bare(char *expression)
{
    struct code code = expression_read(expression);
    uint32_t pairs = 0;
    while (2 * pairs + 1 < code.count && token_is(&code, pairs, "(") &&
           code.tokens[pairs].match == code.count - 1 - pairs)
        ++pairs;
    const struct token_range bare = {pairs, code.count - pairs};
    if (pairs > 0 && bare.end > bare.first) {
        const size_t begin = code.tokens[bare.first].begin, end = token_end(&code, bare.end - 1);
        memmove(expression, expression + begin, end - begin);
        expression[end - begin] = '\0';
    }
    code_free(&code);
    return expression;
}
