/*
 * graph_registry.c - which graph and which executable graph does what was recorded where.
 *
 * Handles come and go by the hooks of the calls that make and destroy them. What a handle without a recording does
 * is unknown. What is changed by hand is in graph_edits.c.
 *
 * Called by the hooks in any thread. Nothing is held across a call.
 */
#include "interpose/engine/graphs/graphs.h"

struct known {
    const void *handle;
    bool executable; /* a CUgraphExec; else a CUgraph */
    bool going;      /* the driver is destroying it: the handle may be another's already */
    struct recording *recording;
};

pthread_mutex_t recordings_mutex = PTHREAD_MUTEX_INITIALIZER;

static struct known *known GUARDED_BY(recordings_mutex);
static size_t known_count GUARDED_BY(recordings_mutex), known_capacity GUARDED_BY(recordings_mutex);

/* ---- recordings ---- */

struct recording *
recording_new(void)
{
    struct recording *recording = engine_calloc(1, sizeof(*recording));
    pthread_mutex_lock(&recordings_mutex);
    recording->references = 1;
    pthread_mutex_unlock(&recordings_mutex);
    return recording;
}

/* Buckets of captured steps. A launch of the graph may still use them: all launches are waited for. Not analysed: the
 * role is taken only where the context still exists. */
static void NOT_ANALYSED
free_steps(struct recording *recording)
{
    if (recording->step_count == 0)
        return;
    bool gone = atomic_load(&engine_state.context_ended) || atomic_load(&engine_state.device_closed);
    CUcontext before = gone ? NULL : context_enter();
    CUstreamCaptureMode mode = gone ? 0 : context_exchange_capture_mode(CU_STREAM_CAPTURE_MODE_RELAXED);
    if (!gone) {
        role_take();
        streams_wait_for_buckets();
    }
    for (size_t i = 0; i < recording->step_count; ++i) {
        struct shipment *shipment = &recording->steps[i].shipment;
        for (size_t k = 0; k < shipment->wire_count && !gone; ++k)
            wire_free(&shipment->wires[k], &engine_state.driver);
        free(shipment->wires);
        free(shipment->speculations);
        free(shipment->send_order);
        plan_free(shipment->plan);
    }
    if (!gone) {
        role_give();
        (void)context_exchange_capture_mode(mode);
        context_leave(before);
    }
}

void
recording_release(struct recording *recording)
{
    if (recording == NULL)
        return;
    pthread_mutex_lock(&recordings_mutex);
    ASSERT(recording->references > 0);
    bool last = --recording->references == 0;
    pthread_mutex_unlock(&recordings_mutex);
    if (!last)
        return;
    free_steps(recording);
    free(recording->steps);
    free(recording->places);
    free(recording->touched);
    free(recording->nodes);
    free(recording->sources);
    free(recording);
}

/* ---- handles ---- */

/* With lock held: the handle's place, or known_count. */
static size_t
place_of_handle(const void *handle, bool going) REQUIRES(recordings_mutex)
{
    size_t at = 0;
    while (at < known_count && (known[at].handle != handle || known[at].going != going))
        ++at;
    return at;
}

struct recording *
recording_find(const void *handle)
{
    pthread_mutex_lock(&recordings_mutex);
    size_t at = place_of_handle(handle, false);
    struct recording *recording = at < known_count ? known[at].recording : NULL;
    if (recording != NULL)
        ++recording->references;
    pthread_mutex_unlock(&recordings_mutex);
    return recording;
}

void
recording_set(const void *handle, bool executable, struct recording *recording)
{
    struct recording *old = NULL;
    pthread_mutex_lock(&recordings_mutex);
    size_t at = place_of_handle(handle, false);
    if (at < known_count) {
        old = known[at].recording;
        known[at] = known[--known_count];
    }
    if (recording != NULL) {
        known = engine_grow(known, known_count, &known_capacity, sizeof(*known));
        ++recording->references;
        known[known_count++] = (struct known){.handle = handle, .executable = executable, .recording = recording};
    }
    pthread_mutex_unlock(&recordings_mutex);
    recording_release(old);
}

bool
recording_next_graph(size_t *at_p, CUgraph *graph_p)
{
    bool found = false;
    pthread_mutex_lock(&recordings_mutex);
    for (; *at_p < known_count && !found; ++*at_p) {
        found = !known[*at_p].executable && !known[*at_p].going;
        *graph_p = (CUgraph)known[*at_p].handle;
    }
    pthread_mutex_unlock(&recordings_mutex);
    return found;
}

/* ---- what becomes of graphs ---- */

void
graph_cloned(CUgraph from, const CUgraph *clone, bool done)
{
    if (!done || clone == NULL)
        return;
    struct recording *recording = recording_find(from);
    recording_set(*clone, false, recording);
    recording_release(recording);
}

void
graph_goes(void *handle)
{
    pthread_mutex_lock(&recordings_mutex);
    size_t at = place_of_handle(handle, false);
    if (at < known_count)
        known[at].going = true;
    pthread_mutex_unlock(&recordings_mutex);
}

void
graph_gone(void *handle, bool done)
{
    struct recording *recording = NULL;
    pthread_mutex_lock(&recordings_mutex);
    size_t at = place_of_handle(handle, true);
    if (at < known_count && done) {
        recording = known[at].recording;
        known[at] = known[--known_count];
    } else if (at < known_count) {
        known[at].going = false;
    }
    pthread_mutex_unlock(&recordings_mutex);
    recording_release(recording);
}
