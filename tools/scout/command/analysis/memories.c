/*
 * memories.c - the memories of a graph: which allocations of the log are one, where operations of the window cut them
 * into segments, and which version each of their bytes holds. graph.c calls it while it builds.
 */
#include "tools/scout/command/analysis/builder.h"

#include "tools/common/grown.h"
#include "tools/common/owned.h"

/* Whether an allocation takes the place of an older one, freed before: it has its size, ordinal and kind of memory. */
static bool
is_made_again(const struct scout_alloc *old, const struct scout_alloc *again)
{
    bool is_later = old->freed_at != UINT64_MAX && old->freed_at <= again->made_at;
    bool is_alike = old->bytes == again->bytes && old->ordinal == again->ordinal && old->memory == again->memory;
    return is_later && is_alike;
}

uint32_t
graph_name_memories(const struct scout_log *log, uint32_t **memory_of)
{
    uint32_t count = 0;
    OWNED uint32_t *last = xcalloc(log->alloc_count + 1, sizeof(*last)); /* by memory: its last allocation so far */
    uint32_t *of = xcalloc(log->alloc_count + 1, sizeof(*of));
    FOR_EACH(alloc, log->allocs, log->alloc_count) {
        uint32_t found = count;
        for (uint32_t m = 0; m < count && found == count; ++m) {
            if (is_made_again(&log->allocs[last[m]], alloc))
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

/* Notes that a segment begins or ends at byte `offset` of an allocation; SCOUT_NONE has none. */
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

/* Notes the cuts of one operation: where its arguments point, where its copies begin and end, and where the parts do by
 * which its repetitions looked at it. */
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

uint32_t
builder_add_version(struct graph *graph, const struct graph_version *version)
{
    uint32_t number = graph->version_count;
    struct graph_version *added = GROWN(graph->versions, graph->version_count);
    *added = *version;
    added->number = number;
    added->period = version->op < 0 ? -1 : version->op / (int32_t)graph->period;
    added->position = version->op < 0 ? 0 : (uint32_t)version->op % graph->period;
    return number;
}

/* Fills a memory with versions of no operation, one for each segment; `op`: VERSION_BEFORE or VERSION_UNDEFINED. */
static void
begin_memory(struct graph *graph, uint32_t number, int32_t op)
{
    struct graph_memory *memory = &graph->memories[number];
    memory->span_count = 0;
    for (uint32_t i = 0; i + 1 < memory->cut_count; ++i) {
        uint64_t lo = memory->cuts[i], hi = memory->cuts[i + 1];
        uint32_t version = builder_add_version(
            graph, &(struct graph_version){.op = op, .memory = (int32_t)number, .lo = lo, .hi = hi, .bytes = hi - lo});
        *GROWN(memory->spans, memory->span_count) = (struct graph_span){lo, hi, version};
    }
}

/* Names the graph's memories, each with the size and ordinal of its last allocation, and with the number of the
 * allocation that the window begins with. */
static void
name_memories(struct graph *graph)
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
}

/* Sorts a memory's cuts, and keeps each offset once. */
static void
arrange_cuts(struct graph_memory *memory)
{
    SORT(memory->cuts, memory->cut_count, compare_offsets);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < memory->cut_count; ++i)
        if (kept == 0 || memory->cuts[kept - 1] != memory->cuts[i])
            memory->cuts[kept++] = memory->cuts[i];
    memory->cut_count = kept;
}

void
builder_name_and_cut(struct graph *graph)
{
    const struct scout_log *log = graph->log;
    name_memories(graph);
    for (uint32_t i = 0; i < log->alloc_count; ++i) {
        add_cut(graph, i, 0);
        add_cut(graph, i, log->allocs[i].bytes);
    }
    for (uint32_t i = 0; i < graph->count; ++i)
        cut_by_op(graph, &log->ops[graph->first + i]);
    for (uint32_t m = 0; m < graph->memory_count; ++m) {
        bool is_new = log->allocs[graph->memories[m].alloc].made_at > graph->first;
        arrange_cuts(&graph->memories[m]);
        begin_memory(graph, m, is_new ? VERSION_UNDEFINED : VERSION_BEFORE);
    }
}

uint32_t
builder_enter_memory(struct graph *graph, uint32_t alloc)
{
    uint32_t number = graph->memory_of[alloc];
    if (graph->memories[number].alloc != alloc) {
        graph->memories[number].alloc = alloc;
        begin_memory(graph, number, VERSION_UNDEFINED);
    }
    return number;
}

uint32_t
builder_span_at(const struct graph_memory *memory, uint64_t lo)
{
    return COUNT_SORTED(span, memory->spans, memory->span_count, span->hi <= lo);
}

uint64_t
builder_segment_end(const struct graph_memory *memory, uint64_t lo)
{
    uint32_t next = COUNT_SORTED(cut, memory->cuts, memory->cut_count, *cut <= lo);
    return next < memory->cut_count ? memory->cuts[next] : memory->bytes;
}
