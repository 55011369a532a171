/*
 * decisions.c - see lines.h.
 *
 * On other ranks' turns a rank reads results of its own batches. What the host computes from these differs between
 * ranks, and must not reach the device. By the text of the function around the batches: a name gets what is read,
 * others what is computed from it or under a condition on it; then a launch gets such a name, or stands under such a
 * condition.
 */
#include "tools/scout/command/report/expression.h"

#include "softgpu/text/calls.h"
#include "tools/common/grown.h"

#include "base/assertion.h"

enum { NAMES_AT_MOST = 64, NAME_BYTES = 64, PASSES = 8 };

struct followed {
    struct search *search;
    const struct source_node *loop; /* the outermost loop around the batches */
    const struct region *region;
    const struct borders *borders;
    char names[NAMES_AT_MOST][NAME_BYTES]; /* of what is of a rank's own batch: "loss", "t.best" */
    uint32_t name_count;
    char read_at[64];                     /* where the host reads the first of it: "net.cu:31" */
    const struct source_node **launching; /* statements inside the loop that lead to the batch's launches */
    uint32_t launching_count;
};

static bool
is_within(const struct source_node *node, const struct source_node *around)
{
    return node->source == around->source && node->begin >= around->begin && node->end <= around->end;
}

/* Whether the statement lies between the lines that begin and end a turn. */
static bool
is_in_region(const struct followed *it, const struct source_node *node)
{
    const struct borders *borders = it->borders;
    return node->source == borders->front->source && node->begin >= borders->front->begin &&
           node->begin < borders->back->end;
}

/* ---- names ---- */

/* Whether a name stands for itself at token i: it is no member of another object. */
static bool
begins_name(const struct code *code, uint32_t i)
{
    static const char *const links[] = {".", "->", "::", NULL};
    return token_is_word(code, i) && (i == 0 || !token_is_one_of(code, i - 1, links));
}

/* The name that begins at token i, with its members, and without what is in its brackets: "t.best" of "t[k].best";
 * "each" of "each.data()". Returns the token after it. */
static uint32_t
read_name(const struct code *code, uint32_t i, char name[NAME_BYTES])
{
    size_t length = 0;
    for (bool goes_on = true; goes_on;) {
        const struct token *token = &code->tokens[i];
        if (length + token->length + 2 > NAME_BYTES)
            break;
        memcpy(name + length, code->text + token->begin, token->length);
        length += token->length;
        for (++i; token_is(code, i, "[");)
            i = token_next(code, i);
        const bool is_member = token_is(code, i, ".") || token_is(code, i, "->");
        goes_on = is_member && token_is_word(code, i + 1) && !token_is(code, i + 2, "(");
        if (goes_on) {
            name[length++] = '.';
            ++i;
        }
    }
    name[length] = '\0';
    return i;
}

/* Adds a variable whose value follows from what is read of a rank's own batch, once. */
static void
add_name(struct followed *it, const char *name)
{
    const bool is_known = ANY_NUMBER(i, 0, it->name_count, strcmp(it->names[i], name) == 0);
    if (is_known || name[0] == '\0' || it->name_count == NAMES_AT_MOST)
        return;
    snprintf(it->names[it->name_count++], NAME_BYTES, "%s", name);
}

/* Whether a name is one that is followed, or a member of it. */
static bool
is_followed(const struct followed *it, const char *name)
{
    for (uint32_t i = 0; i < it->name_count; ++i) {
        const size_t length = strlen(it->names[i]);
        if (strncmp(name, it->names[i], length) == 0 && (name[length] == '\0' || name[length] == '.'))
            return true;
    }
    return false;
}

static bool
is_assignment(const struct code *code, uint32_t i)
{
    static const char *const signs[] = {"=", "+=", "-=", "*=", "/=", NULL};
    return token_is_one_of(code, i, signs);
}

/* Whether any of the tokens is a name that is followed, and that is not only assigned to. */
static bool
uses_followed(const struct followed *it, const struct code *code, struct token_range tokens)
{
    for (uint32_t i = tokens.first; i < tokens.end; ++i) {
        char name[NAME_BYTES];
        if (!begins_name(code, i))
            continue;
        const uint32_t behind = read_name(code, i, name);
        if (is_followed(it, name) && !is_assignment(code, behind))
            return true;
    }
    return false;
}

/* ---- assignments ---- */

/* The first token of the name that is assigned to by the sign at token i, from `first` on. */
static uint32_t
assigned_from(const struct code *code, uint32_t first, uint32_t i)
{
    static const char *const links[] = {".", "->", NULL};
    for (; i > first; --i) {
        const bool closes = token_is(code, i - 1, "]");
        if (closes && code->tokens[i - 1].match > 0)
            i = code->tokens[i - 1].match + 1;
        else if (begins_name(code, i - 1))
            return i - 1;
        else if (!token_is_word(code, i - 1) && !token_is_one_of(code, i - 1, links))
            break;
    }
    return UINT32_MAX;
}

/* The end of the value behind the sign of an assignment: a comma, a semicolon, or a bracket that it stands in. */
static uint32_t
value_end(const struct code *code, uint32_t i, uint32_t end)
{
    static const char *const ends[] = {",", ";", ")", "}", NULL};
    while (i < end && !token_is_one_of(code, i, ends))
        i = token_next(code, i);
    return i < end ? i : end;
}

/* Follows what is assigned in tokens: all of it, or what is computed from names that are followed. */
static void
follow_assignments(struct followed *it, const struct code *code, struct token_range tokens, bool all)
{
    for (uint32_t i = tokens.first; i < tokens.end; ++i) {
        char name[NAME_BYTES];
        const uint32_t from = is_assignment(code, i) ? assigned_from(code, tokens.first, i) : UINT32_MAX;
        if (from == UINT32_MAX)
            continue;
        const struct token_range value = {i + 1, value_end(code, i + 1, tokens.end)};
        if (!all && !uses_followed(it, code, value))
            continue;
        (void)read_name(code, from, name);
        add_name(it, name);
    }
}

/* "for (float e : each)" */
static void
follow_elements(struct followed *it, const struct code *code, struct token_range header)
{
    for (uint32_t i = header.first + 1; i + 1 < header.end; ++i) {
        const struct token_range list = {i + 1, header.end};
        if (token_is(code, i, ":") && token_is_word(code, i - 1) && uses_followed(it, code, list)) {
            char name[NAME_BYTES];
            (void)read_name(code, i - 1, name);
            add_name(it, name);
        }
    }
}

/* ---- conditions ---- */

static bool
has_condition(const struct source_node *node)
{
    static const char *const words[] = {"if", "while", "for", "switch", NULL};
    return token_is_one_of(&node->source->code, node->tokens.first, words);
}

/* Whether the host decides at a statement by what is followed. */
static bool
decides(const struct followed *it, const struct source_node *node)
{
    return has_condition(node) && uses_followed(it, &node->source->code, source_own(node));
}

/* The statement around a node, inside the loop, that decides whether it is reached; NULL. */
static const struct source_node *
decided_at(const struct followed *it, const struct source_node *node)
{
    for (const struct source_node *at = node->parent; at != NULL && at != it->loop; at = at->parent)
        if (decides(it, at))
            return at;
    return NULL;
}

/* ---- what the host reads ---- */

/* Keeps the first place at which the host reads what is of a rank's own batch. */
static void
note_reading(struct followed *it, const struct source *source, uint32_t token)
{
    const char *slash = strrchr(source->path, '/');
    if (it->read_at[0] == '\0')
        snprintf(it->read_at, sizeof(it->read_at), "%.50s:%u", slash != NULL ? slash + 1 : source->path,
                 source->code.tokens[token].line);
}

/* The memory of an expression: "now" of "&now", "(void *)now". */
static void
follow_expression(struct followed *it, const struct code *code, struct token_range tokens)
{
    char name[NAME_BYTES];
    uint32_t i = tokens.first;
    while (i < tokens.end && (token_is(code, i, "&") || token_is(code, i, "(")))
        i = token_is(code, i, "(") ? token_next(code, i) : i + 1;
    if (i >= tokens.end || !begins_name(code, i))
        return;
    (void)read_name(code, i, name);
    add_name(it, name);
}

/* Whether the last launch in front of a token stands in the region. */
static bool
follows_region(const struct followed *it, uint32_t token)
{
    const struct source *source = it->loop->source;
    while (token > it->loop->tokens.first && !token_run(&source->code, token, '<', 3))
        --token;
    const struct source_node *node = source_statement_of(source, token);
    return node != NULL && is_in_region(it, node);
}

/* No longer follows the memory of an expression. */
static void
forget_expression(struct followed *it, const struct code *code, struct token_range tokens)
{
    for (uint32_t i = 0; i < it->name_count;) {
        char name[NAME_BYTES];
        uint32_t at = tokens.first;
        while (at < tokens.end && !begins_name(code, at))
            ++at;
        (void)read_name(code, at, name);
        if (strcmp(it->names[i], name) != 0)
            ++i;
        else if (--it->name_count > i)
            memcpy(it->names[i], it->names[it->name_count], NAME_BYTES);
    }
}

/* Copies to the host in the loop that the text shows, outside of the region, as `own` of a batch: what the region
 * itself reads after its gradients were averaged is the same on all ranks. A name that also gets what all ranks
 * evaluate alike is not followed: the text does not say which of both is used. */
static void
follow_copies(struct followed *it, bool own)
{
    const struct code *code = &it->loop->source->code;
    for (uint32_t i = it->loop->tokens.first; i < it->loop->tokens.end; ++i) {
        const struct source_node *node =
            token_is(code, i, "cudaMemcpyDeviceToHost") ? source_statement_of(it->loop->source, i) : NULL;
        const uint32_t open = token_enclosing(code, i);
        if (node == NULL || is_in_region(it, node) || open >= code->count || follows_region(it, i) != own)
            continue;
        if (!own) {
            forget_expression(it, code, (struct token_range){open + 1, i});
            continue;
        }
        follow_expression(it, code, (struct token_range){open + 1, i});
        note_reading(it, it->loop->source, node->tokens.first);
    }
}

/* Whether an operation of a batch comes after its gradients were averaged, and before the end of its update. */
static bool
is_of_update(const struct followed *it, uint32_t op)
{
    const struct search *search = it->search;
    const uint32_t before = search->finding->groups[it->region->group].before;
    const uint32_t from = before < search->first + search->period ? before : before - search->period;
    return ANY_NUMBER(k, from, it->region->last + 1, scout_is_same_call(&search->ops[k], &search->ops[op]));
}

/* Whether a step computes what a copy brings: an evaluation, which stands outside of regions, all ranks compute. */
static bool
is_of_step(const struct followed *it, uint32_t copy)
{
    const struct search *search = it->search;
    const uint32_t alloc = search->ops[copy].from.alloc;
    uint32_t last = copy;
    while (last > 0 &&
           !ANY(argument, search->ops[last].arguments, search->ops[last].argument_count, argument->alloc == alloc))
        --last;
    return ANY_NUMBER(k, search->first, search->first + search->period,
                      scout_is_same_call(&search->ops[k], &search->ops[last]));
}

/* Whether an operation brings the host a result that is of the rank's own batch. */
static bool
reads_own(const struct followed *it, uint32_t op)
{
    const struct scout_op *at = &it->search->ops[op];
    const bool is_copy = at->kind == SCOUT_COPY && at->to.alloc == SCOUT_NONE && at->from.alloc != SCOUT_NONE;
    const struct scout_finding *finding = it->search->finding;
    const bool is_trained = ANY(tensor, finding->tensors, finding->tensor_count,
                                tensor->alloc == at->from.alloc && tensor->role <= ROLE_AVERAGE);
    return is_copy && !is_trained && is_of_step(it, op) && !is_of_update(it, op);
}

/* The statement of the loop that leads to an operation; its frame in *depth_p. NULL: none does. */
static const struct source_node *
statement_of(const struct followed *it, struct stack stack, uint32_t *depth_p)
{
    for (*depth_p = 0; *depth_p < stack.count; ++*depth_p) {
        const struct source_node *node = spot_node(it->search, stack.frames, *depth_p);
        if (node != NULL && is_within(node, it->loop) && node != it->loop)
            return node;
    }
    return NULL;
}

/* What a recorded copy to the host brings: by its own call in the loop, or by a function that is called there. */
static void
follow_read(struct followed *it, uint32_t op)
{
    struct stack stack = spot_stack_of(it->search, op);
    struct lifted said = {0};
    uint32_t depth;
    const struct source_node *node = statement_of(it, stack, &depth);
    if (node == NULL)
        return;
    if (depth > 0) {
        follow_assignments(it, &node->source->code, source_own(node), true);
    } else if (lift(&it->search->sources, stack.frames, 0, &said)) {
        struct code code = expression_read(said.memory);
        follow_expression(it, &code, (struct token_range){0, code.count});
        code_free(&code);
    }
    note_reading(it, node->source, node->tokens.first);
}

/* Follows what the host reads of a rank's own batch through the loop: first copies, then assignments, until no new name
 * comes. */
static void
follow_all(struct followed *it)
{
    for (uint32_t op = it->search->start; op < it->search->log->op_count; ++op)
        if (reads_own(it, op))
            follow_read(it, op);
    follow_copies(it, true);
    follow_copies(it, false);
    for (int pass = 0; pass < PASSES && it->name_count > 0; ++pass)
        FOR_EACH_INSIDE(node, it->loop) {
            const struct code *code = &node->source->code;
            const struct token_range own = source_own(node);
            if (has_condition(node))
                follow_elements(it, code, own);
            else
                follow_assignments(it, code, own, decided_at(it, node) != NULL);
        }
}

/* ---- what launches get ---- */

/* Lists the statements of the loop that launch operations of the period. */
static void
find_launching(struct followed *it)
{
    const struct search *search = it->search;
    for (uint32_t op = search->first; op < search->first + search->period; ++op) {
        if (search->ops[op].kind != SCOUT_LAUNCH)
            continue;
        struct stack stack = spot_stack_of(search, op);
        uint32_t depth;
        const struct source_node *node = statement_of(it, stack, &depth);
        if (node != NULL)
            *GROWN(it->launching, it->launching_count) = node;
    }
}

/* "train.cu:12" of a statement, malloc'ed. */
static char *
place_of(const struct source_node *node)
{
    const char *slash = strrchr(node->source->path, '/');
    return xasprintf("%s:%u", slash != NULL ? slash + 1 : node->source->path,
                     node->source->code.tokens[node->tokens.first].line);
}

/* Whether token i is a buffer that a call may fill: "&norm", "norms.data()". */
static bool
is_buffer(const struct code *code, uint32_t i, uint32_t behind)
{
    static const char *const before[] = {"(", ",", NULL};
    if (i > 1 && token_is(code, i - 1, "&") && token_is_one_of(code, i - 2, before))
        return true;
    return token_is(code, behind, ".") && token_is(code, behind + 1, "data");
}

/* Whether a launch, or a call that leads to one, gets a name that is followed, as a number. */
static bool
gets_followed(const struct followed *it, const struct source_node *node)
{
    const struct code *code = &node->source->code;
    const struct token_range own = source_own(node);
    for (uint32_t i = own.first; i < own.end; ++i) {
        char name[NAME_BYTES];
        if (!begins_name(code, i))
            continue;
        const uint32_t behind = read_name(code, i, name);
        if (is_followed(it, name) && !is_assignment(code, behind) && !is_buffer(code, i, behind))
            return true;
    }
    return false;
}

/* Notes, by hand, the first launch that depends on what was read of a rank's own batch. Whether there is one. */
static bool
note_launches(struct followed *it)
{
    for (uint32_t i = 0; i < it->launching_count; ++i) {
        const struct source_node *node = it->launching[i], *decision = decided_at(it, node);
        OWNED char *place = place_of(decision != NULL ? decision : node);
        if (decision != NULL) {
            notes_add(it->search, xasprintf("by hand: the host decides at %s what it launches by what it reads at %s, "
                                            "which is of a rank's own batch: let all ranks decide by a DDP_MEAN, where "
                                            "DDP_TURN_UPDATES() is not 0",
                                            place, it->read_at));
            return true;
        }
        if (!has_condition(node) && gets_followed(it, node)) {
            notes_add(it->search, xasprintf("by hand: what is launched at %s gets a number that the host computes from "
                                            "what it reads at %s, which is of a rank's own batch: read it where "
                                            "DDP_TURN_MINE() is not 0, and compute with its DDP_MEAN",
                                            place, it->read_at));
            return true;
        }
    }
    return false;
}

/* ---- what is saved, and read again ---- */

static bool
has_any(const struct code *code, struct token_range tokens, const char *const *words)
{
    return ANY_NUMBER(i, tokens.first, tokens.end, token_is_one_of(code, i, words));
}

static const char *const writing[] = {"fwrite", "fprintf", "ofstream", NULL};

/* Whether token i is the name in a definition of a function; its block. */
static bool
read_definition(const struct code *code, uint32_t i, struct token_range *block)
{
    static const char *const qualifiers[] = {"const", "noexcept", "override", NULL};
    if (!token_is_word(code, i) || !token_is(code, i + 1, "("))
        return false;
    uint32_t at = token_next(code, i + 1);
    while (token_is_one_of(code, at, qualifiers))
        ++at;
    *block = (struct token_range){at, token_next(code, at)};
    return token_is(code, at, "{");
}

/* Whether a function of the file that is named as token `call` says writes a file. */
static bool
calls_writer(const struct code *code, uint32_t call)
{
    struct token_range block;
    for (uint32_t i = 0; i < code->count; ++i)
        if (token_is_same_word(code, i, call) && read_definition(code, i, &block) && has_any(code, block, writing))
            return true;
    return false;
}

/* Whether a statement, or a function that it calls, writes a file. */
static bool
saves(const struct source_node *node)
{
    const struct code *code = &node->source->code;
    return ANY_NUMBER(i, node->tokens.first, node->tokens.end,
                      token_is_word(code, i) && token_is(code, i + 1, "(") && calls_writer(code, i));
}

/* Whether a function of a file brings the device what it reads from a file. */
static bool
loads(const struct source *source)
{
    static const char *const reading[] = {"fread", "fscanf", "ifstream", NULL}, *const bringing[] = {
                                                                                    "cudaMemcpyHostToDevice",
                                                                                    "cuMemcpyHtoD", NULL};
    struct token_range block;
    for (uint32_t i = 0; i < source->code.count; ++i)
        if (read_definition(&source->code, i, &block) && has_any(&source->code, block, reading) &&
            has_any(&source->code, block, bringing))
            return true;
    return false;
}

/* Notes, by hand, that the host saves by what it reads of a rank's own batch, in a program that loads what was
 * saved. */
static void
note_saving(struct followed *it)
{
    if (!loads(it->loop->source))
        return;
    FOR_EACH_INSIDE(node, it->loop) {
        if (!decides(it, node) || !saves(node))
            continue;
        OWNED char *place = place_of(node);
        notes_add(it->search,
                  xasprintf("by hand: the host decides at %s what it saves by what it reads at %s, which is "
                            "of a rank's own batch, and the program loads what was saved: let all ranks "
                            "decide by a DDP_MEAN, where DDP_TURN_UPDATES() is not 0",
                            place, it->read_at));
        return;
    }
}

/* ---- all ---- */

/* The outermost loop around a loop of the sources. */
static const struct source_node *
outermost(const struct source_node *loop)
{
    const struct source_node *outer = loop;
    ASSERT(loop != NULL);
    for (const struct source_node *node = loop; node != NULL; node = node->parent)
        if (node->is_loop)
            outer = node;
    return outer;
}

void
decisions_note(struct search *search, const struct source_node *loop, const struct region *region,
               const struct borders *borders)
{
    struct followed it = {.search = search, .loop = outermost(loop), .region = region, .borders = borders};
    follow_all(&it);
    if (it.name_count == 0)
        return;
    find_launching(&it);
    if (!note_launches(&it))
        note_saving(&it);
    free(it.launching);
}
