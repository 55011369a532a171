/*
 * flight.c - notes in the flight recorder (base/flight.h) what this rank does, for reports of its end.
 *
 * Called where the engine does something that the ranks do together; never for launches that touch no gradient. Any
 * thread; no lock, no system call.
 */
#include "interpose/engine/core/core.h"

#include "base/flight.h"

#include <stdio.h>
#include <string.h>

void
flight_note(enum flight_kind kind, uint64_t number, uint64_t bytes, const char *text)
{
    flight_write(flight_of(engine_state.status), kind, atomic_load(&engine_state.boundary_count), number, bytes, text);
}

void
flight_note_site(enum flight_kind kind, uint64_t number, const struct ddp_site *site)
{
    char text[FLIGHT_TEXT_BYTES];
    const char *slash = strrchr(site->file, '/');
    snprintf(text, sizeof(text), "%.30s:%d", slash != NULL ? slash + 1 : site->file, site->line);
    flight_note(kind, number, 0, text);
}
