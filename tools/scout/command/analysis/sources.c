/*
 * sources.c - where data comes from, and what is computed from it.
 */
#include "tools/scout/command/analysis/rules.h"

/* Whether any operation of the window writes where this version of no operation lies. */
static bool
is_overwritten(const struct roles *roles, uint32_t number)
{
    const struct graph_version *version = version_of(roles, number);
    if (!roles->graph->memories[version->memory].written)
        return false;
    for (uint32_t i = 0; i < roles->graph->version_count; ++i)
        if (roles->graph->versions[i].op >= 0 && version_overlaps(version, &roles->graph->versions[i]))
            return true;
    return false;
}

/* Whether the same copy carries the same bytes one period later. */
static bool
is_repeated(const struct roles *roles, const struct graph_version *version)
{
    const struct scout_op *op = graph_op(roles->graph, version);
    uint32_t later = (uint32_t)version->op + roles->period;
    return op->content != 0 && later < roles->graph->count &&
           roles->graph->log->ops[roles->graph->first + later].content == op->content;
}

bool
source_is_small(const struct graph_version *version)
{
    return version->from_host && version->bytes <= DATA_BYTES;
}

void
sources_find(struct roles *roles)
{
    const struct graph *graph = roles->graph;
    for (uint32_t i = 0; i < graph->version_count; ++i)
        roles->has_large = roles->has_large || (graph->versions[i].from_host && version_in_period(roles, i) &&
                                                !source_is_small(&graph->versions[i]));
    for (uint32_t i = 0; i < graph->version_count; ++i) {
        const struct graph_version *version = &graph->versions[i];
        if (!version->from_host || !version_in_period(roles, i))
            continue;
        roles->source[i] = true;
        roles->constant[i] = is_repeated(roles, version) || (roles->has_large && source_is_small(version));
    }
    for (uint32_t i = 0; i < graph->version_count; ++i)
        if (graph->versions[i].op == VERSION_BEFORE && graph->versions[i].out_count > 0 && !is_overwritten(roles, i))
            roles->source[i] = roles->constant[i] = true;
}

void
sources_spread(const struct roles *roles, bool *marks, const bool *sources, const bool *blocked)
{
    for (uint32_t i = 0; i < roles->graph->version_count; ++i) {
        marks[i] = sources[i];
        if (!version_in_period(roles, i))
            continue;
        for (uint32_t e = 0; e < version_of(roles, i)->in_count && !marks[i]; ++e)
            marks[i] = marks[version_in_edge(roles, i, e)->from];
        if (blocked != NULL && blocked[i])
            marks[i] = false;
    }
}
