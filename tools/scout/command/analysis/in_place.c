/*
 * in_place.c - see finding.h.
 *
 * A launch that computes gradients, and adds them to what it reads them from, leaves no gradient in memory, and its
 * update cannot be told from the rest. What it writes of numbers with a fraction, and the next step reads, is trained
 * as far as can be told: its change is what ranks average.
 */
#include "tools/scout/command/analysis/rules.h"

#include "tools/common/owned.h"

/* Whether a version is what a step leaves for the next one, computed from data. */
static bool
is_left(const struct graph_version *version)
{
    return version->persistent && version->tainted && version->op >= 0 && version->type != SCOUT_INTEGER;
}

/* Whether steps overwrite a part of the memory, as of an arena that activations share: then its bytes say nothing. */
static bool
is_mixed(const struct graph *graph, int32_t memory)
{
    return ANY_VERSION(it, graph,
                       it->memory == memory && it->op >= 0 && it->period == 0 && version_own_edge(it, false) == NULL);
}

/* All of an allocation, of which a batch may touch some rows. False: it is of more than what is trained. */
static bool
add_memory(const struct graph *graph, const struct graph_version *version, struct scout_finding *finding)
{
    const struct scout_alloc *alloc = &graph->log->allocs[version_alloc(graph, version)];
    if (alloc->bytes <= ELEMENT_BYTES) /* a figure, such as a sum of losses */
        return true;
    if (is_mixed(graph, version->memory))
        return false;
    uint32_t at = gradients_add_tensor(finding, ROLE_PARAMETER, version_alloc(graph, version),
                                       (struct scout_range){0, alloc->bytes}, version->type, PAIR_NONE,
                                       gradients_log_op(graph, version));
    struct scout_tensor *tensor = &finding->tensors[at];
    tensor->fused = true;
    tensor->writer = gradients_log_op(graph, version); /* the last one */
    return true;
}

/* Finds parameters that are trained in place, without gradients of their own. False: there are none, or types are not
 * known. */
static bool
find_trained(struct graph *graph, struct scout_finding *finding)
{
    sources_find(graph);
    elementwise_find_edges(graph);
    stays_find(graph, finding);
    FOR_EACH_VERSION(version, graph)
        if (is_left(version) && !add_memory(graph, version, finding))
            return false;
    if (finding->tensor_count == 0 || types_find(graph, finding) != ROLES_FOUND)
        return false;
    groups_find(graph, finding);
    return true;
}

bool
scout_find_in_place(const struct scout_log *log, const struct scout_finding *refused, struct scout_finding *finding)
{
    const struct scout_window *window = &refused->in_place;
    struct scout_log lent;
    struct graph graph;
    *finding = (struct scout_finding){
        .first = window->first, .period = window->period, .begin = window->begin, .end = window->end};
    if (window->period == 0)
        return false;
    borrow_make(log, window->begin, window->end, window->period, READING_OLD, &lent);
    graph_build(&lent, window->first, window->period, 2, &graph);
    finding->found = find_trained(&graph, finding);
    finding->is_in_place = finding->found;
    graph_free(&graph);
    borrow_free(&lent);
    return finding->found;
}
