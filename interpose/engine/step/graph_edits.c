/*
 * graph_edits.c - graphs that are instantiated, changed by hand after their capture, or become part of others, or whose
 * nodes are given other work.
 *
 * What a changed graph does is unknown from then on, or the job ends if the graph holds DDP_STEP: what was put in
 * might have to come before the averages, or after them. Called by the hooks in any thread.
 */
#include "interpose/engine/memory/memory.h"
#include "interpose/engine/step/step.h"

/* ---- what becomes executable ---- */

void
graph_made(CUgraph from, const CUgraphExec *made, uint64_t flags, bool done)
{
    if (!done || made == NULL)
        return;
    struct recording *recording = recording_find(from);
    bool harmless =
        recording != NULL && !recording->opaque && recording->node_count == 0 && !recording_steps(recording);
    if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0 && !harmless &&
        atomic_load(&memory_state.highest) != 0)
        stop_job("a CUDA graph is instantiated to be launched by kernels (CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH), "
                 "which ddprun does not see, and it may touch gradients: launch it from the host");
    recording_set(*made, true, recording);
    recording_release(recording);
}

void
graph_updated(CUgraphExec exec, CUgraph graph, bool done)
{
    graph_made(graph, &exec, 0, done);
}

/* ---- changes ---- */

/* From now on the graph does more than was recorded. */
static void
note_change(struct recording *recording, const char *call)
{
    if (recording_steps(recording))
        stop_job("%s changes a graph in which DDP_STEP (%s:%d) was captured: ddprun cannot tell whether the change "
                 "comes before the averages or after them; capture all work of the step",
                 call, recording->steps[0].site.file, recording->steps[0].site.line);
    recording->opaque = true;
}

void
graph_changes(CUgraph graph, const char *call)
{
    if (capture_graph_changes(graph, call))
        return;
    struct recording *recording = recording_find(graph);
    if (recording != NULL)
        note_change(recording, call);
    recording_release(recording);
}

void
graph_nested(CUgraph graph, const char *call)
{
    struct recording *recording = recording_find(graph);
    if (recording_steps(recording))
        stop_job(
            "%s makes a graph in which DDP_STEP (%s:%d) was captured a part of another graph, which ddprun does not "
            "follow: launch it by itself",
            call, recording->steps[0].site.file, recording->steps[0].site.line);
    recording_release(recording);
}

/* ---- nodes that do other work ---- */

static bool
graph_has(CUgraph graph, CUgraphNode node)
{
    size_t count = 0;
    const struct driver *driver = &engine_state.driver;
    if (driver->cuGraphGetNodes_p(graph, NULL, &count) != CUDA_SUCCESS)
        return true; /* it is unknown whether it has the node */
    CUgraphNode *nodes = engine_calloc(count + 1, sizeof(*nodes));
    bool found = driver->cuGraphGetNodes_p(graph, nodes, &count) != CUDA_SUCCESS;
    for (size_t i = 0; i < count && !found; ++i)
        found = nodes[i] == node;
    free(nodes);
    return found;
}

/* The recording that the node is part of, held for the caller: of the executable graph, or of the graph that has the
 * node. */
static struct recording *
recording_of_node(CUgraphExec exec, CUgraphNode node)
{
    if (exec != NULL)
        return recording_find(exec);
    CUgraph graph;
    for (size_t at = 0; recording_next_graph(&at, &graph);) {
        if (graph_has(graph, node))
            return recording_find(graph);
    }
    return NULL;
}

/* Whether all that the work touches is touched by the node as it was captured. */
static bool
is_covered(const struct recording *recording, CUgraphNode node, const struct hits *hits)
{
    for (size_t h = 0; h < hits->count; ++h) {
        bool covered = false;
        for (size_t i = 0; i < recording->node_count; ++i) {
            const struct captured_node *captured = &recording->nodes[i];
            for (size_t k = 0; k < captured->count && captured->node == node; ++k)
                covered = covered || recording->touched[captured->first + k] == hits->items[h].place;
        }
        if (!covered)
            return false;
    }
    return true;
}

void
graph_node_changes(CUgraphExec exec, CUgraphNode node, struct operation *work)
{
    struct recording *recording = recording_of_node(exec, node);
    if (recording == NULL)
        return;
    struct hits hits = {0};
    bool through_pointers;
    bool opaque = hits_look(&hits, work, &through_pointers) || hits.on_buffer || work->graph != NULL;
    if (opaque || !is_covered(recording, node, &hits))
        note_change(recording, work->name);
    hits_clear(&hits);
    recording_release(recording);
}
