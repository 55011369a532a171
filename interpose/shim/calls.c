/*
 * calls.c - in which call of the driver is the trainer, and which was its last? For reports of why it does not
 * continue.
 *
 * Called by the hooks around each call that they report to the engine, and around those in which a trainer may sit for
 * long. Writes into the rank's status record, which the launcher reads. Nothing here waits, allocates or fails: when
 * more threads are in calls at once than there is room for, the rest is not seen, but counted.
 */
#include "interpose/shim/shim.h"

#include "base/clock.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static __thread int32_t thread_id __attribute__((tls_model("initial-exec")));

/* The name that each call of the record has. Written by the thread that has claimed the call. */
static const char *names[RANK_CALLS_AT_ONCE];

/* The kernel's number of this thread. In a forked child, whose hooks are jumps, it is its parent's. */
static int32_t
this_thread(void)
{
    if (thread_id == 0)
        thread_id = (int32_t)syscall(SYS_gettid);
    return thread_id;
}

struct rank_call *
calls_enter(const char *name)
{
    struct rank_status *status = atomic_load_explicit(&shim.status, memory_order_relaxed);
    if (status == NULL)
        return NULL;
    int32_t me = this_thread();
    struct rank_call *call = NULL;
    for (int i = 0; i < RANK_CALLS_AT_ONCE && call == NULL; ++i) {
        int32_t vacant = 0;
        if (atomic_compare_exchange_strong(&status->calls[i].thread, &vacant, me))
            call = &status->calls[i];
    }
    if (call == NULL)
        return NULL;

    if (names[call - status->calls] != name) {
        uint64_t words[RANK_CALL_NAME_WORDS] = {0};
        memcpy(words, name, strnlen(name, sizeof(words) - 1));
        for (int i = 0; i < RANK_CALL_NAME_WORDS; ++i)
            atomic_store_explicit(&call->name[i], words[i], memory_order_relaxed);
        names[call - status->calls] = name;
    }
    atomic_store_explicit(&call->last_thread, me, memory_order_relaxed);
    atomic_store_explicit(&call->entered_ns, (uint64_t)clock_last_tick_ns(), memory_order_release);
    return call;
}

void
calls_leave(struct rank_call *call, bool was_made)
{
    struct rank_status *status = atomic_load_explicit(&shim.status, memory_order_relaxed);
    if (status != NULL)
        atomic_fetch_add_explicit(&status->call_count, 1, memory_order_relaxed);
    if (call == NULL)
        return;
    uint64_t left_ns =
        was_made ? (uint64_t)clock_now_ns() : atomic_load_explicit(&call->entered_ns, memory_order_relaxed);
    atomic_store_explicit(&call->left_ns, left_ns, memory_order_relaxed);
    atomic_store_explicit(&call->thread, 0, memory_order_release);
}
