/*
 * targets.c - the bytes that one operation leaves: collected range by range, arranged by memory and segment, and made
 * one new version for each segment. graph.c calls it for each operation of the window, in their order.
 */
#include "tools/scout/command/analysis/builder.h"

#include "tools/common/grown.h"
#include "tools/common/owned.h"

void
builder_add_target(struct builder *builder, uint32_t memory, uint64_t lo, uint64_t hi)
{
    if (hi <= lo)
        return;
    *GROWN(builder->targets, builder->target_count) = (struct target){memory, lo, hi};
    builder->graph->memories[memory].written = true;
}

COMPARES(compare_targets, struct target, COMPARE(a, b, memory, COMPARE(a, b, lo, 0)))

void
builder_arrange_targets(struct builder *builder)
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
            uint64_t end = builder_segment_end(memory, lo), hi = end < joined.hi ? end : joined.hi;
            builder_add_target(builder, joined.memory, lo, hi);
            lo = hi;
        }
    }
}

/* Index after the last of the targets from `i` on that lie in one segment. */
static uint32_t
targets_end(const struct builder *builder, uint32_t i)
{
    const struct target *first = &builder->targets[i];
    uint64_t limit = builder_segment_end(&builder->graph->memories[first->memory], first->lo);
    while (i < builder->target_count && builder->targets[i].memory == first->memory && builder->targets[i].lo < limit)
        ++i;
    return i;
}

uint32_t
builder_begin_version(struct builder *builder, int32_t op, uint32_t first, uint32_t *end)
{
    const struct target *targets = builder->targets;
    struct graph_version version = {.op = op, .memory = (int32_t)targets[first].memory, .lo = targets[first].lo};
    *end = targets_end(builder, first);
    for (uint32_t i = first; i < *end; ++i) {
        version.hi = targets[i].hi;
        version.bytes += targets[i].hi - targets[i].lo;
    }
    return builder_add_version(builder->graph, &version);
}

/* The spans [first, last) of a memory, with the targets [i, end) put over them: a target's bytes become `version`, the
 * others stay what they are. One merge of two sorted lists; returns how many pieces it makes, in pieces[]. */
static uint32_t
merge_spans(const struct builder *builder, const struct graph_memory *memory, uint32_t first, uint32_t last,
            uint32_t version, uint32_t i, uint32_t end, struct graph_span *pieces)
{
    const struct target *targets = builder->targets;
    uint32_t made = 0, target = i;
    for (uint32_t s = first; s < last; ++s) {
        struct graph_span rest = memory->spans[s];
        while (rest.lo < rest.hi) {
            while (target < end && targets[target].hi <= rest.lo)
                ++target;
            uint64_t next = target < end ? targets[target].lo : UINT64_MAX;
            if (next > rest.lo) { /* bytes before the next target stay */
                uint64_t kept = next < rest.hi ? next : rest.hi;
                pieces[made++] = (struct graph_span){rest.lo, kept, rest.version};
                rest.lo = kept;
                continue;
            }
            uint64_t until = targets[target].hi < rest.hi ? targets[target].hi : rest.hi;
            if (made > 0 && pieces[made - 1].version == version && pieces[made - 1].hi == rest.lo)
                pieces[made - 1].hi = until;
            else
                pieces[made++] = (struct graph_span){rest.lo, until, version};
            rest.lo = until;
        }
    }
    return made;
}

/* Lets the targets [i, end), which are of one memory, hold the version of this number: the spans that they meet are
 * replaced, those after them move. */
static void
put_version(struct builder *builder, uint32_t version, uint32_t i, uint32_t end)
{
    struct graph_memory *memory = &builder->graph->memories[builder->targets[i].memory];
    uint64_t lo = builder->targets[i].lo, hi = builder->targets[end - 1].hi;
    uint32_t first = builder_span_at(memory, lo), last = builder_span_at(memory, hi - 1) + 1;
    uint32_t room = last - first + 2 * (end - i) + 1;
    OWNED struct graph_span *pieces = xcalloc(room, sizeof(*pieces));
    uint32_t made = merge_spans(builder, memory, first, last, version, i, end, pieces);
    uint32_t rest = memory->span_count - last, count = first + made + rest;
    while (memory->span_count < count)
        (void)GROWN(memory->spans, memory->span_count);
    memmove(memory->spans + first + made, memory->spans + last, rest * sizeof(*memory->spans));
    memcpy(memory->spans + first, pieces, made * sizeof(*pieces));
    memory->span_count = count;
}

void
builder_put_versions(struct builder *builder, uint32_t number)
{
    for (uint32_t i = 0, end; i < builder->target_count; i = end) {
        end = targets_end(builder, i);
        put_version(builder, number++, i, end);
    }
}
