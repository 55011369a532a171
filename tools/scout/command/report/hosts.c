/*
 * hosts.c - see lines.h. All ranks run all host code, in each batch: what of it needs another line, or a person's look.
 */
#include "tools/scout/command/report/expression.h"

#include "softgpu/text/calls.h"

#include "base/printable.h"

enum { PLACES_SHOWN = 3 };

/* Places of the sources, for a sentence: "net.cu:31, net.cu:40 ...". */
struct places {
    char text[256];
    uint32_t count;
};

/* Adds "file:line" to the list for a sentence, once; after PLACES_SHOWN of them "..." stands for the rest. */
static void
add_place(struct places *places, const char *file, int line)
{
    OWNED char *place = xasprintf("%s:%d", file_name_of(file), line);
    const size_t length = strlen(places->text);
    if (strstr(places->text, place) != NULL)
        return;
    ++places->count;
    if (places->count <= PLACES_SHOWN)
        snprintf(places->text + length, sizeof(places->text) - length, "%s%s", length > 0 ? ", " : "", place);
    else if (places->count == PLACES_SHOWN + 1)
        snprintf(places->text + length, sizeof(places->text) - length, " ...");
}

/* A sentence with places, if there are any. */
static void
add_note(struct search *search, const struct places *places, const char *before, const char *after)
{
    if (places->count > 0)
        notes_add(search, xasprintf("note: %s%s%s", before, places->text, after));
}

/* ---- words of the sources ---- */

static void
add_token(struct places *places, const struct source *source, uint32_t token)
{
    add_place(places, source->path, (int)source->code.tokens[token].line);
}

static void
add_statement(struct places *places, const struct source_node *node)
{
    add_token(places, node->source, node->tokens.first);
}

/* Adds the place of each token that is one of the words. */
static void
add_words(struct places *places, const struct source *source, struct token_range tokens, const char *const *words)
{
    for (uint32_t i = tokens.first; i < tokens.end; ++i)
        if (token_is_one_of(&source->code, i, words))
            add_token(places, source, i);
}

/* Whether a statement begins with one of the words. */
static bool
begins_with(const struct source_node *node, const char *const *words)
{
    return token_is_one_of(&node->source->code, node->tokens.first, words);
}

static bool
is_if(const struct source_node *node)
{
    static const char *const words[] = {"if", NULL};
    return begins_with(node, words);
}

/* Whether token i is a string that begins like "w" or "a", which are modes of fopen(). */
static bool
is_mode_for_writing(const struct code *code, uint32_t i)
{
    const struct token *token = &code->tokens[i];
    const char *text = code->text + token->begin;
    if (token->kind != TOKEN_STRING || token->length < 2)
        return false;
    return text[1] == 'w' || text[1] == 'a';
}

/* Whether token i is the name of a call of fopen() that opens a file for writing. */
static bool
opens_for_writing(const struct code *code, uint32_t i)
{
    struct call call;
    if (!token_is(code, i, "fopen") || !call_read(code, i, i, &call) || call.count < 2)
        return false;
    const struct token_range mode = call.arguments[1];
    return ANY_NUMBER(k, mode.first, mode.end, is_mode_for_writing(code, k));
}

/* Adds all places of a source that open a file for writing. */
static void
add_saves(struct places *places, const struct source *source)
{
    const struct code *code = &source->code;
    for (uint32_t i = 0; i < code->count; ++i)
        if (token_is(code, i, "ofstream") || opens_for_writing(code, i))
            add_token(places, source, i);
}

/* ---- the loop over batches ---- */

static bool
is_around(const struct source_node *node, const struct borders *borders)
{
    return node->source == borders->front->source && node->begin <= borders->front->begin &&
           node->end >= borders->back->end;
}

/* The innermost loop around a region: in its function, or in one that calls it; NULL. */
static const struct source_node *
find_loop(struct search *search, const struct region *region, const struct borders *borders)
{
    struct stack stack = spot_stack_of(search, region->last);
    bool is_outside = false;
    for (uint32_t i = 0; i < stack.count; ++i) {
        bool is_there = false;
        for (const struct source_node *node = spot_node(search, stack.frames, i); node != NULL; node = node->parent) {
            is_there = is_there || is_around(node, borders);
            if (node->is_loop && (is_there || is_outside))
                return node;
        }
        is_outside = is_outside || is_there;
    }
    return NULL;
}

/* Whether a statement ends the loop, or the function around it. */
static bool
leaves_loop(const struct source_node *node, const struct source_node *loop)
{
    static const char *const of_function[] = {"return", "goto", NULL};
    static const char *const of_loop[] = {"break", NULL};
    static const char *const choices[] = {"switch", NULL};
    if (begins_with(node, of_function))
        return true;
    if (!begins_with(node, of_loop))
        return false;
    for (const struct source_node *it = node->parent; it != loop; it = it->parent)
        if (it->is_loop || begins_with(it, choices))
            return false;
    return true;
}

/* Of the loop over batches and the loops around it, as over epochs. */
static void
note_loops(struct search *search, const struct source_node *inner)
{
    static const char *const prints[] = {"printf", "puts", "cout", NULL};
    struct places printed = {.count = 0}, left = {.count = 0};
    const struct source_node *outer = inner;
    for (const struct source_node *loop = inner; loop != NULL; loop = loop->parent) {
        if (!loop->is_loop)
            continue;
        outer = loop;
        FOR_EACH_INSIDE(node, loop)
            if (leaves_loop(node, loop))
                add_statement(&left, node);
    }
    add_words(&printed, outer->source, outer->tokens, prints);
    add_note(search, &printed, "every rank prints at ", ": if (DDP_RANK() == 0) prints once");
    add_note(search, &left, "the loop may end at ",
             ": decide by DDP_MEAN of a loss, or ranks stop after different batches");
}

/* ---- figures ---- */

/* Whether an operation gives the host a result. */
static bool
is_read(const struct scout_op *op)
{
    bool is_copied = op->kind == SCOUT_COPY && op->to.alloc == SCOUT_NONE && op->from.alloc != SCOUT_NONE;
    return is_copied || op->answers != 0;
}

/* The tensor of which a copy brings bytes; NULL. */
static const struct scout_tensor *
read_tensor(const struct search *search, const struct scout_op *op)
{
    return FIND(it, search->finding->tensors, search->finding->tensor_count,
                op->kind == SCOUT_COPY && it->alloc == op->from.alloc && op->from.offset < it->hi &&
                    op->from.offset + op->bytes > it->lo);
}

/* Results that the host reads in steps: of a rank's own batch, or sums that the device keeps. `loop`: around the
 * batches, or NULL; of its copies to the host some may come seldom. */
static void
note_figures(struct search *search, const struct source_node *loop)
{
    static const char *const copies[] = {"cudaMemcpyDeviceToHost", NULL};
    struct places own = {.count = 0}, sums = {.count = 0};
    for (uint32_t i = search->start; i < search->log->op_count; ++i) {
        const struct scout_op *op = &search->ops[i];
        struct stack stack = spot_stack_of(search, i);
        if (!is_read(op) || stack.count == 0)
            continue;
        const struct scout_tensor *tensor = read_tensor(search, op);
        bool is_kept = tensor != NULL && (tensor->role == ROLE_STATISTICS || tensor->role == ROLE_CARRIED);
        bool is_alike = tensor != NULL && !is_kept; /* on all ranks: parameters and their state */
        if (!is_alike)
            add_place(is_kept ? &sums : &own, stack.frames[0].file, stack.frames[0].line);
    }
    if (loop != NULL)
        add_words(&own, loop->source, loop->tokens, copies);
    add_note(search, &own, "what the host reads at ",
             " is of the rank's own batch: DDP_MEAN(&figure) where it is printed, not in each batch");
    add_note(search, &sums, "what the host reads at ",
             " adds up the rank's own batches: DDP_REDUCE adds up all ranks'");
}

/* ---- state that moves on ---- */

/* Random states and counters that a region moves on: on other ranks' turns they stand still. */
static void
note_moves(struct search *search, const struct region *region)
{
    struct places moves = {.count = 0};
    FOR_EACH(tensor, search->finding->tensors, search->finding->tensor_count) {
        bool is_state = tensor->role == ROLE_RANDOM ||
                        (tensor->role == ROLE_CARRIED && !scout_is_read_by_host(search->log, tensor));
        struct stack stack = spot_stack_of(search, tensor->writer);
        uint32_t last = region->last + (region->last < region->begin ? search->period : 0);
        uint32_t writer = tensor->writer + (tensor->writer < region->begin ? search->period : 0);
        if (is_state && stack.count > 0 && writer <= last)
            add_place(&moves, stack.frames[0].file, stack.frames[0].line);
    }
    add_note(search, &moves, "random numbers or counters that the device moves on at ",
             " stand still on other ranks' turns: move them on before DDP_TURN_BEGIN");
}

/* An update under a condition: of a run of micro-batches, or of a function that evaluates, too. */
static void
note_condition(struct search *search, const struct borders *borders)
{
    const struct source_node *back = borders->back;
    struct places conditions = {.count = 0};
    if (back == borders->update || !is_if(back))
        return;
    add_statement(&conditions, back);
    add_note(search, &conditions, "the update stands under a condition at ",
             ": an evaluation by these lines is computed by one rank, and its figures are to be read where "
             "DDP_TURN_MINE() is not 0");
}

/* ---- batches that the host leaves out ---- */

static bool
has_word(const struct code *code, struct token_range tokens, const char *word)
{
    return ANY_NUMBER(i, tokens.first, tokens.end, token_is(code, i, word));
}

/* Whether the statement leaves the batch out if the variable is set: "if (bad) { ...; continue; }". */
static bool
leaves_out(const struct source_node *node, const char *variable)
{
    const struct code *code = &node->source->code;
    if (!is_if(node))
        return false;
    const uint32_t open = node->tokens.first + 1, close = token_next(code, open);
    const struct token_range header = {open, close}, body = {close, node->tokens.end};
    return has_word(code, header, variable) && has_word(code, body, "continue");
}

/* The variable that a copy to the host fills: "bad" of "&bad"; "": it is not known. */
static void
find_variable(struct search *search, uint32_t op, char variable[LIFT_BYTES])
{
    struct stack stack = spot_stack_of(search, op);
    struct lifted said = {0};
    variable[0] = '\0';
    if (stack.count == 0 || !lift(&search->sources, stack.frames, 0, &said))
        return;
    struct code code = expression_read(said.memory);
    const uint32_t name = token_is(&code, 0, "&") ? 1 : 0;
    if (token_is_word(&code, name))
        snprintf(variable, LIFT_BYTES, "%.*s", (int)code.tokens[name].length, said.memory + code.tokens[name].begin);
    code_free(&code);
}

/* A result that is read in a region, and by which the host leaves a batch out, as a loss scaler does: on other ranks'
 * turns it is old. */
static void
note_left_out(struct search *search, const struct borders *borders)
{
    struct places left = {.count = 0};
    for (uint32_t i = search->first; i < search->first + search->period; ++i) {
        char variable[LIFT_BYTES];
        if (!is_read(&search->ops[i]))
            continue;
        find_variable(search, i, variable);
        FOR_EACH_NODE(node, variable[0] != '\0' ? borders->front : NULL) {
            if (node->begin >= borders->back->end)
                break;
            if (leaves_out(node, variable))
                add_statement(&left, node);
        }
    }
    if (left.count > 0)
        notes_add(search, xasprintf("by hand: a result of the device leaves batches out at %s: decide where "
                                    "DDP_TURN_UPDATES() is not 0, with DDP_STEP before what computes the result",
                                    left.text));
}

/* ---- all ---- */

void
hosts_note(struct search *search)
{
    struct places saved = {.count = 0};
    const struct region *region = &search->to->regions[0];
    const struct source_node *loop = find_loop(search, region, &search->borders[0]);
    note_figures(search, loop);
    if (loop != NULL) {
        note_loops(search, loop);
        decisions_note(search, loop, region, &search->borders[0]);
    }
    for (uint32_t f = 0; f < search->sources.count; ++f)
        if (search->sources.files[f]->text != NULL)
            add_saves(&saved, search->sources.files[f]);
    add_note(search, &saved, "every rank writes the file of ", ": if (DDP_RANK() == 0) writes it once");
    if (ANY(it, search->finding->groups, search->finding->group_count, it->fused))
        notes_add(search, xstrdup("note: parameters of DDP_STEP_PARAMETERS differ between ranks until a round is "
                                  "complete: save them where DDP_TURN_UPDATES() is not 0"));
    for (uint32_t i = 0; i < search->to->region_count; ++i) {
        note_moves(search, &search->to->regions[i]);
        note_condition(search, &search->borders[i]);
        note_left_out(search, &search->borders[i]);
    }
}
