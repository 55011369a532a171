/*
 * graph.c - the graph of a window of the log: each operation makes versions, and edges to them from those that it was
 * computed from (rules.h). Memories and versions are memories.c's, the bytes that an operation leaves targets.c's.
 */
#include "tools/scout/command/analysis/builder.h"

#include "tools/common/grown.h"

/* ---- edges ---- */

/* Adds an edge from version `from` to version `to`, once; with a map it is elementwise, and stays so only if each
 * mention has one. */
static void
add_edge(struct builder *builder, uint32_t from, uint32_t to, const struct graph_map *map)
{
    struct graph *graph = builder->graph;
    if (builder->seen == NULL || graph->version_count > builder->seen_room) {
        uint32_t room = 2 * graph->version_count;
        builder->seen = xrealloc(builder->seen, room * sizeof(*builder->seen));
        builder->edge_at = xrealloc(builder->edge_at, room * sizeof(*builder->edge_at));
        memset(builder->seen + builder->seen_room, 0, (room - builder->seen_room) * sizeof(*builder->seen));
        builder->seen_room = room;
    }
    if (builder->seen[from] == to) {
        struct graph_edge *edge = &graph->edges[builder->edge_at[from]];
        edge->elementwise = edge->elementwise && map != NULL;
        return;
    }
    struct graph_edge edge = {.elementwise = map != NULL};
    if (map != NULL)
        edge.map = *map;
    builder->seen[from] = to;
    builder->edge_at[from] = graph->edge_count;
    *GROWN(graph->edges, graph->edge_count) = edge;
    *GROWN(builder->ends, builder->ends_count) = (struct ends){from, to};
    graph->versions[to].in_count += 1;
}

/* Edges to `to` from all versions that lie in bytes [lo, hi) of a memory. `type`: what is known of these bytes. */
static void
add_edges(struct builder *builder, uint32_t memory_number, uint64_t lo, uint64_t hi, uint32_t type, uint32_t to,
          const struct graph_map *map)
{
    const struct graph_memory *memory = &builder->graph->memories[memory_number];
    for (uint32_t i = builder_span_at(memory, lo); i < memory->span_count && memory->spans[i].lo < hi; ++i) {
        struct graph_version *version = &builder->graph->versions[memory->spans[i].version];
        version->type = version->type == SCOUT_UNKNOWN ? type : version->type;
        add_edge(builder, version->number, to, map);
    }
}

/* The elementwise map of an effect from bytes [lo, hi) of one allocation to a version in another, if there is one. */
static const struct graph_map *
find_map(const struct scout_effect *effect, uint32_t from, uint64_t lo, uint64_t hi, uint32_t to,
         const struct graph_version *version, struct graph_map *found)
{
    FOR_EACH(map, effect->elementwise, effect->elementwise_count) {
        if (map->samples == 0 || map->from != from || map->to != to || map->from_base >= hi ||
            map->to_base >= version->hi)
            continue;
        uint64_t begin = lo > map->from_base ? lo - map->from_base : 0, end = hi - map->from_base;
        uint64_t image_lo = map->to_base + begin / map->from_bytes * map->to_bytes;
        uint64_t image_hi = map->to_base + (end + map->from_bytes - 1) / map->from_bytes * map->to_bytes;
        if (image_lo >= version->hi || image_hi <= version->lo)
            continue;
        *found = (struct graph_map){map->from_base, map->to_base, map->from_bytes, map->to_bytes};
        return found;
    }
    return NULL;
}

/* ---- operations ---- */

/* The first range that ends after `lo`. */
static uint32_t
range_at(const struct scout_ranges *ranges, uint64_t lo)
{
    return COUNT_SORTED(range, ranges->items, ranges->count, range->hi <= lo);
}

bool
graph_ranges_meet(const struct scout_ranges *ranges, uint64_t lo, uint64_t hi)
{
    uint32_t i = range_at(ranges, lo);
    return i < ranges->count && ranges->items[i].lo < hi;
}

/* Whether all of [lo, hi) lies in the ranges. */
static bool
covers(const struct scout_ranges *ranges, uint64_t lo, uint64_t hi)
{
    for (uint32_t i = range_at(ranges, lo); i < ranges->count && ranges->items[i].lo <= lo && lo < hi; ++i)
        lo = ranges->items[i].hi;
    return lo >= hi;
}

/* Bytes that changed, as far as they count: a kernel that overwrites a part of a segment and computes nothing from the
 * rest of it has written what it overwrites. Ranges of changes may be joined across bytes that did not change. */
static void
target_changes(struct builder *builder, const struct scout_effect *effect, uint32_t alloc,
               const struct scout_ranges *ranges)
{
    for (uint32_t i = 0; i < ranges->count; ++i) {
        struct scout_range left = ranges->items[i];
        FOR_EACH(segment, effect->segments, effect->segment_count) {
            if (segment->alloc != alloc || segment->tested == 0 || segment->killed.count == 0 ||
                segment->modified.count > 0 || segment->lo >= left.hi || segment->hi <= left.lo)
                continue;
            builder_add_target(builder, builder_enter_memory(builder->graph, alloc), left.lo, segment->lo);
            left.lo = segment->hi < left.hi ? segment->hi : left.hi;
        }
        builder_add_target(builder, builder_enter_memory(builder->graph, alloc), left.lo, left.hi);
    }
}

/* Adds byte ranges of an allocation to the targets. */
static void
add_ranges(struct builder *builder, uint32_t alloc, const struct scout_ranges *ranges)
{
    for (uint32_t i = 0; i < ranges->count; ++i)
        builder_add_target(builder, builder_enter_memory(builder->graph, alloc), ranges->items[i].lo,
                           ranges->items[i].hi);
}

/* Adds all bytes that the launch left, as its repetitions have shown, to the targets. */
static void
target_effect(struct builder *builder, const struct scout_effect *effect)
{
    FOR_EACH(segment, effect->segments, effect->segment_count)
        (void)builder_enter_memory(builder->graph, segment->alloc);
    FOR_EACH(written, effect->written, effect->written_count)
        target_changes(builder, effect, written->alloc, &written->ranges);
    FOR_EACH(segment, effect->segments, effect->segment_count) {
        add_ranges(builder, segment->alloc, &segment->killed);
        add_ranges(builder, segment->alloc, &segment->modified);
    }
    FOR_EACH(dependence, effect->dependences, effect->dependence_count)
        target_changes(builder, effect, dependence->to, &dependence->changed);
}

static const struct graph_map identity = {0, 0, 1, 1};

/* From bytes of a segment that were seen to change with what was there. */
static void
add_modified_edges(struct builder *builder, const struct scout_effect *effect, const struct scout_segment *segment,
                   const struct target *target, uint32_t number)
{
    struct graph_map map;
    uint64_t lo = segment->lo > target->lo ? segment->lo : target->lo;
    uint64_t hi = segment->hi < target->hi ? segment->hi : target->hi;
    const struct graph_map *same =
        find_map(effect, segment->alloc, lo, hi, segment->alloc, &builder->graph->versions[number], &map);
    if (same != NULL && same->from_base != same->to_base)
        same = NULL;
    for (uint32_t r = range_at(&segment->modified, lo); r < segment->modified.count; ++r) {
        const struct scout_range *range = &segment->modified.items[r];
        if (range->lo >= hi)
            break;
        add_edges(builder, target->memory, range->lo > lo ? range->lo : lo, range->hi < hi ? range->hi : hi,
                  segment->type, number, same);
    }
}

/* What is not killed was changed through other segments only, element by element. */
static void
add_unkilled_edges(struct builder *builder, const struct scout_segment *segment, const struct target *target,
                   uint32_t number)
{
    const struct scout_ranges *killed = &segment->killed;
    for (uint64_t at = target->lo, r = range_at(killed, at); at < target->hi; ++r) {
        uint64_t end = r < killed->count && killed->items[r].lo < target->hi ? killed->items[r].lo : target->hi;
        if (end > at)
            add_edges(builder, target->memory, at, end, segment->type, number, &identity);
        at = r < killed->count ? killed->items[r].hi : target->hi;
    }
}

/* Returns whether all of the target was overwritten, but for what has edges now. */
static bool
add_segment_edges(struct builder *builder, const struct scout_effect *effect, const struct scout_segment *segment,
                  const struct target *target, uint32_t number)
{
    if (builder->graph->versions[number].type == SCOUT_UNKNOWN)
        builder->graph->versions[number].type = segment->type;
    if (segment->tested == 0)
        return false;
    add_modified_edges(builder, effect, segment, target, number);
    if (segment->lo > target->lo || segment->hi < target->hi ||
        graph_ranges_meet(&segment->modified, target->lo, target->hi) ||
        !graph_ranges_meet(&segment->killed, target->lo, target->hi))
        return covers(&segment->killed, target->lo, target->hi);
    add_unkilled_edges(builder, segment, target, number);
    return true;
}

/* From what was there, of which the version's bytes come to be, in part: where it was not seen to be overwritten. */
static void
add_self_edges(struct builder *builder, const struct scout_op *op, uint32_t number, uint32_t first, uint32_t end)
{
    for (uint32_t t = first; t < end; ++t) {
        const struct target target = builder->targets[t];
        bool is_explained = false;
        FOR_EACH(segment, op->effect->segments, op->effect->segment_count) {
            if (segment->alloc != builder->graph->memories[target.memory].alloc)
                continue;
            if (segment->hi > target.lo && segment->lo < target.hi)
                is_explained = add_segment_edges(builder, op->effect, segment, &target, number) || is_explained;
            is_explained = is_explained || graph_ranges_meet(&segment->modified, target.lo, target.hi);
        }
        if (!is_explained)
            add_edges(builder, target.memory, target.lo, target.hi, SCOUT_UNKNOWN, number, &identity);
    }
}

/* The bytes that an elementwise map takes to a version. */
static struct scout_range
range_behind(const struct graph_map *map, const struct graph_version *version)
{
    uint64_t lo = version->lo > map->to_base ? version->lo - map->to_base : 0, hi = version->hi - map->to_base;
    return (struct scout_range){map->from_base + lo / map->to_bytes * map->from_bytes,
                                map->from_base + (hi + map->to_bytes - 1) / map->to_bytes * map->from_bytes};
}

/* Adds edges to version `number`, whose targets are [first, end), from all parts on which these bytes depend, through a
 * map only from the bytes that it takes there. */
static void
add_dependence_edges(struct builder *builder, const struct scout_op *op, uint32_t number, uint32_t first, uint32_t end)
{
    const struct scout_effect *effect = op->effect;
    uint32_t alloc = builder->graph->memories[builder->targets[first].memory].alloc;
    FOR_EACH(dependence, effect->dependences, effect->dependence_count) {
        const struct scout_segment *from = &effect->segments[dependence->from];
        bool reached = false;
        for (uint32_t t = first; t < end && dependence->to == alloc && !reached; ++t)
            reached = graph_ranges_meet(&dependence->changed, builder->targets[t].lo, builder->targets[t].hi);
        if (!reached)
            continue;
        uint32_t memory = builder_enter_memory(builder->graph, from->alloc);
        struct graph_map map;
        const struct graph_map *found =
            find_map(effect, from->alloc, from->lo, from->hi, alloc, &builder->graph->versions[number], &map);
        struct scout_range limit = {0, UINT64_MAX};
        if (found != NULL)
            limit = range_behind(found, &builder->graph->versions[number]);
        uint64_t lo = from->lo > limit.lo ? from->lo : limit.lo, hi = from->hi < limit.hi ? from->hi : limit.hi;
        if (lo < hi)
            add_edges(builder, memory, lo, hi, from->type, number, found);
    }
}

/* Whether the launch has overwritten a version with other whole numbers, whatever its memory held before. */
static bool
holds_new_integers(const struct builder *builder, const struct scout_effect *effect, uint32_t number)
{
    const struct graph_version *version = &builder->graph->versions[number];
    const uint32_t alloc = builder->graph->memories[version->memory].alloc;
    bool is_overwritten = ANY(segment, effect->segments, effect->segment_count,
                              segment->alloc == alloc && covers(&segment->killed, version->lo, version->hi));
    bool is_other = ANY(written, effect->written, effect->written_count,
                        written->alloc == alloc && graph_ranges_meet(&written->ranges, version->lo, version->hi));
    return version->type == SCOUT_INTEGER && is_overwritten && is_other;
}

/* Whole numbers say which of several is the nearest, or how many are positive: they may stay where floats change a
 * little. So those that a launch has computed depend on all floats that its other results depend on. */
static void
add_integer_edges(struct builder *builder, const struct scout_op *op, uint32_t number)
{
    const struct scout_effect *effect = op->effect;
    const uint32_t alloc = builder->graph->memories[builder->graph->versions[number].memory].alloc;
    if (!holds_new_integers(builder, effect, number))
        return;
    FOR_EACH(segment, effect->segments, effect->segment_count) {
        const uint32_t from = NUMBER_OF(segment);
        bool is_float = segment->type != SCOUT_INTEGER && segment->type != SCOUT_UNKNOWN;
        bool is_read = ANY(it, effect->dependences, effect->dependence_count, it->from == from);
        bool is_seen = ANY(it, effect->dependences, effect->dependence_count, it->from == from && it->to == alloc);
        if (is_float && is_read && !is_seen)
            add_edges(builder, builder_enter_memory(builder->graph, segment->alloc), segment->lo, segment->hi,
                      segment->type, number, NULL);
    }
}

/* Adds operation `index` of the window, a launch: a version for each segment that it leaves, with edges. Of a launch
 * that was not repeated all arguments lead to all. */
static void
add_launch(struct builder *builder, int32_t index, const struct scout_op *op)
{
    bool unknown = op->effect == NULL || op->effect->verdict == SCOUT_DIFFERS || op->effect->verdict == SCOUT_EXCLUDED;
    for (uint32_t i = 0; i < op->argument_count; ++i)
        (void)builder_enter_memory(builder->graph, op->arguments[i].alloc);
    if (op->effect != NULL)
        target_effect(builder, op->effect);
    for (uint32_t i = 0; i < op->argument_count && unknown; ++i)
        builder_add_target(builder, builder_enter_memory(builder->graph, op->arguments[i].alloc),
                           op->arguments[i].offset, op->arguments[i].end);
    builder_arrange_targets(builder);
    uint32_t before = builder->graph->version_count;
    for (uint32_t i = 0, end; i < builder->target_count; i = end) {
        uint32_t number = builder_begin_version(builder, index, i, &end);
        if (unknown) {
            builder->graph->versions[number].unsure = true;
            for (uint32_t a = 0; a < op->argument_count; ++a)
                add_edges(builder, builder->graph->memory_of[op->arguments[a].alloc], op->arguments[a].offset,
                          op->arguments[a].end, SCOUT_UNKNOWN, number, NULL);
            continue;
        }
        builder->graph->versions[number].unsure =
            op->effect->hidden_read != 0 || op->effect->hidden_write != SCOUT_NONE || op->effect->why != SCOUT_NONE;
        add_self_edges(builder, op, number, i, end);
        add_dependence_edges(builder, op, number, i, end);
        add_integer_edges(builder, op, number);
    }
    builder_put_versions(builder, before);
}

/* A call that gives the host a result is like a copy to the host. */
static void
add_answer(struct builder *builder, int32_t index, const struct scout_op *op)
{
    struct graph *graph = builder->graph;
    uint32_t number = builder_add_version(
        graph,
        &(struct graph_version){.op = index, .memory = HOST_MEMORY, .hi = sizeof(double), .bytes = sizeof(double)});
    for (uint32_t i = 0; i < op->argument_count; ++i)
        add_edges(builder, graph->memory_of[op->arguments[i].alloc], op->arguments[i].offset, op->arguments[i].end,
                  SCOUT_UNKNOWN, number, NULL);
}

/* Fills, and copies in any direction. */
static void
add_transfer(struct builder *builder, int32_t index, const struct scout_op *op)
{
    struct graph *graph = builder->graph;
    bool copies = op->kind == SCOUT_COPY, read = copies && op->from.alloc != SCOUT_NONE;
    if (op->bytes == 0 || op->rows == 0)
        return;
    if (read)
        (void)builder_enter_memory(graph, op->from.alloc);
    struct graph_map map = {.from_base = op->from.offset, .to_base = op->to.offset, .from_bytes = 1, .to_bytes = 1};
    uint64_t width = op->from.pitch * (op->rows - 1) + op->bytes;
    if (op->to.alloc == SCOUT_NONE) {
        uint32_t number = builder_add_version(
            graph, &(struct graph_version){
                       .op = index, .memory = HOST_MEMORY, .hi = op->bytes * op->rows, .bytes = op->bytes * op->rows});
        if (read)
            add_edges(builder, graph->memory_of[op->from.alloc], op->from.offset, op->from.offset + width,
                      SCOUT_UNKNOWN, number, NULL);
        return;
    }
    uint32_t memory = builder_enter_memory(graph, op->to.alloc);
    for (uint64_t row = 0, at = op->to.offset; row < op->rows; ++row, at += op->to.pitch)
        builder_add_target(builder, memory, at, at + op->bytes);
    builder_arrange_targets(builder);
    uint32_t before = graph->version_count;
    for (uint32_t i = 0, end; i < builder->target_count; i = end) {
        uint32_t number = builder_begin_version(builder, index, i, &end);
        graph->versions[number].from_host = copies && !read;
        if (!read)
            continue;
        bool plain = op->rows == 1 || op->from.pitch == op->to.pitch;
        if (plain) {
            uint64_t lo = graph->versions[number].lo - op->to.offset + op->from.offset;
            add_edges(builder, graph->memory_of[op->from.alloc], lo,
                      lo + graph->versions[number].hi - graph->versions[number].lo, SCOUT_UNKNOWN, number, &map);
        } else {
            add_edges(builder, graph->memory_of[op->from.alloc], op->from.offset, op->from.offset + width,
                      SCOUT_UNKNOWN, number, NULL);
        }
        if (graph->versions[number].in_count > 0)
            graph->versions[number].type =
                graph->versions[builder->ends[graph->edge_count - graph->versions[number].in_count].from].type;
    }
    builder_put_versions(builder, before);
}

/* Edges lie by the version that they lead to; with each version now lie those that lead from it, too. */
static void
connect_versions(const struct builder *builder)
{
    struct graph *graph = builder->graph;
    FOR_EACH(ends, builder->ends, graph->edge_count)
        graph->versions[ends->from].out_count += 1;
    const struct graph_edge *in = graph->edges, **out = xcalloc(graph->edge_count + 1, sizeof(*out));
    graph->outs = out;
    FOR_EACH_VERSION(version, graph) {
        version->in = in;
        version->out = out;
        in = EACH_END(in, version->in_count);
        out += version->out_count;
        version->out_count = 0;
    }
    FOR_EACH_MUTABLE(edge, graph->edges, graph->edge_count) {
        edge->from = &graph->versions[builder->ends[NUMBER_OF(edge)].from];
        edge->to = &graph->versions[builder->ends[NUMBER_OF(edge)].to];
        edge->from->out[edge->from->out_count++] = edge;
    }
}

void
graph_build(const struct scout_log *log, uint32_t first, uint32_t period, uint32_t periods, struct graph *graph)
{
    *graph = (struct graph){.log = log, .first = first, .count = period * periods, .period = period};
    builder_name_and_cut(graph);
    struct builder builder = {.graph = graph};
    for (uint32_t i = 0; i < graph->count; ++i) {
        const struct scout_op *op = &log->ops[first + i];
        builder.target_count = 0;
        if (op->kind == SCOUT_FILL || op->kind == SCOUT_COPY)
            add_transfer(&builder, (int32_t)i, op);
        else
            add_launch(&builder, (int32_t)i, op);
        if (op->answers)
            add_answer(&builder, (int32_t)i, op);
    }
    connect_versions(&builder);
    free(builder.ends);
    free(builder.targets);
    free(builder.seen);
    free(builder.edge_at);
}

void
graph_free(struct graph *graph)
{
    for (uint32_t i = 0; i < graph->memory_count; ++i) {
        free(graph->memories[i].cuts);
        free(graph->memories[i].spans);
    }
    free(graph->memories);
    free(graph->memory_of);
    free(graph->versions);
    free(graph->edges);
    free(graph->outs);
    *graph = (struct graph){0};
}

const struct scout_op *
graph_op(const struct graph *graph, const struct graph_version *version)
{
    return version->op < 0 ? NULL : &graph->log->ops[graph->first + (uint32_t)version->op];
}
