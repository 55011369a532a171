/*
 * segment_progress.c - see segment.h: what a rank publishes, and how it waits for the others. What it writes is sent to
 * the ranks of other hosts, too (remote.h).
 */
#include "nccl/segment.h"

#include "nccl/clock.h"
#include "nccl/remote.h"

#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How long a sleeper trusts that it will be woken before it looks whether its peer still lives. */
enum { LOOK_UP_MS = 100 };
#define LOOK_UP_NS (LOOK_UP_MS * 1000000L)

static void
futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    struct timespec timeout = {.tv_nsec = LOOK_UP_NS};
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &timeout, NULL, 0);
}

static void
pause_core(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static bool
has_reached(const struct counter *counter, uint32_t target)
{
    return (int32_t)(atomic_load_explicit(&counter->value, memory_order_acquire) - target) >= 0;
}

enum wait_result
segment_peer_health(const struct segment *segment, int peer)
{
    switch ((enum rank_state)atomic_load_explicit(&segment->slots[peer]->state, memory_order_acquire)) {
    case RANK_LEFT:
        return WAIT_PEER_LEFT;
    case RANK_FAILED:
        return WAIT_PEER_FAILED;
    case RANK_ABORTED:
        return WAIT_PEER_ABORTED;
    default:
        break;
    }
    if (segment_is_remote(segment, peer))
        return segment->remote ? remote_health(segment->remote, peer) : WAIT_REACHED;
    struct pollfd ended = {.fd = segment->pidfds[peer], .events = POLLIN};
    return poll(&ended, 1, 0) == 1 ? WAIT_PEER_ENDED : WAIT_REACHED;
}

enum wait_result
segment_wait(struct segment *segment, int peer, enum progress which, uint32_t target)
{
    struct counter *counter = &segment->slots[peer]->progress[which];
    struct remote *remote = segment_is_remote(segment, peer) ? segment->remote : NULL;
    for (int i = segment_is_remote(segment, peer) ? segment->spins - 1 : 0; i < segment->spins; ++i) {
        if (has_reached(counter, target))
            return WAIT_REACHED;
        pause_core();
    }

    enum wait_result result = WAIT_REACHED;
    _Atomic uint32_t *waiters = remote ? remote_waiters(remote) : &counter->waiters;
    atomic_fetch_add(waiters, 1);
    for (;;) {
        uint32_t seen = atomic_load(&counter->value);
        if ((int32_t)(seen - target) >= 0)
            break;
        if (atomic_load(&segment->interrupted)) {
            result = WAIT_INTERRUPTED;
            break;
        }
        result = segment_peer_health(segment, peer);
        if (result != WAIT_REACHED) {
            /* It may have done its part and gone since we looked. */
            if (has_reached(counter, target))
                result = WAIT_REACHED;
            break;
        }
        if (remote)
            remote_wait(remote, LOOK_UP_MS);
        else
            futex_wait(&counter->value, seen);
    }
    atomic_fetch_sub(waiters, 1);
    return result;
}

enum wait_result
segment_wait_all(struct segment *segment, enum progress which, uint32_t target, int *peer_p)
{
    for (int r = 0; r < segment->rank_count; ++r) {
        if (r == segment->rank)
            continue;
        enum wait_result result = segment_wait(segment, r, which, target);
        if (result != WAIT_REACHED) {
            *peer_p = r;
            return result;
        }
    }
    return WAIT_REACHED;
}

void
segment_advance(struct segment *segment, enum progress which, uint32_t value)
{
    struct counter *counter = &segment->slots[segment->rank]->progress[which];
    if (segment->remote && atomic_load_explicit(&counter->value, memory_order_relaxed) != value)
        remote_progress(segment->remote, which, value);
    segment_counter_set(counter, value);
}

void
segment_publish(struct segment *segment, uint32_t number, const struct operation_signature *signature, bool is_held)
{
    struct rank_slot *slot = segment->slots[segment->rank];
    slot->signatures[number % 2] = *signature;
    if (segment->remote)
        remote_signature(segment->remote, number, &slot->signatures[number % 2], is_held);
    segment_counter_set(&slot->progress[PROGRESS_OPERATION], number + 1);
}

void
segment_give(struct segment *segment, int peer, enum staging which, uint32_t chunk, size_t offset, const void *data,
             size_t bytes)
{
    if (segment_is_remote(segment, peer) && bytes > 0)
        remote_staged(segment->remote, peer, which, chunk % SEGMENT_STAGES, offset, data, bytes);
}

void
segment_give_all(struct segment *segment, enum staging which, uint32_t chunk, size_t offset, const void *data,
                 size_t bytes)
{
    for (int r = 0; segment->remote && r < segment->rank_count; ++r)
        segment_give(segment, r, which, chunk, offset, data, bytes);
}

void
segment_wait_bell(struct segment *segment, uint32_t seen)
{
    struct counter *bell = &segment->slots[segment->rank]->progress[PROGRESS_BELL];
    for (int i = 0; i < segment->spins; ++i) {
        if (atomic_load(&bell->value) != seen)
            return;
        pause_core();
    }
    atomic_fetch_add(&bell->waiters, 1);
    futex_wait(&bell->value, seen);
    atomic_fetch_sub(&bell->waiters, 1);
}

void
segment_set_state(struct segment *segment, enum rank_state state, const char *text)
{
    struct rank_slot *slot = segment->slots[segment->rank];
    uint32_t before = state == RANK_JOINED ? RANK_ABSENT : RANK_JOINED;
    if (text && atomic_load(&slot->state) == before)
        snprintf(slot->text, sizeof(slot->text), "%s", text);
    if (!atomic_compare_exchange_strong(&slot->state, &before, state) || state == RANK_JOINED)
        return;
    segment_wake_sleepers(slot);
    if (segment->remote)
        remote_state(segment->remote, state, slot->text);
    for (int r = 0; r < segment->rank_count; ++r)
        segment_ring(segment, r);
}

void
segment_post_note(struct segment *segment, uint64_t tag, const void *note, size_t bytes)
{
    struct rank_slot *slot = segment->slots[segment->rank];
    memcpy(slot->note, note, bytes);
    atomic_store_explicit(&slot->note_tag, tag, memory_order_release);
    if (segment->remote)
        remote_note(segment->remote, tag, note, bytes);
}

/* Looks every millisecond: notes are rare, and no caller needs them sooner. */
enum wait_result
segment_read_note(struct segment *segment, int peer, uint64_t tag, void *note, size_t bytes)
{
    struct rank_slot *slot = segment->slots[peer];
    for (bool is_last_look = false;;) {
        if (atomic_load_explicit(&slot->note_tag, memory_order_acquire) == tag) {
            memcpy(note, slot->note, bytes);
            return WAIT_REACHED;
        }
        if (atomic_load(&segment->interrupted))
            return WAIT_INTERRUPTED;
        enum wait_result health = segment_peer_health(segment, peer);
        bool is_gone = health != WAIT_REACHED && health != WAIT_PEER_FAILED; /* a rank that failed can still write */
        if (is_gone && is_last_look)
            return health;
        is_last_look = is_gone;
        const struct timespec nap = {.tv_nsec = 1000000};
        nanosleep(&nap, NULL);
    }
}

void
segment_interrupt(struct segment *segment)
{
    atomic_store(&segment->interrupted, true);
    for (int r = 0; r < segment->rank_count; ++r)
        segment_wake_sleepers(segment->slots[r]);
    if (segment->remote)
        remote_wake(segment->remote);
}

/* Timers of this thread may be late by a microsecond, not by the usual fifty; 0 is the usual. */
static void
set_timer_slack(unsigned long slack_ns)
{
    prctl(PR_SET_TIMERSLACK, slack_ns, 0, 0, 0);
}

enum wait_result
segment_sleep_until(struct segment *segment, int64_t deadline_ns)
{
    enum wait_result result = WAIT_REACHED;
    bool has_slept = false;
    for (;;) {
        int64_t left_ns = deadline_ns - clock_now_ns();
        if (left_ns <= 0)
            break;
        if (atomic_load(&segment->interrupted)) {
            result = WAIT_INTERRUPTED;
            break;
        }
        if (!has_slept)
            set_timer_slack(1000);
        has_slept = true;
        struct timespec nap = {.tv_nsec = left_ns < LOOK_UP_NS ? left_ns : LOOK_UP_NS};
        nanosleep(&nap, NULL);
    }
    if (has_slept)
        set_timer_slack(0);
    return result;
}
