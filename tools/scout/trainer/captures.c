/*
 * captures.c - whether streams are captured: then nothing runs, and the recorder may ask the driver for nothing that
 * waits (scout.h). Called by the hooks, for the recorder and for the player; any thread.
 */
#include "tools/scout/trainer/scout.h"

static atomic_int captures;

void
captures_begin(bool done)
{
    atomic_fetch_add(&captures, done);
}

void
captures_end(bool is_over)
{
    int open = atomic_load(&captures); /* 0: it began before this process was the rank */
    while (is_over && open > 0) {
        if (atomic_compare_exchange_weak(&captures, &open, open - 1))
            return;
    }
}

bool
captures_are_open(void)
{
    return atomic_load_explicit(&captures, memory_order_relaxed) != 0;
}

bool
captures_have(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    return captures_are_open() && scout_state.driver.cuStreamIsCapturing_p(stream, &status) == CUDA_SUCCESS &&
           status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}
