/*
 * recorder.c - counts calls that the engine cannot follow: versions of hooked calls that are newer or older than this
 * shim knows, and calls that write memory in ways without operands.
 *
 * The trainer's program continues; a job of several ranks ends at its next boundary with the name (engine,
 * unknown_calls). Calls from within a hook or the engine do not count: its own hook reports what a library does.
 */
#include "interpose/shim/shim.h"

#include <string.h>

/* Machine code, in look_up_*.S: each a jump to its target that counts. */
extern const char recorder_thunks[] __attribute__((visibility("hidden")));
__attribute__((visibility("hidden"))) uint64_t recorder_thunk_calls[THUNKS];
__attribute__((visibility("hidden"))) void *recorder_thunk_targets[THUNKS];
static const char *thunk_names[THUNKS];
static _Atomic unsigned thunk_count;
static _Atomic bool thunks_exhausted;

void *
recorder_thunk(const char *name, void *target)
{
    unsigned count = atomic_load(&thunk_count);
    for (unsigned i = 0; i < count && i < THUNKS; ++i) {
        if (recorder_thunk_targets[i] == target)
            return (void *)(recorder_thunks + (size_t)i * THUNK_BYTES);
    }
    unsigned at = atomic_fetch_add(&thunk_count, 1);
    if (at >= THUNKS) { /* counts as called: it is unknown whether it is */
        atomic_store(&thunks_exhausted, true);
        return target;
    }
    thunk_names[at] = strdup(name);
    recorder_thunk_targets[at] = target;
    return (void *)(recorder_thunks + (size_t)at * THUNK_BYTES);
}

uint64_t
recorder_calls(const char **name_p)
{
    uint64_t calls = 0;
    for (unsigned i = 0; i < atomic_load(&thunk_count) && i < THUNKS; ++i) {
        uint64_t here = __atomic_load_n(&recorder_thunk_calls[i], __ATOMIC_RELAXED);
        if (here > 0)
            *name_p = thunk_names[i] != NULL ? thunk_names[i] : "a call";
        calls += here;
    }
    for (unsigned i = 0; i < shim_route_count; ++i) {
        uint64_t here = atomic_load_explicit(&shim_routes[i].recorded, memory_order_relaxed);
        if (here > 0)
            *name_p = shim_routes[i].symbol;
        calls += here;
    }
    if (atomic_load(&thunks_exhausted)) {
        *name_p = "more unknown versions of hooked calls than can be counted";
        ++calls;
    }
    return calls;
}
