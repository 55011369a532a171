/*
 * observer.c - what the engine calls in a run of `ddprun check`. The library that is linked of the engine's objects and
 * of this folder has it; no job loads that library (check.h).
 */
#include "tools/check/trainer/check.h"

static void
show(struct engine *engine)
{
    if (check_run.grown_count > 0) {
        engine->rank = (int)check_run.grown;
        engine->world_size = (int)check_run.grown_count;
    }
    if (!engine->watching)
        alone_install(engine);
}

static void
copied(const void *source, size_t bytes, size_t pitch, size_t rows)
{
    check_copied(0, source, bytes, pitch, rows);
}

static const struct observer observer = {
    .opens = check_open,
    .shows = show,
    .program_ends = check_program_ends,
    .takes_alarm = check_takes_alarm,
    .job_stops = check_notes_stop,
    .annotated = check_annotated,
    .boundary_begins = check_boundary_begins,
    .boundary_ends = check_boundary_ends,
    .no_sync = check_no_sync,
    .mean = check_mean,
    .reduce_begins = check_reduce_begins,
    .reduce_ends = check_reduce_ends,
    .shard = check_shard,
    .operation_begins = check_operation_begins,
    .operation_ends = check_operation_ends,
    .copied = copied,
};

static void __attribute__((constructor)) observe(void)
{
    engine_state.observer = &observer;
}
