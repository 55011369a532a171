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
    struct span name; /* the last name of what it counts up: "t" of "++opt->t" */
    bool is_member;
};

/* ---- statements that count ---- */

/* "++opt->t;", "t++;", "t += 1;": what is counted up; `begin` is the statement's. */
static bool
read_counter(const struct source_node *node, struct counter *counter)
{
    const char *text = node->source->text;
    size_t at = node->begin, end = node->end;
    bool is_front = strncmp(text + at, "++", 2) == 0;
    *counter = (struct counter){.node = node};
    at = source_skip(text, is_front ? at + 2 : at);
    while (at < end && source_is_word(text[at])) {
        counter->name = (struct span){at, source_token(text, at)};
        at = source_skip(text, counter->name.end);
        size_t sign = strncmp(text + at, "->", 2) == 0 ? 2 : text[at] == '.';
        counter->is_member = counter->is_member || sign > 0;
        if (sign == 0)
            break;
        at = source_skip(text, at + sign);
    }
    if (counter->name.end == 0)
        return false;
    if (is_front)
        return text[at] == ';';
    if (strncmp(text + at, "++", 2) == 0)
        return text[source_skip(text, at + 2)] == ';';
    if (strncmp(text + at, "+=", 2) != 0)
        return false;
    at = source_skip(text, at + 2);
    return text[at] == '1' && text[source_skip(text, at + 1)] == ';';
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

/* Of a member that is said with its object, other objects' are, too. `last`: the token before. */
static bool
is_named(const char *text, size_t last, size_t at, const struct counter *counter)
{
    const struct span name = counter->name;
    const size_t length = name.end - name.begin;
    bool is_member = text[last] == '.' || text[last] == '>';
    if (counter->is_member && !is_member)
        return false;
    return source_token(text, at) == at + length &&
           memcmp(text + at, counter->node->source->text + name.begin, length) == 0;
}

/* Whether the name is set to a first value there: "opt->t = 0", "int t = 0;", or declared. */
static bool
is_begun(const struct source *source, size_t at, const struct counter *counter)
{
    const char *text = source->text;
    const size_t next = source_skip(text, source_token(text, at));
    const struct source_node *node = source_statement_at(source, at);
    const char *name = counter->node->source->text + counter->name.begin;
    bool is_set = text[next] == '=' && text[next + 1] != '=';
    return is_set || (node != NULL && source_declares(node, name, counter->name.end - counter->name.begin));
}

/* Whether a part of a source uses the name outside of [free.begin, free.end). */
static bool
is_used(const struct source *source, struct span part, struct span free, const struct counter *counter)
{
    const char *text = source->text;
    size_t last = part.begin, at = source_skip(text, part.begin);
    for (; at < part.end && text[at] != '\0'; last = at, at = source_skip(text, source_token(text, at))) {
        bool is_free = at >= free.begin && at < free.end;
        if (!is_free && is_named(text, last, at, counter) && !is_begun(source, at, counter))
            return true;
    }
    return false;
}

/* Whether only the update uses what is counted: it is used in `free` alone, of its function, or, of a member or a
 * variable of the file, of all sources. */
static bool
is_of_update(struct search *search, const struct counter *counter, struct span free)
{
    const struct source_node *function = source_function(counter->node);
    const struct source *own = counter->node->source;
    bool is_local = false;
    FOR_EACH_INSIDE(node, function)
        is_local = is_local || (!counter->is_member && source_declares(node, own->text + counter->name.begin,
                                                                       counter->name.end - counter->name.begin));
    if (is_local)
        return !is_used(own, (struct span){function->begin, function->end}, free, counter);
    for (uint32_t f = 0; f < search->sources.count; ++f) {
        const struct source *source = search->sources.files[f];
        struct span all = {0, source->text != NULL ? strlen(source->text) : 0};
        if (is_used(source, all, source == own ? free : (struct span){0, 0}, counter))
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

/* Puts the condition in front of the statements in `part` that count for the update. */
static bool
guard_counters(struct search *search, const struct source_node *around, struct span part)
{
    bool any = false;
    FOR_EACH_INSIDE(node, around) {
        struct counter counter;
        bool is_there = node->begin >= part.begin && node->end <= part.end && !node->is_block;
        if (!is_there || node->parent == NULL || !node->parent->is_block || !is_once(node, around) ||
            !read_counter(node, &counter))
            continue;
        if (!is_of_update(search, &counter, (struct span){node->begin, part.end}))
            continue;
        struct spot spot = {.node = node};
        spot_add_within(search, &spot, "if (DDP_TURN_UPDATES()) ");
        any = true;
    }
    return any;
}

/* In the functions that lead from the region to an operation of its update, and in the region itself. */
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
                                  (struct span){borders->front->begin, borders->back->end}) ||
                   any;
        any = guard_counters(search, function, (struct span){function->begin, function->end}) || any;
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
