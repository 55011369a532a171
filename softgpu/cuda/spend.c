/*
 * spend.c - time that passes on a stream without using the CPU; and work that is slower while a collective uses the
 * link: `slows` of SOFTGPU_LINK, for the stand-in's NCCL.
 *
 * A kernel or host function runs as fast as it can, and then its stream waits: of each moment that the link was in use
 * meanwhile only 1/slows counts as work, and what that leaves undone takes time, too, and longer while the link is in
 * use. The collective itself is not slowed.
 */
#include "driver.h"

#include "softgpu/private_calls.h"

#include <sys/prctl.h>
#include <time.h>

void
stream_spend(uint64_t ns)
{
    if (ns == 0) {
        return;
    }
    prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0); /* late by a microsecond, not by the usual fifty */
    nanosleep(&(struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)}, NULL);
}

/* ---- beside a collective ---- */

static struct {
    pthread_mutex_t lock;
    unsigned users;      /* collectives on the link */
    double slows;        /* of the one that came last */
    int64_t since_ns;    /* when users last became more than 0 */
    int64_t used_ns;     /* before that, in all */
    _Atomic bool counts; /* a link that slows work was used */
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .slows = 1.0};

static _Thread_local bool is_collective;

static int64_t
now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void
softgpuLinkBegins(double slows)
{
    is_collective = true;
    pthread_mutex_lock(&state.lock);
    state.slows = slows;
    atomic_store(&state.counts, true);
    if (state.users++ == 0) {
        state.since_ns = now_ns();
    }
    pthread_mutex_unlock(&state.lock);
}

void
softgpuLinkEnds(void)
{
    pthread_mutex_lock(&state.lock);
    if (--state.users == 0) {
        state.used_ns += now_ns() - state.since_ns;
    }
    pthread_mutex_unlock(&state.lock);
}

static struct beside
look(void)
{
    struct beside beside = {0};
    if (!atomic_load(&state.counts)) {
        return beside;
    }
    pthread_mutex_lock(&state.lock);
    beside.lost = 1.0 - 1.0 / state.slows;
    beside.at_ns = now_ns();
    beside.used_ns = state.used_ns + (state.users > 0 ? beside.at_ns - state.since_ns : 0);
    pthread_mutex_unlock(&state.lock);
    return beside;
}

struct beside
beside_begin(void)
{
    is_collective = false;
    return look();
}

void
beside_end(struct beside before)
{
    enum { SLICE_NS = 200000 };
    struct beside now = look();
    double left_ns = is_collective ? 0.0 : (double)(now.used_ns - before.used_ns) * now.lost;
    while (left_ns >= 1.0) {
        before = now;
        stream_spend(left_ns < SLICE_NS ? (uint64_t)left_ns : SLICE_NS);
        now = look();
        left_ns -= (double)(now.at_ns - before.at_ns) - (double)(now.used_ns - before.used_ns) * now.lost;
    }
}
