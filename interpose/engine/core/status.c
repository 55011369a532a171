/*
 * status.c - what this rank says of itself in its status record, where the launcher and the watch threads of other
 * ranks read it: where it waits on the host for the other ranks; and in the flight recorder (base/flight.h) what it did
 * last, for reports of its end. What the program says of itself is in user_metrics.c.
 *
 * The flight recorder is written where the engine does something that the ranks do together, never for launches that
 * touch no gradient; by any thread, without a lock or a system call. Costs a few stores; nothing here can fail.
 */
#include "interpose/engine/core/core.h"

#include "base/clock.h"

void
status_waits_at(const char *place)
{
    struct rank_status *status = engine_state.status;
    snprintf(status->place, sizeof(status->place), "%s", place);
    atomic_store(&status->waits_ns, (uint64_t)clock_now_us() * 1000);
    atomic_fetch_add(&status->wait_count, 1);
    atomic_store(&status->waits, 1);
}

void
status_waits_no_more(void)
{
    atomic_store(&engine_state.status->waits, 0);
}

void
status_reach(enum rank_stage stage)
{
    _Atomic uint32_t *reached = &engine_state.status->stage;
    uint32_t before = atomic_load(reached);
    while (before < stage && !atomic_compare_exchange_weak(reached, &before, stage)) {
    }
}

/* ---- the flight recorder ---- */

void
flight_note(enum flight_kind kind, uint64_t number, uint64_t bytes, const char *text)
{
    flight_write(flight_of(engine_state.status), kind, atomic_load(&engine_state.boundary_count), number, bytes, text);
}

void
flight_note_site(enum flight_kind kind, uint64_t number, const struct ddp_site *site)
{
    char text[FLIGHT_TEXT_BYTES];
    snprintf(text, sizeof(text), "%.30s:%d", file_name_of(site->file), site->line);
    flight_note(kind, number, 0, text);
}
