/*
 * alone.c - a world of one reports nothing to the engine but frees; in a run of `ddprun check` it reports its
 * operations too, for memory.c and copies.c, and nothing else comes of them.
 */
#include "tools/check/trainer/check.h"
#include "tools/common/idle.h"

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
capture_begun(CUstream stream, bool into_graph, bool done)
{
    (void)stream, (void)into_graph;
    if (done)
        atomic_fetch_add(&engine_state.captures_open, 1);
}

static void
capture_ended(void *ended, const CUgraph *graph, bool done)
{
    (void)ended, (void)graph, (void)done;
    if (atomic_load(&engine_state.captures_open) > 0)
        atomic_fetch_sub(&engine_state.captures_open, 1);
}

void
alone_install(struct engine *engine)
{
    engine->watching = true;
    engine->begin = begin;
    engine->end = end;
    engine->allocated = engine_idle.allocated;
    engine->copied_from_host = engine_state.observer->copied;
    engine->before_stream_destroy = engine_idle.before_stream_destroy;
    engine->capture_begun = capture_begun;
    engine->capture_changes = engine_idle.capture_changes;
    engine->capture_ends = engine_idle.capture_ends;
    engine->capture_ended = capture_ended;
    engine->graph_cloned = engine_idle.graph_cloned;
    engine->graph_made = engine_idle.graph_made;
    engine->graph_updated = engine_idle.graph_updated;
    engine->graph_goes = engine_idle.graph_goes;
    engine->graph_gone = engine_idle.graph_gone;
    engine->graph_changes = engine_idle.graph_changes;
    engine->graph_nested = engine_idle.graph_nested;
    engine->node_changes = engine_idle.node_changes;
}
