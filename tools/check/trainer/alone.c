/*
 * alone.c - a world of one reports nothing to the engine but frees; in a run of `ddprun check` it reports its
 * operations too, for memory.c and copies.c, and nothing else comes of them.
 */
#include "tools/check/trainer/check.h"

static void
begin(struct operation *operation)
{
    operation->notes = NULL;
    atomic_fetch_add_explicit(&engine_state.operation_count, 1, memory_order_relaxed);
    check_operation_begins(operation);
}

static void
end(struct operation *operation, bool enqueued)
{
    check_operation_ends(operation, enqueued);
}

static void
allocated(const CUdeviceptr *address, size_t bytes, enum memory_kind kind)
{
    (void)address, (void)bytes, (void)kind;
}

static void
copied_from_host(const void *source, size_t bytes, size_t pitch, size_t rows)
{
    check_copied(0, source, bytes, pitch, rows);
}

static void
stream_goes(CUstream stream)
{
    (void)stream;
}

static void
capture_begun(CUstream stream, bool into_graph, bool done)
{
    (void)stream, (void)into_graph;
    if (done)
        atomic_fetch_add(&engine_state.captures_open, 1);
}

static void
capture_changes(CUstream stream)
{
    (void)stream;
}

static void *
capture_ends(CUstream stream)
{
    (void)stream;
    return NULL;
}

static void
capture_ended(void *ended, const CUgraph *graph, bool done)
{
    (void)ended, (void)graph, (void)done;
    if (atomic_load(&engine_state.captures_open) > 0)
        atomic_fetch_sub(&engine_state.captures_open, 1);
}

static void
graph_cloned(CUgraph from, const CUgraph *clone, bool done)
{
    (void)from, (void)clone, (void)done;
}

static void
graph_made(CUgraph from, const CUgraphExec *made, uint64_t flags, bool done)
{
    (void)from, (void)made, (void)flags, (void)done;
}

static void
graph_updated(CUgraphExec exec, CUgraph graph, bool done)
{
    (void)exec, (void)graph, (void)done;
}

static void
graph_goes(void *handle)
{
    (void)handle;
}

static void
graph_gone(void *handle, bool done)
{
    (void)handle, (void)done;
}

static void
graph_changes(CUgraph graph, const char *call)
{
    (void)graph, (void)call;
}

static void
node_changes(CUgraphExec exec, CUgraphNode node, struct operation *work)
{
    (void)exec, (void)node, (void)work;
}

void
alone_install(struct engine *engine)
{
    engine->watching = true;
    engine->begin = begin;
    engine->end = end;
    engine->allocated = allocated;
    engine->copied_from_host = copied_from_host;
    engine->before_stream_destroy = stream_goes;
    engine->capture_begun = capture_begun;
    engine->capture_changes = capture_changes;
    engine->capture_ends = capture_ends;
    engine->capture_ended = capture_ended;
    engine->graph_cloned = graph_cloned;
    engine->graph_made = graph_made;
    engine->graph_updated = graph_updated;
    engine->graph_goes = graph_goes;
    engine->graph_gone = graph_gone;
    engine->graph_changes = graph_changes;
    engine->graph_nested = graph_changes;
    engine->node_changes = node_changes;
}
