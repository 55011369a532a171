/*
 * regions.c - see lines.h.
 *
 * A region begins in front of the first operation of a batch that is no copy from the host, and does more than move
 * random states or counters on, in the innermost function
 * that also leads to the group's last update. It ends behind the statement of that function that leads to this update.
 * So both lines stand in one function, and the block of DDP_TURN_BEGIN ends the region on each other way out.
 */
#include "tools/scout/command/report/lines.h"

#include "tools/common/grown.h"

static bool
is_from_host(const struct scout_op *op)
{
    return op->kind == SCOUT_COPY && op->from.alloc == SCOUT_NONE && op->to.alloc != SCOUT_NONE;
}

/* ---- which operations a region has ---- */

/* The operation of the recorded period that is like this one of a later period. */
static uint32_t
in_period(const struct search *search, uint32_t op)
{
    while (op >= search->first + search->period)
        op -= search->period;
    return op;
}

static bool
is_trained(const struct scout_tensor *tensor)
{
    return tensor->role == ROLE_PARAMETER || tensor->role == ROLE_OPTIMIZER_STATE || tensor->role == ROLE_AVERAGE;
}

/* The group whose update writes the tensor: its own, that of its parameter, or the last one before the write. */
static uint32_t
group_of(const struct search *search, const struct scout_tensor *tensor)
{
    const struct scout_finding *finding = search->finding;
    uint32_t found = 0;
    if (tensor->group != GROUP_NONE)
        return tensor->group;
    if (tensor->pair != PAIR_NONE && finding->tensors[tensor->pair].group != GROUP_NONE)
        return finding->tensors[tensor->pair].group;
    for (uint32_t g = 0; g < finding->group_count; ++g)
        if (in_period(search, finding->groups[g].before) <= in_period(search, tensor->writer))
            found = g;
    return found;
}

/* The last write of what a group's gradients train. */
static uint32_t
find_last(const struct search *search, uint32_t group)
{
    const struct scout_group *it = &search->finding->groups[group];
    uint32_t last = in_period(search, it->fused ? it->complete : it->before);
    FOR_EACH(tensor, search->finding->tensors, search->finding->tensor_count) {
        if (!is_trained(tensor) || group_of(search, tensor) != group)
            continue;
        uint32_t writer = in_period(search, tensor->writer);
        last = writer > last ? writer : last;
    }
    return last;
}

COMPARES(compare_regions, struct region, COMPARE(a, b, last, 0))

/* ---- where they stand ---- */

/* Finds the statement of a region of one operation: the innermost statement of a block that leads to it; a kernel's
 * own line is none. False: there is none. */
static bool
find_statement(struct search *search, uint32_t op, struct borders *borders)
{
    struct stack stack = spot_stack_of(search, op);
    const struct source_node *node = NULL;
    for (uint32_t i = 0; i < stack.count && node == NULL; ++i) {
        node = spot_node(search, stack.frames, i);
        while (node != NULL && (node->parent == NULL || !node->parent->is_block))
            node = node->parent;
    }
    *borders = (struct borders){.front = node, .back = node, .update = node};
    return node != NULL;
}

/* Finds the statements, in the innermost function that leads to both, of the operation `begin` and the last update.
 * False: there is no such function. */
static bool
find_borders(struct search *search, uint32_t begin, uint32_t last, struct borders *borders)
{
    struct site_place frames[2][SITE_FRAMES_AT_MOST];
    struct stack a = {frames[0], spot_fill_stack(search, begin, frames[0])},
                 b = {frames[1], spot_fill_stack(search, last, frames[1])};
    uint32_t at_begin, at_last;
    *borders = (struct borders){0};
    if (!spot_find_parting(a, b, &at_begin, &at_last))
        return false;
    const struct source_node *from = spot_node(search, a.frames, at_begin), *to = spot_node(search, b.frames, at_last);
    if (from == NULL || to == NULL)
        return false;
    *borders = (struct borders){.front = source_beside(from, to), .back = source_beside(to, from), .update = to};
    return borders->front != NULL && borders->back != NULL && borders->front != borders->back;
}

/* Whether a call that leads to an operation stands inside the statements of a region. */
static bool
is_inside(struct search *search, uint32_t op, const struct borders *borders)
{
    struct stack stack = spot_stack_of(search, op);
    for (uint32_t i = 0; i < stack.count; ++i) {
        const struct source_node *node = spot_node(search, stack.frames, i);
        if (node != NULL && node->source == borders->front->source && node->begin >= borders->front->begin &&
            node->begin < borders->back->end)
            return true;
    }
    return false;
}

/* Whether all ranks can compute it in each batch, from what all have: random states, counters, counts of labels. */
static bool
is_of_all(const struct scout_tensor *tensor)
{
    return tensor->role == ROLE_RANDOM || (tensor->role == ROLE_SUSPECT && tensor->of_inputs);
}

/* Whether a launch moves state on that all ranks can compute, and writes nothing else. */
static bool
only_moves_state(const struct search *search, uint32_t op)
{
    const struct scout_op *it = &search->ops[op];
    const struct scout_effect *effect = it->effect;
    if (it->kind != SCOUT_LAUNCH || effect == NULL || effect->written_count == 0)
        return false;
    return ALL(written, effect->written, effect->written_count,
               ANY(tensor, search->finding->tensors, search->finding->tensor_count,
                   is_of_all(tensor) && tensor->alloc == written->alloc &&
                       graph_ranges_meet(&written->ranges, tensor->lo, tensor->hi)));
}

/* The first of the operations from `from` on, before the region's first, that moves state on inside the region all the
 * same, as from a function that also makes what the region has; else the region's first. */
static uint32_t
find_moved(struct search *search, uint32_t from, uint32_t begin, const struct borders *borders)
{
    for (uint32_t op = from; op < begin; ++op) {
        if (only_moves_state(search, op) && is_inside(search, op, borders))
            return op;
    }
    return begin;
}

/* Finds the first operation after the update before it, `from`, in front of which a region can begin. False: there
 * is none. What stands after the update in its block, such as a copy of the loss, is left outside; all ranks make
 * it, as they move random states and counters on that come before all other work of the batch. */
static bool
find_begin(struct search *search, struct region *region, uint32_t from, struct borders *borders)
{
    const struct scout_group *group = &search->finding->groups[region->group];
    uint32_t end = from <= group->complete ? group->complete : group->complete + search->period;
    for (uint32_t op = from; op <= end && op < search->log->op_count; ++op) {
        if (is_from_host(&search->ops[op]) || only_moves_state(search, op))
            continue;
        bool is_one = in_period(search, op) == region->last;
        bool found = is_one ? find_statement(search, op, borders) : find_borders(search, op, region->last, borders);
        if (!found)
            return false;
        region->begin = find_moved(search, from, op, borders);
        if (is_one || borders->front->begin < borders->back->begin)
            return true;
    }
    return false;
}

/* Whether two regions are one of the sources, which the recorded period passes twice: as where a program exchanges two
 * buffers of its weights. */
static bool
are_one(const struct insertions *to, const struct borders *borders, uint32_t a, uint32_t b)
{
    return to->group_of[to->regions[a].group] == to->group_of[to->regions[b].group] &&
           borders[a].front == borders[b].front && borders[a].back == borders[b].back;
}

/* The first of the regions that are one with this one. */
static uint32_t
first_of(const struct insertions *to, const struct borders *borders, uint32_t region)
{
    for (uint32_t i = 0; i < region; ++i)
        if (are_one(to, borders, i, region))
            return i;
    return region;
}

/* Whether the lines of two regions would stand inside each other, as those of updates in one loop. */
static bool
are_tangled(struct search *search, const struct insertions *to, const struct borders *borders)
{
    for (uint32_t i = 0; i < to->region_count; ++i)
        for (uint32_t k = 0; k < to->region_count; ++k)
            if (!are_one(to, borders, i, k) && is_inside(search, to->regions[k].last, &borders[i]))
                return true;
    return false;
}

/* Whether two regions that are not one would step one group: each needs a group of its own. */
static bool
share_group(const struct insertions *to, const struct borders *borders)
{
    for (uint32_t i = 0; i < to->region_count; ++i)
        for (uint32_t k = 0; k < i; ++k)
            if (to->group_of[to->regions[i].group] == to->group_of[to->regions[k].group] && !are_one(to, borders, i, k))
                return true;
    return false;
}

/* Whether the block goes on after the region. */
static bool
goes_on(const struct borders *borders)
{
    FOR_EACH_NODE(it, borders->back->next)
        if (it->parent == borders->back->parent && it->begin >= borders->back->end)
            return true;
    return false;
}

/* Inserts the lines that begin and end a turn at the region's borders. */
static void
add_region(struct search *search, const struct region *region, const struct borders *borders)
{
    const struct scout_group *group = &search->finding->groups[region->group];
    const bool leaves = spot_leaves(borders->update, borders->back);
    const struct source_node *last = leaves ? borders->update : borders->back;
    struct spot begin = {.node = borders->front};
    struct spot end = {.node = last, .behind = leaves ? last->end : spot_end_of_line(last)};
    if (!spot_is_usable(&end)) /* "update(); continue;" on one line */
        end.behind = last->end;
    spot_add_text(search, &begin, "DDP_TURN_BEGIN();");
    if (group->fused)
        spot_add_step(search, &end, region->group);
    if (leaves || goes_on(borders))
        spot_add_text(search, &end, "DDP_TURN_END();");
}

/* ---- state that all ranks compute ---- */

/* Whether the operation has written bytes of the tensor. */
static bool
writes(const struct scout_op *op, const struct scout_tensor *tensor)
{
    return op->effect != NULL &&
           ANY(written, op->effect->written, op->effect->written_count,
               written->alloc == tensor->alloc && graph_ranges_meet(&written->ranges, tensor->lo, tensor->hi));
}

/* Whether an operation of the recorded steps that writes a tensor stands in a region. */
static bool
is_written_inside(struct search *search, const struct scout_tensor *tensor)
{
    for (uint32_t op = search->first; op < search->end; ++op)
        for (uint32_t i = 0; i < search->to->region_count && writes(&search->ops[op], tensor); ++i)
            if (is_inside(search, op, &search->borders[i]))
                return true;
    return false;
}

/* Whether no suspect is left in question: each is computed outside of regions, by all ranks, from what all have. */
static bool
settle(struct search *search)
{
    FOR_EACH(tensor, search->finding->tensors, search->finding->tensor_count)
        if (tensor->role == ROLE_SUSPECT && (!tensor->of_inputs || is_written_inside(search, tensor)))
            return false;
    return true;
}

/* ---- all ---- */

/* Finds the borders of all regions; returns why the program cannot have turns, or NULL. */
static const char *
find_fault(struct search *search, struct borders *borders)
{
    struct insertions *to = search->to;
    uint32_t from = to->regions[to->region_count - 1].last + 1;
    for (uint32_t i = 0; i < to->region_count; ++i) {
        if (!find_begin(search, &to->regions[i], from, &borders[i]))
            return "scout finds no block of the sources that has the batch and its update";
        from = to->regions[i].last + 1;
    }
    if (share_group(to, borders))
        return "several updates have gradients in one memory, and each needs a region";
    return are_tangled(search, to, borders) ? "several updates stand in one loop or function, and each needs a region"
                                            : NULL;
}

void
regions_place(struct search *search)
{
    struct insertions *to = search->to;
    if (ANY(it, search->finding->tensors, search->finding->tensor_count, line_is_carried(search->log, it))) {
        to->unturned = "a batch goes on with what the one before has computed, as with a hidden state: ranks cannot "
                       "take turns; divide each batch (DDP_SHARD)";
        return;
    }
    to->region_count = search->finding->group_count;
    to->regions = xcalloc(to->region_count + 1, sizeof(*to->regions));
    search->borders = xcalloc(to->region_count + 1, sizeof(*search->borders));
    for (uint32_t g = 0; g < to->region_count; ++g)
        to->regions[g] = (struct region){.group = g, .last = find_last(search, g)};
    SORT(to->regions, to->region_count, compare_regions);
    to->unturned = find_fault(search, search->borders);
    for (uint32_t i = 0; i < to->region_count && to->unturned == NULL; ++i)
        if (first_of(to, search->borders, i) == i)
            add_region(search, &to->regions[i], &search->borders[i]);
    to->settles = to->unturned == NULL && settle(search);
}
