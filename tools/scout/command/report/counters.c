/*
 * counters.c - see lines.h.
 *
 * The host runs its part of the update in each batch, and the device makes the update once a round. So a statement that
 * counts updates, such as Adam's, is made where DDP_TURN_UPDATES() is not 0. It is found where the update's kernels get
 * a number that changes from step to step: a statement of its own that only counts, in a function of the update, or in
 * the region, whose name is used for nothing but the update. Where there is none, the number of the update may be
 * computed from that of the batch (corrections.c). Any other number may be the training's progress: lines leave it, and
 * a note names it.
 */
#include "tools/scout/command/report/lines.h"

#include "base/printable.h"

/* A statement that counts. */
struct counter {
    const struct source_node *node;
    const char *name; /* the last name of what it counts up: "t" of "++opt->t"; in the source's text */
    size_t length;
    bool is_member;
};

/* ---- statements that count ---- */

/* The last name of "t", "opt->t", "this->state.t" at token i, for the counter. Returns the token after it; i: there is
 * no name. */
static uint32_t
read_name(const struct code *code, uint32_t i, struct counter *counter)
{
    static const char *const links[] = {".", "->", NULL};
    if (!token_is_word(code, i))
        return i;
    uint32_t last = i;
    while (token_is_one_of(code, last + 1, links) && token_is_word(code, last + 2))
        last += 2;
    counter->name = code->text + code->tokens[last].begin;
    counter->length = code->tokens[last].length;
    counter->is_member = last > i;
    return last + 1;
}

/* Whether the statement counts up, as "++opt->t;", "t++;" or "t += 1;": then what it counts is found. */
static bool
read_counter(const struct source_node *node, struct counter *counter)
{
    const struct code *code = &node->source->code;
    const bool is_front = token_is(code, node->tokens.first, "++");
    const uint32_t name = node->tokens.first + is_front;
    *counter = (struct counter){.node = node};
    const uint32_t next = read_name(code, name, counter);
    if (next == name)
        return false;
    if (is_front)
        return token_is(code, next, ";");
    if (token_is(code, next, "++"))
        return token_is(code, next + 1, ";");
    return token_is(code, next, "+=") && token_is_text(code, next + 1, "1", 1) && token_is(code, next + 2, ";");
}

/* Whether no loop repeats a statement inside a block. */
static bool
is_once(const struct source_node *node, const struct source_node *around)
{
    for (; node != NULL && node != around; node = node->parent)
        if (node->is_loop)
            return false;
    return true;
}

/* ---- what else uses a counter ---- */

/* Whether token i is its name. Of a member that is said with its object, other objects' are, too. */
static bool
is_named(const struct code *code, uint32_t i, const struct counter *counter)
{
    static const char *const links[] = {".", "->", NULL};
    const bool is_member = i > 0 && token_is_one_of(code, i - 1, links);
    if (counter->is_member && !is_member)
        return false;
    return token_is_text(code, i, counter->name, counter->length);
}

/* Whether the name is set to a first value there: "opt->t = 0", "int t = 0;", or declared. */
static bool
is_begun(const struct source *source, uint32_t i, const struct counter *counter)
{
    const struct source_node *node = source_statement_of(source, i);
    if (token_is(&source->code, i + 1, "="))
        return true;
    return node != NULL && source_declares(node, counter->name, counter->length);
}

/* Whether a part of a source uses the name outside of the tokens `free`. */
static bool
is_used(const struct source *source, struct token_range part, struct token_range free, const struct counter *counter)
{
    for (uint32_t i = part.first; i < part.end; ++i) {
        const bool is_free = i >= free.first && i < free.end;
        if (!is_free && is_named(&source->code, i, counter) && !is_begun(source, i, counter))
            return true;
    }
    return false;
}

/* Whether the counter is a variable of its function. */
static bool
is_local(const struct source_node *function, const struct counter *counter)
{
    if (counter->is_member)
        return false;
    FOR_EACH_INSIDE(node, function)
        if (source_declares(node, counter->name, counter->length))
            return true;
    return false;
}

/* Whether only the update uses what is counted: it is used in `free` alone, of its function, or, of a member or a
 * variable of the file, of all sources. */
static bool
is_of_update(struct search *search, const struct counter *counter, struct token_range free)
{
    const struct source_node *function = source_function(counter->node);
    const struct source *own = counter->node->source;
    if (is_local(function, counter))
        return !is_used(own, function->tokens, free, counter);
    for (uint32_t f = 0; f < search->sources.count; ++f) {
        const struct source *source = search->sources.files[f];
        const struct token_range all = {0, source->code.count}, none = {0, 0};
        if (is_used(source, all, source == own ? free : none, counter))
            return false;
    }
    return true;
}

/* ---- the update ---- */

/* Whether an operation gets other numbers in the next step. */
static bool
is_counted(const struct search *search, uint32_t op)
{
    const uint32_t later = op + search->period;
    return search->ops[op].kind == SCOUT_LAUNCH && later < search->log->op_count &&
           search->ops[later].kind == SCOUT_LAUNCH && search->ops[op].scalars != search->ops[later].scalars;
}

/* Puts the condition in front of the statements in `part` that count for the update. Whether there was one. */
static bool
guard_counters(struct search *search, const struct source_node *around, struct token_range part)
{
    bool any = false;
    FOR_EACH_INSIDE(node, around) {
        struct counter counter;
        const bool is_there = node->tokens.first >= part.first && node->tokens.end <= part.end && !node->is_block;
        if (!is_there || node->parent == NULL || !node->parent->is_block || !is_once(node, around) ||
            !read_counter(node, &counter))
            continue;
        if (!is_of_update(search, &counter, (struct token_range){node->tokens.first, part.end}))
            continue;
        struct spot spot = {.node = node};
        spot_add_within(search, &spot, "if (DDP_TURN_UPDATES()) ");
        any = true;
    }
    return any;
}

/* Guards counters in the functions that lead from the region to an operation of its update, and in the region
 * itself. Whether there was one. */
static bool
guard_update(struct search *search, uint32_t op, const struct borders *borders)
{
    struct stack stack = spot_stack_of(search, op);
    bool any = false;
    for (uint32_t i = 0; i < stack.count; ++i) {
        const struct source_node *node = spot_node(search, stack.frames, i);
        const struct source_node *function = node != NULL ? source_function(node) : NULL;
        if (function == NULL)
            continue;
        bool is_region = node->source == borders->front->source && node->begin >= borders->front->begin &&
                         node->begin < borders->back->end;
        if (is_region)
            return guard_counters(search, borders->front->parent,
                                  (struct token_range){borders->front->tokens.first, borders->back->tokens.end}) ||
                   any;
        any = guard_counters(search, function, function->tokens) || any;
    }
    return any;
}

/* What is left where scout has changed nothing: a whole number that grows by one counts, any other may be a rate that
 * follows the progress of the training. */
static void
note_counted(struct search *search, uint32_t op)
{
    char name[SCOUT_NAME_BYTES], place[256];
    bool counts = corrections_slot(search, op) >= 0;
    const char *begin = counts ? "by hand:" : "note:";
    const char *what = counts ? "gets a number that grows by one in each batch: where it is the number of the update, "
                                "give it (number + DDP_WORLD_SIZE() - 1) / DDP_WORLD_SIZE()"
                              : "gets a number that changes in each batch: where it counts updates, as Adam does, "
                                "divide it by DDP_WORLD_SIZE()";
    notes_add(search, xasprintf("%s %s (%s) %s", begin, scout_op_name(search->log, &search->ops[op], name),
                                sites_text(search->sites, search->ops[op].site, place, sizeof(place)), what));
}

/* Of one region. */
static void
count_region(struct search *search, const struct region *region, const struct borders *borders)
{
    const uint32_t begin = search->finding->groups[region->group].complete + 1;
    uint32_t first = SCOUT_NONE;
    bool is_guarded = false, is_corrected = false;
    for (uint32_t op = begin; op <= region->last; ++op) {
        if (!is_counted(search, op))
            continue;
        first = first == SCOUT_NONE ? op : first;
        is_guarded = guard_update(search, op, borders) || is_guarded;
    }
    if (first == SCOUT_NONE || is_guarded)
        return;
    for (uint32_t op = first; op <= region->last; ++op)
        is_corrected = (is_counted(search, op) && corrections_place(search, op, borders)) || is_corrected;
    if (!is_corrected)
        note_counted(search, first);
}

void
counters_place(struct search *search)
{
    for (uint32_t i = 0; i < search->to->region_count; ++i)
        count_region(search, &search->to->regions[i], &search->borders[i]);
}
