/*
 * observer.c - what the engine calls in a run of `ddprun check` (interpose/engine/core/observer.h), and how a world of
 * one is observed, in which the engine does nothing by itself. The library that is linked of the engine's objects and
 * of this folder has the table; no job loads that library. The calls are in course.c.
 */
#include "tools/check/trainer/check.h"

#include "tools/common/idle.h"

static void
note_copied(const void *source, size_t bytes, size_t pitch, size_t rows)
{
    check_copied(0, source, bytes, pitch, rows);
}

/* ---- a world of one, which reports nothing to the engine but frees; here its operations, too ---- */

static void
on_capture_begun(CUstream stream, bool into_graph, bool done)
{
    (void)stream, (void)into_graph;
    if (done)
        atomic_fetch_add(&engine_state.captures_open, 1);
}

static void
on_capture_ended(void *ended, const CUgraph *graph, bool done)
{
    (void)ended, (void)graph, (void)done;
    if (atomic_load(&engine_state.captures_open) > 0)
        atomic_fetch_sub(&engine_state.captures_open, 1);
}

/* At the first look at the engine: tells the shim which calls to pass on; what check does not follow goes to the idle
 * ones. */
static void
show_engine(struct engine *engine)
{
    if (engine->watching)
        return;
    turns_show(engine);
    engine->watching = true;
    engine->before_stream_destroy = engine_idle.before_stream_destroy;
    engine->capture_begun = on_capture_begun;
    engine->capture_changes = engine_idle.capture_changes;
    engine->capture_ends = engine_idle.capture_ends;
    engine->capture_ended = on_capture_ended;
    engine->graph_cloned = engine_idle.graph_cloned;
    engine->graph_made = engine_idle.graph_made;
    engine->graph_updated = engine_idle.graph_updated;
    engine->graph_goes = engine_idle.graph_goes;
    engine->graph_gone = engine_idle.graph_gone;
    engine->graph_changes = engine_idle.graph_changes;
    engine->graph_nested = engine_idle.graph_nested;
    engine->node_changes = engine_idle.node_changes;
}

static const struct observer observer = {
    .opens = check_open,
    .shows = show_engine,
    .program_ends = check_program_ends,
    .takes_alarm = check_takes_alarm,
    .job_stops = check_notes_stop,
    .annotated = check_annotated,
    .boundary_begins = check_boundary_begins,
    .boundary_ends = check_boundary_ends,
    .mean = check_mean,
    .reduce_begins = check_reduce_begins,
    .reduce_ends = check_reduce_ends,
    .shard = check_shard,
    .turns = turns_taken,
    .turn_begins = turns_batch_begins,
    .turn_steps = turns_batch_steps,
    .turns_rest = turns_rest,
    .operation_begins = check_operation_begins,
    .operation_ends = check_operation_ends,
    .operation_left_out = check_operation_left_out,
    .copied = note_copied,
};

static void __attribute__((constructor)) observe(void)
{
    engine_state.observer = &observer;
}
