/* graph.c - see rules.h. */
#include "tools/scout/command/analysis/rules.h"

#include "tools/common/grown.h"
#include "tools/common/owned.h"

/* Bytes that the operation being added leaves, by memory. */
struct target {
    uint32_t memory;
    uint64_t lo, hi;
};

/* What an edge leads from and to, by number: versions move as long as their list grows. */
struct ends {
    uint32_t from, to;
};

struct builder {
    struct graph *graph;
    struct ends *ends; /* [graph->edge_count] */
    uint32_t ends_count;
    struct target *targets;
    uint32_t target_count;
    uint32_t *seen; /* by version: mark of the last edge's list it is in */
    uint32_t *edge_at;
    uint32_t seen_room;
};

/* ---- memories ---- */

uint32_t
graph_name_memories(const struct scout_log *log, uint32_t **memory_of)
{
    uint32_t count = 0;
    OWNED uint32_t *last = xcalloc(log->alloc_count + 1, sizeof(*last));
    uint32_t *of = xcalloc(log->alloc_count + 1, sizeof(*of));
    FOR_EACH(alloc, log->allocs, log->alloc_count) {
        uint32_t found = count;
        for (uint32_t m = 0; m < count && found == count; ++m) {
            const struct scout_alloc *other = &log->allocs[last[m]];
            if (other->freed_at != UINT64_MAX && other->freed_at <= alloc->made_at && other->bytes == alloc->bytes &&
                other->ordinal == alloc->ordinal && other->memory == alloc->memory)
                found = m;
        }
        count += found == count;
        of[NUMBER_OF(alloc)] = found;
        last[found] = NUMBER_OF(alloc);
    }
    *memory_of = of;
    return count;
}

COMPARES(compare_offsets, uint64_t, (*a > *b) - (*a < *b))

static void
add_cut(struct graph *graph, uint32_t alloc, uint64_t offset)
{
    if (alloc == SCOUT_NONE)
        return;
    struct graph_memory *memory = &graph->memories[graph->memory_of[alloc]];
    if (offset > memory->bytes)
        return;
    *GROWN(memory->cuts, memory->cut_count) = offset;
}

static void
cut_by_op(struct graph *graph, const struct scout_op *op)
{
    for (uint32_t i = 0; i < op->argument_count; ++i)
        add_cut(graph, op->arguments[i].alloc, op->arguments[i].offset);
    if (op->kind == SCOUT_FILL || op->kind == SCOUT_COPY) {
        const struct scout_place *places[] = {&op->to, &op->from};
        for (int i = 0; i < (op->kind == SCOUT_COPY ? 2 : 1); ++i) {
            add_cut(graph, places[i]->alloc, places[i]->offset);
            if (op->rows == 1)
                add_cut(graph, places[i]->alloc, places[i]->offset + op->bytes);
        }
    }
    for (uint32_t i = 0; op->effect != NULL && i < op->effect->segment_count; ++i) {
        add_cut(graph, op->effect->segments[i].alloc, op->effect->segments[i].lo);
        add_cut(graph, op->effect->segments[i].alloc, op->effect->segments[i].hi);
    }
}

static uint32_t
add_version(struct graph *graph, const struct graph_version *version)
{
    uint32_t number = graph->version_count;
    struct graph_version *added = GROWN(graph->versions, graph->version_count);
    *added = *version;
    added->number = number;
    added->period = version->op < 0 ? -1 : version->op / (int32_t)graph->period;
    added->position = version->op < 0 ? 0 : (uint32_t)version->op % graph->period;
    return number;
}

/* Fills a memory with versions of no operation, one for each segment. */
static void
begin_memory(struct graph *graph, uint32_t number, int32_t op)
{
    struct graph_memory *memory = &graph->memories[number];
    memory->span_count = 0;
    for (uint32_t i = 0; i + 1 < memory->cut_count; ++i) {
        uint64_t lo = memory->cuts[i], hi = memory->cuts[i + 1];
        uint32_t version = add_version(
            graph, &(struct graph_version){.op = op, .memory = (int32_t)number, .lo = lo, .hi = hi, .bytes = hi - lo});
        *GROWN(memory->spans, memory->span_count) = (struct graph_span){lo, hi, version};
    }
}

static void
name_and_cut(struct graph *graph)
{
    const struct scout_log *log = graph->log;
    graph->memory_count = graph_name_memories(log, &graph->memory_of);
    graph->memories = xcalloc(graph->memory_count + 1, sizeof(*graph->memories));
    for (uint32_t i = 0; i < log->alloc_count; ++i) {
        struct graph_memory *memory = &graph->memories[graph->memory_of[i]];
        bool known = memory->bytes > 0 && log->allocs[i].made_at > graph->first;
        memory->bytes = log->allocs[i].bytes;
        memory->ordinal = log->allocs[i].ordinal;
        if (!known)
            memory->alloc = i;
    }
    for (uint32_t i = 0; i < log->alloc_count; ++i) {
        add_cut(graph, i, 0);
        add_cut(graph, i, log->allocs[i].bytes);
    }
    for (uint32_t i = 0; i < graph->count; ++i)
        cut_by_op(graph, &log->ops[graph->first + i]);
    for (uint32_t m = 0; m < graph->memory_count; ++m) {
        struct graph_memory *memory = &graph->memories[m];
        SORT(memory->cuts, memory->cut_count, compare_offsets);
        uint32_t kept = 0;
        for (uint32_t i = 0; i < memory->cut_count; ++i)
            if (kept == 0 || memory->cuts[kept - 1] != memory->cuts[i])
                memory->cuts[kept++] = memory->cuts[i];
        memory->cut_count = kept;
        begin_memory(graph, m, log->allocs[memory->alloc].made_at > graph->first ? VERSION_UNDEFINED : VERSION_BEFORE);
    }
}

/* The memory of an allocation that the operation names; an allocation that was made again holds nothing yet. */
static uint32_t
enter_memory(struct graph *graph, uint32_t alloc)
{
    uint32_t number = graph->memory_of[alloc];
    if (graph->memories[number].alloc != alloc) {
        graph->memories[number].alloc = alloc;
        begin_memory(graph, number, VERSION_UNDEFINED);
    }
    return number;
}

/* The first span that ends after `lo`. */
static uint32_t
span_at(const struct graph_memory *memory, uint64_t lo)
{
    return COUNT_SORTED(span, memory->spans, memory->span_count, span->hi <= lo);
}

/* ---- edges ---- */

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
    for (uint32_t i = span_at(memory, lo); i < memory->span_count && memory->spans[i].lo < hi; ++i) {
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

/* ---- what an operation leaves ---- */

static void
add_target(struct builder *builder, uint32_t memory, uint64_t lo, uint64_t hi)
{
    if (hi <= lo)
        return;
    *GROWN(builder->targets, builder->target_count) = (struct target){memory, lo, hi};
    builder->graph->memories[memory].written = true;
}

static void
add_target_ranges(struct builder *builder, uint32_t alloc, const struct scout_ranges *ranges)
{
    for (uint32_t i = 0; i < ranges->count; ++i)
        add_target(builder, enter_memory(builder->graph, alloc), ranges->items[i].lo, ranges->items[i].hi);
}

COMPARES(compare_targets, struct target, COMPARE(a, b, memory, COMPARE(a, b, lo, 0)))

/* The end of the segment of a memory in which `lo` lies. */
static uint64_t
segment_end(const struct graph_memory *memory, uint64_t lo)
{
    uint32_t next = COUNT_SORTED(cut, memory->cuts, memory->cut_count, *cut <= lo);
    return next < memory->cut_count ? memory->cuts[next] : memory->bytes;
}

/* Sorts, joins what overlaps, and splits at the cuts of each memory. */
static void
arrange_targets(struct builder *builder)
{
    OWNED struct target *old = builder->targets;
    uint32_t count = builder->target_count;
    SORT(old, count, compare_targets);
    builder->targets = NULL;
    builder->target_count = 0;
    for (uint32_t i = 0; i < count;) {
        struct target joined = old[i++];
        for (; i < count && old[i].memory == joined.memory && old[i].lo <= joined.hi; ++i)
            if (old[i].hi > joined.hi)
                joined.hi = old[i].hi;
        const struct graph_memory *memory = &builder->graph->memories[joined.memory];
        joined.hi = joined.hi < memory->bytes ? joined.hi : memory->bytes; /* lent by a launch on more */
        for (uint64_t lo = joined.lo; lo < joined.hi;) {
            uint64_t end = segment_end(memory, lo), hi = end < joined.hi ? end : joined.hi;
            add_target(builder, joined.memory, lo, hi);
            lo = hi;
        }
    }
}

/* The end of the targets from `i` on that are of one segment. */
static uint32_t
targets_end(const struct builder *builder, uint32_t i)
{
    const struct target *first = &builder->targets[i];
    uint64_t limit = segment_end(&builder->graph->memories[first->memory], first->lo);
    while (i < builder->target_count && builder->targets[i].memory == first->memory && builder->targets[i].lo < limit)
        ++i;
    return i;
}

/* The version that the targets [i, end) make, which are of one segment; *end is set. */
static uint32_t
begin_version(struct builder *builder, int32_t op, uint32_t i, uint32_t *end)
{
    const struct target *first = &builder->targets[i];
    struct graph_version version = {.op = op, .memory = (int32_t)first->memory, .lo = first->lo};
    for (*end = targets_end(builder, i); i < *end; ++i) {
        version.hi = builder->targets[i].hi;
        version.bytes += builder->targets[i].hi - builder->targets[i].lo;
    }
    return add_version(builder->graph, &version);
}

/* Makes the targets [i, end) be of this version: one merge of two sorted lists. */
static void
put_version(struct builder *builder, uint32_t version, uint32_t i, uint32_t end)
{
    struct graph_memory *memory = &builder->graph->memories[builder->targets[i].memory];
    uint64_t lo = builder->targets[i].lo, hi = builder->targets[end - 1].hi;
    uint32_t first = span_at(memory, lo), last = span_at(memory, hi - 1) + 1;
    uint32_t room = last - first + 2 * (end - i) + 1, made = 0;
    OWNED struct graph_span *pieces = xcalloc(room, sizeof(*pieces));
    uint32_t target = i;
    for (uint32_t s = first; s < last; ++s) {
        struct graph_span rest = memory->spans[s];
        while (rest.lo < rest.hi) {
            while (target < end && builder->targets[target].hi <= rest.lo)
                ++target;
            uint64_t next = target < end ? builder->targets[target].lo : UINT64_MAX;
            if (next > rest.lo) {
                struct graph_span kept = {rest.lo, next < rest.hi ? next : rest.hi, rest.version};
                pieces[made++] = kept;
                rest.lo = kept.hi;
                continue;
            }
            uint64_t until = builder->targets[target].hi < rest.hi ? builder->targets[target].hi : rest.hi;
            if (made > 0 && pieces[made - 1].version == version && pieces[made - 1].hi == rest.lo)
                pieces[made - 1].hi = until;
            else
                pieces[made++] = (struct graph_span){rest.lo, until, version};
            rest.lo = until;
        }
    }
    uint32_t behind = memory->span_count - last, count = first + made + behind;
    while (memory->span_count < count)
        (void)GROWN(memory->spans, memory->span_count);
    memmove(memory->spans + first + made, memory->spans + last, behind * sizeof(*memory->spans));
    memcpy(memory->spans + first, pieces, made * sizeof(*pieces));
    memory->span_count = count;
}

static void
put_versions(struct builder *builder, uint32_t number)
{
    for (uint32_t i = 0, end; i < builder->target_count; i = end) {
        end = targets_end(builder, i);
        put_version(builder, number++, i, end);
    }
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
            add_target(builder, enter_memory(builder->graph, alloc), left.lo, segment->lo);
            left.lo = segment->hi < left.hi ? segment->hi : left.hi;
        }
        add_target(builder, enter_memory(builder->graph, alloc), left.lo, left.hi);
    }
}

static void
target_effect(struct builder *builder, const struct scout_effect *effect)
{
    FOR_EACH(segment, effect->segments, effect->segment_count)
        (void)enter_memory(builder->graph, segment->alloc);
    FOR_EACH(written, effect->written, effect->written_count)
        target_changes(builder, effect, written->alloc, &written->ranges);
    FOR_EACH(segment, effect->segments, effect->segment_count) {
        add_target_ranges(builder, segment->alloc, &segment->killed);
        add_target_ranges(builder, segment->alloc, &segment->modified);
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
        uint32_t memory = enter_memory(builder->graph, from->alloc);
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
            add_edges(builder, enter_memory(builder->graph, segment->alloc), segment->lo, segment->hi, segment->type,
                      number, NULL);
    }
}

static void
add_launch(struct builder *builder, int32_t index, const struct scout_op *op)
{
    bool unknown = op->effect == NULL || op->effect->verdict == SCOUT_DIFFERS || op->effect->verdict == SCOUT_EXCLUDED;
    for (uint32_t i = 0; i < op->argument_count; ++i)
        (void)enter_memory(builder->graph, op->arguments[i].alloc);
    if (op->effect != NULL)
        target_effect(builder, op->effect);
    for (uint32_t i = 0; i < op->argument_count && unknown; ++i)
        add_target(builder, enter_memory(builder->graph, op->arguments[i].alloc), op->arguments[i].offset,
                   op->arguments[i].end);
    arrange_targets(builder);
    uint32_t before = builder->graph->version_count;
    for (uint32_t i = 0, end; i < builder->target_count; i = end) {
        uint32_t number = begin_version(builder, index, i, &end);
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
    put_versions(builder, before);
}

/* A call that gives the host a result is like a copy to the host. */
static void
add_answer(struct builder *builder, int32_t index, const struct scout_op *op)
{
    struct graph *graph = builder->graph;
    uint32_t number = add_version(
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
        (void)enter_memory(graph, op->from.alloc);
    struct graph_map map = {.from_base = op->from.offset, .to_base = op->to.offset, .from_bytes = 1, .to_bytes = 1};
    uint64_t width = op->from.pitch * (op->rows - 1) + op->bytes;
    if (op->to.alloc == SCOUT_NONE) {
        uint32_t number = add_version(
            graph, &(struct graph_version){
                       .op = index, .memory = HOST_MEMORY, .hi = op->bytes * op->rows, .bytes = op->bytes * op->rows});
        if (read)
            add_edges(builder, graph->memory_of[op->from.alloc], op->from.offset, op->from.offset + width,
                      SCOUT_UNKNOWN, number, NULL);
        return;
    }
    uint32_t memory = enter_memory(graph, op->to.alloc);
    for (uint64_t row = 0, at = op->to.offset; row < op->rows; ++row, at += op->to.pitch)
        add_target(builder, memory, at, at + op->bytes);
    arrange_targets(builder);
    uint32_t before = graph->version_count;
    for (uint32_t i = 0, end; i < builder->target_count; i = end) {
        uint32_t number = begin_version(builder, index, i, &end);
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
    put_versions(builder, before);
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
    name_and_cut(graph);
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
