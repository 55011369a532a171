/*
 * sources.c - where data comes from, and what is computed from it (rules.h).
 */
#include "tools/scout/command/analysis/rules.h"

/* Whether any operation of the window writes where this version of no operation lies. */
static bool
is_overwritten(const struct graph *graph, const struct graph_version *version)
{
    return graph->memories[version->memory].written &&
           ANY_VERSION(it, graph, it->op >= 0 && version_overlaps(version, it));
}

/* Whether the same copy carries the same bytes one period later. */
static bool
is_repeated(const struct graph *graph, const struct graph_version *version)
{
    const struct scout_op *op = graph_op(graph, version);
    uint32_t later = (uint32_t)version->op + graph->period;
    return op->content != 0 && later < graph->count && graph->log->ops[graph->first + later].content == op->content;
}

bool
source_is_small(const struct graph_version *version)
{
    return version->from_host && version->bytes <= DATA_BYTES;
}

/* Whether the version was there before the window, and no operation of it writes its memory. */
static bool
is_constant(const struct graph *graph, const struct graph_version *version)
{
    return version->op == VERSION_BEFORE && version->out_count > 0 && !is_overwritten(graph, version);
}

/* Whether the host brings the version in the period, and data does not depend on it: the same bytes in each period,
 * or a few numbers. */
static bool
is_brought_constant(const struct graph *graph, const struct graph_version *version)
{
    return is_repeated(graph, version) || (graph->has_large && source_is_small(version));
}

void
sources_find(struct graph *graph)
{
    graph->has_large =
        ANY_VERSION(version, graph, version->from_host && version_in_period(version) && !source_is_small(version));
    FOR_EACH_VERSION(version, graph) {
        bool in_period = version_in_period(version), is_brought = version->from_host && in_period;
        version->constant = is_constant(graph, version);
        version->source = is_brought || version->constant;
        if (is_brought && is_brought_constant(graph, version))
            version->constant = true;
        bool is_computed = in_period && ANY_IN(edge, version, edge->from->tainted);
        version->tainted = version->source || is_computed;
    }
}

bool *
sources_of(const struct graph *graph, const struct graph_version *version, bool before)
{
    bool *marks = xcalloc(graph->version_count + 1, sizeof(*marks));
    FOR_EACH_VERSION(it, graph) {
        bool begins = before ? it->op == VERSION_BEFORE && version_overlaps(it, version) : it == version;
        bool follows = version_in_period(it) && ANY_IN(edge, it, marks[edge->from->number]);
        marks[it->number] = begins || follows;
    }
    return marks;
}
