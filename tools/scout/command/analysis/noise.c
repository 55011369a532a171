/* noise.c - see turns.h. */
#include "tools/scout/command/analysis/turns.h"

#include "tools/common/grown.h"
#include "tools/common/owned.h"

struct spreader {
    const struct graph *graph;
    uint32_t *marks; /* [version_count]: 1 + the operation of the period that the noise is of; 0: none */
    uint32_t host;   /* the same of what the host has read; 0: nothing with noise */
};

/* Whether any recorded launch of an operation's kernel had other bits when it was repeated. */
static bool
is_noisy(const struct graph *graph, uint32_t at)
{
    const struct scout_log *log = graph->log;
    return ANY(op, log->ops, log->op_count,
               op->name == log->ops[graph->first + at].name && op->effect != NULL &&
                   op->effect->verdict == SCOUT_TOLERANCE);
}

/* Whether what the host gives an operation differs from period to period, and is no batch: it may come of what it has
 * read. */
static bool
is_of_host(const struct spreader *spreader, uint32_t at)
{
    const struct graph *graph = spreader->graph;
    const struct scout_op *op = &graph->log->ops[graph->first + at];
    if (at + graph->period >= graph->count || op->ahead != 0)
        return false;
    return op->scalars != op[graph->period].scalars ||
           (!scout_brings_data(op) && op->content != op[graph->period].content);
}

/* What noise had in a place it has in each later period. */
static uint32_t
mark_of_place(const struct spreader *spreader, const struct graph_version *place)
{
    const struct graph_version *noisy =
        FIND(it, spreader->graph->versions, spreader->graph->version_count,
             it->op >= 0 && version_overlaps(it, place) && spreader->marks[it->number] != 0);
    return noisy != NULL ? spreader->marks[noisy->number] : 0;
}

/* Returns whether more is marked than before. */
static bool
spread(struct spreader *spreader, const bool *makes, const bool *is_clean)
{
    const struct graph *graph = spreader->graph;
    bool more = false;
    FOR_EACH_VERSION(version, graph) {
        uint32_t mark = 0, i = version->number;
        if (spreader->marks[i] != 0 || (is_clean != NULL && is_clean[i]))
            continue;
        if (version->op == VERSION_BEFORE && version->memory != HOST_MEMORY)
            mark = mark_of_place(spreader, version);
        else if (version->op >= 0 && makes[version->position])
            mark = version->position + 1;
        else if (version->op >= 0 && spreader->host != 0 && is_of_host(spreader, version->position))
            mark = spreader->host;
        FOR_EACH_IN_UNTIL(edge, version, mark != 0)
            mark = spreader->marks[edge->from->number];
        spreader->marks[i] = mark;
        if (mark != 0 && version->memory == HOST_MEMORY && is_clean == NULL && spreader->host == 0)
            spreader->host = mark;
        more = more || mark != 0;
    }
    return more;
}

uint32_t *
noise_find(const struct graph *graph, const bool *is_left_out, const bool *is_clean)
{
    OWNED bool *makes = xcalloc(graph->period + 1, sizeof(*makes));
    bool any = false;
    struct spreader spreader = {.graph = graph, .marks = xcalloc(graph->version_count + 1, sizeof(*spreader.marks))};
    for (uint32_t at = 0; at < graph->period; ++at) {
        makes[at] = (is_left_out == NULL || !is_left_out[at]) && is_noisy(graph, at);
        any = any || makes[at];
    }
    while (any && spread(&spreader, makes, is_clean))
        ;
    return spreader.marks;
}

void
noise_note(const struct graph *graph, const uint32_t *marks, struct turns *turns)
{
    FOR_EACH_VERSION(version, graph) {
        uint32_t by = marks[version->number];
        if (by != 0 && version->memory != HOST_MEMORY)
            *GROWN(turns->noisy, turns->noisy_count) = (struct turns_noisy){
                .alloc = graph->memories[version->memory].alloc, .lo = version->lo, .hi = version->hi, .by = by};
        else if (by != 0 && version->op >= 0)
            turns->reads.by_operation[version->position].noise = by;
    }
}

uint32_t
noise_at(const struct scout_log *log, const struct turns *turns, uint32_t alloc, uint64_t lo, uint64_t hi)
{
    const struct scout_alloc *of = &log->allocs[alloc];
    FOR_EACH(it, turns->noisy, turns->noisy_count) {
        const struct scout_alloc *alike = &log->allocs[it->alloc];
        if (alike->bytes == of->bytes && alike->ordinal == of->ordinal && it->lo < hi && lo < it->hi)
            return it->by;
    }
    return 0;
}
