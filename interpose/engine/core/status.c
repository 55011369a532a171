/*
 * status.c - where this rank waits on the host for the other ranks, in its status record: the launcher and the watch
 * threads of other ranks read it.
 */
#include "interpose/engine/core/core.h"

#include "base/clock.h"

#include <stdio.h>

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
