/*
 * versions.c - what is asked of a version of memory in the graph: its own edge, its argument, and how it is called
 * (rules.h).
 */
#include "tools/scout/command/analysis/rules.h"

#include <stdio.h>

const struct graph_edge *
version_own_edge(const struct graph_version *version, bool elementwise)
{
    const struct graph_edge *own = NULL;
    FOR_EACH_IN(edge, version)
        if (edge->elementwise == elementwise && version_overlaps(edge->from, version))
            own = edge;
    return own;
}

const struct scout_argument *
version_argument(const struct graph *graph, const struct graph_version *version, const struct scout_op *op)
{
    return FIND(it, op->arguments, op->argument_count,
                graph->memory_of[it->alloc] == (uint32_t)version->memory && it->offset <= version->lo &&
                    it->end >= version->hi);
}

const char *
version_op_name(const struct graph *graph, const struct graph_version *version, char text[SCOUT_NAME_BYTES])
{
    const struct scout_op *op = graph_op(graph, version);
    if (op == NULL)
        snprintf(text, SCOUT_NAME_BYTES, "what was there before");
    else
        (void)scout_op_name(graph->log, op, text);
    return text;
}

uint32_t
version_alloc(const struct graph *graph, const struct graph_version *version)
{
    return version->memory == HOST_MEMORY ? SCOUT_NONE : graph->memories[version->memory].alloc;
}

const char *
version_place(const struct graph *graph, const struct graph_version *version, char text[64])
{
    if (version->memory == HOST_MEMORY)
        return memcpy(text, "host memory", sizeof("host memory"));
    return scout_tensor_place(
        &(struct scout_tensor){.alloc = version_alloc(graph, version), .lo = version->lo, .hi = version->hi}, text);
}
