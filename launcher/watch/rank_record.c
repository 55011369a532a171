/*
 * rank_record.c - see rank_record.h.
 */
#include "launcher/watch/rank_record.h"

#include "base/protocol.h"

#include <stdio.h>
#include <string.h>

#define WATCH_DEAD_NS UINT64_C(5000000000) /* it looks every 50 ms, if the machine lets it */

void
rank_record_copy_text(char *to, size_t to_bytes, const char *from, size_t from_bytes)
{
    size_t length = strnlen(from, from_bytes), at = 0;
    for (; at < length && at + 1 < to_bytes; ++at)
        to[at] = from[at] >= ' ' && from[at] <= '~' ? from[at] : '?';
    to[at] = '\0';
}

static uint64_t
age(uint64_t then_ns, uint64_t now_ns)
{
    return now_ns > then_ns ? now_ns - then_ns : 0;
}

/* On the device first: whose device is behind keeps the others waiting, wherever its host is. */
static void
read_wait(const struct rank_status *status, uint64_t now_ns, struct rank_view *view)
{
    uint32_t collective = atomic_load(&status->collective);
    if (age(atomic_load(&status->watch_ns), now_ns) > WATCH_DEAD_NS) /* it hangs itself, perhaps in the driver */
        collective = RANK_COLLECTIVE_NONE;
    bool exchange = atomic_load(&status->waits) != 0;
    view->watch_ns = atomic_load(&status->watch_ns);
    view->wait_count = atomic_load(&status->wait_count);
    view->wait = RANK_WAIT_NONE;
    view->wait_ns = 0;
    view->wait_for[0] = '\0';
    if (collective == RANK_COLLECTIVE_BEHIND || (collective == RANK_COLLECTIVE_WAITS && !exchange)) {
        view->wait = collective == RANK_COLLECTIVE_BEHIND ? RANK_WAIT_DEVICE : RANK_WAIT_COLLECTIVE;
        view->wait_ns = age(atomic_load(&status->collective_ns), now_ns);
        view->wait_step = atomic_load(&status->collective_step);
        rank_record_copy_text(view->wait_for, sizeof(view->wait_for), status->collective_text,
                              sizeof(status->collective_text));
    } else if (exchange) {
        view->wait = RANK_WAIT_EXCHANGE;
        view->wait_ns = age(atomic_load(&status->waits_ns), now_ns);
        rank_record_copy_text(view->wait_for, sizeof(view->wait_for), status->place, sizeof(status->place));
    }
}

/* The call that has lasted longest and not returned, else the one that returned last. */
static const struct rank_call *
find_call(const struct rank_status *status, bool *continues)
{
    const struct rank_call *found = NULL;
    *continues = false;
    for (int i = 0; i < RANK_CALLS_AT_ONCE; ++i) {
        const struct rank_call *call = &status->calls[i];
        bool here = atomic_load(&call->thread) != 0;
        uint64_t entered = atomic_load(&call->entered_ns), left = atomic_load(&call->left_ns);
        if (entered == 0 || (*continues && !here))
            continue;
        if (found == NULL || (here && !*continues) || (here && entered < atomic_load(&found->entered_ns)) ||
            (!here && left > atomic_load(&found->left_ns)))
            found = call;
        *continues = *continues || here;
    }
    return found;
}

static void
read_call(const struct rank_status *status, uint64_t now_ns, struct rank_view *view)
{
    const struct rank_call *call = find_call(status, &view->in_call);
    view->call[0] = '\0';
    view->call_ns = 0;
    view->call_thread = 0;
    if (call != NULL) {
        uint64_t words[RANK_CALL_NAME_WORDS];
        for (int i = 0; i < RANK_CALL_NAME_WORDS; ++i)
            words[i] = atomic_load_explicit(&call->name[i], memory_order_relaxed);
        rank_record_copy_text(view->call, sizeof(view->call), (const char *)words, sizeof(words));
        view->call_thread = atomic_load(&call->last_thread);
        view->call_ns = age(atomic_load(view->in_call ? &call->entered_ns : &call->left_ns), now_ns);
    }
    /* A launch that touches no gradient may have come later: the watch thread knows to within its period. */
    uint64_t launch_ns = atomic_load(&status->launch_ns);
    if (!view->in_call && launch_ns != 0 && (call == NULL || age(launch_ns, now_ns) < view->call_ns)) {
        snprintf(view->call, sizeof(view->call), "a kernel launch");
        view->call_thread = 0;
        view->call_ns = age(launch_ns, now_ns);
    }
    view->call_count = atomic_load(&status->call_count) + atomic_load(&status->launch_count);
    rank_record_copy_text(view->kernel, sizeof(view->kernel), status->kernel, sizeof(status->kernel));
}

void
rank_record_read_activity(const struct rank_status *status, uint64_t now_ns, struct rank_view *view)
{
    read_wait(status, now_ns, view);
    read_call(status, now_ns, view);
}
