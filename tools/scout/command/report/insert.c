/*
 * insert.c - see lines.h.
 *
 * A tensor is annotated after its allocation, a parameter and state after the operation that sets it last before the
 * first step, too, in the innermost function that says its name and comes by for nothing else. The boundary stands in
 * the innermost function that leads to both the last write of a gradient and the first read.
 */
#include "tools/scout/command/report/lines.h"

#include "tools/plan/format/play.h"
#include "tools/scout/command/analysis/rules.h"

enum { GROUPS_AT_MOST = 16 /* as DDP_GRADIENT_GROUP */ };

/* Of one line: a brace comes after what it closes, and #undef in front of the next #define. */
static int
rank_of(const struct insertion *insertion)
{
    return (strcmp(insertion->text + strspn(insertion->text, " "), "}") == 0) -
           (strncmp(insertion->text, "#undef", 6) == 0);
}

/* By file, line, and place in the line; then in their order. */
static int
compare_insertions(const void *first_item, const void *other)
{
    const struct insertion *a = first_item, *b = other;
    const int by_file = strcmp(a->file, b->file);
    if (by_file != 0)
        return by_file;
    if (a->line != b->line)
        return a->line - b->line;
    if (a->within != b->within)
        return COMPARE(a, b, within, 0);
    if (rank_of(a) != rank_of(b))
        return rank_of(a) - rank_of(b);
    return COMPARE(a, b, number, 0);
}

/* ---- tensors ---- */

/* Finds the spot and the line of a tensor in the function of frame `depth`. False: it has none. */
static bool
find_tensor_line(struct search *search, const struct scout_tensor *tensor, uint32_t depth, struct spot *spot,
                 char text[LINE_BYTES])
{
    struct stack made = spot_stack(search, search->log->allocs[tensor->alloc].site), set = {0};
    uint32_t setting = line_setting_of(search, tensor), least = 0, at_set = 0;
    struct scout_tensor wide = line_widen(search, tensor);
    struct lifted said;
    bool parts = false;
    if (setting != SCOUT_NONE) {
        set = spot_stack_of(search, setting);
        parts = spot_find_parting(made, set, &least, &at_set);
        least += !parts; /* a last call that is a jump leaves no frame: behind the call of both */
    }
    if (depth < least || depth >= made.count || !lift(&search->sources, made.frames, depth, &said) ||
        said.memory[0] == '\0')
        return false;
    bool ok = parts && depth == least
                  ? spot_find_behind_both(search, &made.frames[depth], &set.frames[at_set], spot, &said)
                  : spot_find_behind(search, &made.frames[depth], spot);
    snprintf(spot->name, sizeof(spot->name), "%s", said.memory);
    return ok && line_write_said(search, &wide, &said, spot->node, text);
}

/* Whether all memory that the calls up to frame `depth` allocate gets this line there. */
static bool
is_of_all(struct search *search, const struct scout_tensor *tensor, uint32_t depth, const struct spot *spot,
          const char *line)
{
    const struct scout_log *log = search->log;
    struct stack ours = spot_stack(search, log->allocs[tensor->alloc].site);
    for (uint32_t a = 0; a < log->alloc_count; ++a) {
        struct stack stack = spot_stack(search, log->allocs[a].site);
        bool found = search->memory_of[a] == search->memory_of[tensor->alloc];
        if (found || !spot_is_same_chain(ours, stack, depth))
            continue;
        FOR_EACH_UNTIL(other, search->finding->tensors, search->finding->tensor_count, found) {
            struct spot there;
            char text[LINE_BYTES];
            found = insertions_have(log, search->finding, other) &&
                    search->memory_of[other->alloc] == search->memory_of[a] &&
                    find_tensor_line(search, other, depth, &there, text) && strcmp(text, line) == 0 &&
                    there.node == spot->node && there.behind == spot->behind;
        }
        if (!found)
            return false;
    }
    return true;
}

/* Returns the name of its memory in the source; NULL: it has no line. */
static char *
place_tensor(struct search *search, const struct scout_tensor *tensor)
{
    struct stack made = spot_stack(search, search->log->allocs[tensor->alloc].site);
    struct spot spot;
    char text[LINE_BYTES];
    for (uint32_t depth = 0; depth < made.count; ++depth)
        if (find_tensor_line(search, tensor, depth, &spot, text) && is_of_all(search, tensor, depth, &spot, text)) {
            spot_add_text(search, &spot, text);
            return xstrdup(spot.name);
        }
    return NULL;
}

/* ---- groups ---- */

/* Whether one call allocates two gradients of different groups, in each step. */
static bool
share_call(const struct search *search, const struct scout_tensor *a, const struct scout_tensor *b)
{
    const struct scout_alloc *allocs = search->log->allocs;
    bool are_gradients = a->role == ROLE_GRADIENT && b->role == ROLE_GRADIENT && a->group != b->group;
    return are_gradients && scout_is_remade(search->log, search->finding, a->alloc) &&
           scout_is_remade(search->log, search->finding, b->alloc) &&
           spot_is_same_chain(spot_stack(search, allocs[a->alloc].site), spot_stack(search, allocs[b->alloc].site), 0);
}

/* Whether one annotation names two gradients: they share memory, or one call allocates them in each step. */
static bool
share_annotation(const struct search *search, const struct scout_tensor *a, const struct scout_tensor *b)
{
    return line_shares_place(search, a, b) || share_call(search, a, b);
}

/* Gives groups of numbers x and y the smaller one. */
static void
join_numbers(uint32_t *number, uint32_t count, uint32_t x, uint32_t y)
{
    const uint32_t less = x < y ? x : y;
    for (uint32_t g = 0; g < count; ++g)
        if (number[g] == x || number[g] == y)
            number[g] = less;
}

/* An annotation gives a gradient one group, so groups that share one get one number, and a step each. What such a step
 * averages once more is the same on all ranks, and stays. So do all groups where there are more than numbers. */
static void
number_groups(const struct search *search)
{
    const struct scout_finding *finding = search->finding;
    uint32_t *number = search->to->group_of;
    for (uint32_t g = 0; g < finding->group_count; ++g)
        number[g] = g;
    FOR_EACH(a, finding->tensors, finding->tensor_count)
        FOR_EACH(b, finding->tensors, a - finding->tensors) {
            if (!share_annotation(search, a, b))
                continue;
            if (search->memory_of[a->alloc] != search->memory_of[b->alloc])
                search->to->forgotten = a->alloc;
            join_numbers(number, finding->group_count, number[a->group], number[b->group]);
        }
    for (uint32_t g = 0; g < finding->group_count; ++g) /* without gaps; a number is that of its first group */
        number[g] = number[g] < g ? number[number[g]] : search->to->groups++;
    if (search->to->groups > GROUPS_AT_MOST) {
        memset(number, 0, finding->group_count * sizeof(*number));
        search->to->groups = 1;
    }
}

/* ---- steps ---- */

/* Finds a spot between the calls of one function that lead to two operations; `behind` the first, or in front of the
 * second. False: there is none. */
static bool
find_between(struct search *search, uint32_t first, uint32_t second, bool behind, struct spot *spot)
{
    struct site_place frames[2][SITE_FRAMES_AT_MOST];
    struct stack a = {frames[0], spot_fill_stack(search, first, frames[0])},
                 b = {frames[1], spot_fill_stack(search, second, frames[1])};
    uint32_t at_first, at_second;
    *spot = (struct spot){0};
    if (!spot_find_parting(a, b, &at_first, &at_second))
        return false;
    const struct source_node *from = spot_node(search, a.frames, at_first),
                             *to = spot_node(search, b.frames, at_second);
    if (from == NULL || to == NULL)
        return false;
    const struct source_node *front = source_beside(from, to), *back = source_beside(to, from);
    spot->node = behind ? front : back;
    if (spot->node == NULL || front == back) /* one is in the header of a loop or a condition around the other */
        return false;
    if (!behind)
        return spot_is_usable(spot);
    if (source_line(from->source, front->end) == source_line(from->source, back->begin))
        return false;
    if (spot_leaves(from, front)) {
        spot->node = from;
        spot->behind = from->end;
        return true;
    }
    spot->behind = spot_end_of_line(front);
    return spot_is_usable(spot);
}

/* Whether an operation writes tensors of a role. */
static bool
writes_role(const struct search *search, uint32_t op, enum scout_role role)
{
    const struct scout_effect *effect = search->ops[op].effect;
    FOR_EACH(tensor, search->finding->tensors, search->finding->tensor_count) {
        if (tensor->role == role && effect != NULL &&
            ANY(written, effect->written, effect->written_count,
                written->alloc == tensor->alloc && graph_ranges_meet(&written->ranges, tensor->lo, tensor->hi)))
            return true;
    }
    return false;
}

/* Whether a kernel writes gradients in another launch: where it has changed nothing, it has added zeros. */
static bool
computes_gradients(const struct search *search, uint32_t op)
{
    return ANY_NUMBER(k, search->first, search->first + search->period,
                      search->ops[k].name == search->ops[op].name && writes_role(search, k, ROLE_GRADIENT));
}

/* Whether an operation gets a gradient of the group, and changes nothing, as far as was seen. */
static bool
only_looks(const struct search *search, uint32_t group, uint32_t op)
{
    const struct scout_op *it = &search->ops[op];
    return it->kind == SCOUT_LAUNCH && scout_writes_nothing(it->effect) && !computes_gradients(search, op) &&
           ANY(tensor, search->finding->tensors, search->finding->tensor_count,
               tensor->role == ROLE_GRADIENT && tensor->group == group &&
                   ANY(argument, it->arguments, it->argument_count,
                       argument->alloc == tensor->alloc && argument->offset < tensor->hi &&
                           argument->end > tensor->lo));
}

/* Whether an operation writes what is trained, or its state: weights that decay before the gradient is added. */
static bool
writes_trained(const struct search *search, uint32_t op)
{
    return writes_role(search, op, ROLE_PARAMETER) || writes_role(search, op, ROLE_OPTIMIZER_STATE);
}

/* Whether the call has been made before the gradients are complete, as in a loop over layers: a line before it would
 * run then, too. */
static bool
comes_in_backward(const struct search *search, uint32_t group, uint32_t op)
{
    return ANY_NUMBER(k, search->first, search->finding->groups[group].complete,
                      scout_is_same_call(&search->ops[k], &search->ops[op]));
}

/* The first operation of the update: the one that reads a gradient first, or one before it that all ranks have to make
 * alike. A launch that looks for an overflow in gradients writes its flag only if there is one. */
static uint32_t
first_of_update(const struct search *search, uint32_t group, uint32_t before)
{
    for (uint32_t op = search->finding->groups[group].complete + 1; op < before; ++op) {
        bool is_of_update = only_looks(search, group, op) || writes_trained(search, op);
        if (is_of_update && !comes_in_backward(search, group, op))
            return op;
    }
    return before;
}

/* Inserts the DDP_STEP of a group between its last gradient and the update. False: the sources have no such place. */
static bool
place_step(struct search *search, uint32_t number)
{
    struct spot spot;
    const struct scout_group *group = &search->finding->groups[number];
    if (group->fused && (search->to->unturned == NULL || search->to->region_count == 0))
        return true; /* its region has the line, or nothing of it is averaged */
    uint32_t before = group->before - (group->before < search->first + search->period ? 0 : search->period);
    bool is_behind = group->fused || before < group->complete;
    if (!is_behind)
        before = first_of_update(search, number, before);
    if (!find_between(search, group->complete, before, is_behind, &spot))
        return false;
    spot_add_step(search, &spot, number);
    return true;
}

/* ---- all ---- */

/* Operations before the first step: what follows them comes in each step. They end before the first update. */
static void
find_start(struct search *search)
{
    const struct scout_op *ops = search->ops;
    const struct scout_group *group = search->finding->groups;
    const struct scout_op *update = &ops[group->fused ? group->complete : group->before];
    while (search->start < search->first && !scout_is_same_call(&ops[search->start], update))
        ++search->start;
    while (search->start > 0 && scout_is_same_call(&ops[search->start - 1], &ops[search->start - 1 + search->period]))
        --search->start;
    while (search->begun < search->start && ops[search->begun].site != ops[search->first].site)
        ++search->begun;
}

void
insertions_find(struct sites *sites, const struct scout_log *log, const struct scout_finding *finding,
                struct insertions *insertions)
{
    static const enum scout_role roles[] = {ROLE_PARAMETER,  ROLE_OPTIMIZER_STATE, ROLE_AVERAGE,
                                            ROLE_STATISTICS, ROLE_INPUT,           ROLE_GRADIENT};
    struct search search = {.sites = sites,
                            .log = log,
                            .ops = log->ops,
                            .finding = finding,
                            .first = finding->first,
                            .period = finding->period,
                            .end = finding->end,
                            .to = insertions,
                            .counted = xcalloc(log->alloc_count + 1, sizeof(*search.counted)),
                            .number = xcalloc(log->alloc_count + 1, sizeof(*search.number))};
    *insertions = (struct insertions){.forgotten = SCOUT_NONE,
                                      .names = xcalloc(finding->tensor_count + 1, sizeof(char *)),
                                      .placed_steps = xcalloc(finding->group_count + 1, sizeof(bool)),
                                      .group_of = xcalloc(finding->group_count + 1, sizeof(uint32_t))};
    (void)graph_name_memories(log, &search.memory_of);
    find_start(&search);
    number_groups(&search);
    FOR_EACH(role, roles, sizeof(roles) / sizeof(roles[0]))
        FOR_EACH(tensor, finding->tensors, finding->tensor_count)
            if (tensor->role == *role && insertions_have(log, finding, tensor))
                insertions->names[NUMBER_OF(tensor)] = place_tensor(&search, tensor);
    uses_place(&search);
    made_place(&search);
    regions_place(&search);
    if (insertions->unturned == NULL) {
        counters_place(&search);
        hosts_note(&search);
    }
    for (uint32_t g = 0; g < finding->group_count; ++g)
        insertions->placed_steps[g] = place_step(&search, g);
    SORT(insertions->items, insertions->count, compare_insertions);
    sources_close(&search.sources);
    free(search.memory_of);
    free(search.counted);
    free(search.number);
    free(search.borders);
}

void
insertions_free(struct insertions *insertions, uint32_t tensors)
{
    for (uint32_t i = 0; i < tensors; ++i)
        free(insertions->names[i]);
    for (uint32_t i = 0; i < insertions->count; ++i) {
        free(insertions->items[i].file);
        free(insertions->items[i].text);
    }
    for (uint32_t i = 0; i < insertions->note_count; ++i)
        free(insertions->notes[i]);
    free(insertions->notes);
    free(insertions->items);
    free(insertions->names);
    free(insertions->regions);
    free(insertions->placed_steps);
    free(insertions->group_of);
}
