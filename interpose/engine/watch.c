/*
 * watch.c - the engine's one thread: notices what no call of the trainer would.
 *
 * A failed check (host functions may not end the job themselves), a communicator with an error, a rank that waits too
 * long, a rank that waits for this one somewhere else. Blocks all signals and disturbs no stream capture.
 */
#include "interpose/engine/state.h"

#include "base/clock.h"

#include <signal.h>
#include <time.h>

enum { PERIOD_MS = 50, PATIENCE_WITH_WAITERS_MS = 1000 };

static void
record_awaited(unsigned communicator)
{
    require_cuda(engine_state.driver.cuEventRecord_p(engine_state.awaited[communicator].event,
                                                     engine_state.collectives.communicators[communicator].stream),
                 "cuEventRecord for the watch");
}

void
watch_sent(const char *what, size_t bucket, unsigned communicator)
{
    pthread_mutex_lock(&engine_state.lock);
    struct awaited *awaited = &engine_state.awaited[communicator];
    bool records = !awaited->pending;
    awaited->more = awaited->pending;
    awaited->what = what;
    awaited->bucket = bucket;
    pthread_mutex_unlock(&engine_state.lock);
    if (!records)
        return;

    record_awaited(communicator); /* first: an event that is not recorded yet counts as come */
    pthread_mutex_lock(&engine_state.lock);
    awaited->since_ms = clock_now_ms();
    awaited->pending = true;
    pthread_mutex_unlock(&engine_state.lock);
}

/* What has been on its way through a communicator for how long: *awaited_p. False if nothing is. */
static bool
find_awaited(unsigned communicator, struct awaited *awaited_p)
{
    pthread_mutex_lock(&engine_state.lock);
    *awaited_p = engine_state.awaited[communicator];
    pthread_mutex_unlock(&engine_state.lock);
    if (!awaited_p->pending)
        return false;
    if (engine_state.driver.cuEventQuery_p(awaited_p->event) == CUDA_ERROR_NOT_READY)
        return true;

    /* It has come. If more was sent since, all of that is awaited next; the issuer does not record while `pending`. */
    pthread_mutex_lock(&engine_state.lock);
    struct awaited *awaited = &engine_state.awaited[communicator];
    bool again = awaited->more;
    awaited->more = false;
    awaited->pending = again;
    awaited->since_ms = clock_now_ms();
    pthread_mutex_unlock(&engine_state.lock);
    if (again)
        record_awaited(communicator);
    return false;
}

/*
 * The record of a rank of this launcher that waits on the control plane and has made fewer steps than this one; NULL if
 * there is none. It cannot send what this rank waits for before this rank comes to its place, which it has passed: both
 * would wait for ever. Under a cluster's launcher each rank's launcher has this one rank, and supervisor 0 sees it.
 */
static const struct rank_status *
find_waiter(int *rank_p)
{
    const char *first = (const char *)engine_state.status - (size_t)engine_state.status_index * RANK_STATUS_STRIDE;
    for (int i = 0; i < engine_state.status_count; ++i) {
        const struct rank_status *other = (const struct rank_status *)(first + (size_t)i * RANK_STATUS_STRIDE);
        if (i == engine_state.status_index || !atomic_load(&other->waits) ||
            atomic_load(&other->step) >= engine_state.boundary_count)
            continue;
        *rank_p = i;
        return other;
    }
    return NULL;
}

static void
look_at_waiting(unsigned communicator)
{
    int rank;
    struct awaited awaited;
    if (!find_awaited(communicator, &awaited))
        return;
    int64_t waiting_ms = clock_now_ms() - awaited.since_ms;
    const struct rank_status *waiter = waiting_ms > PATIENCE_WITH_WAITERS_MS ? find_waiter(&rank) : NULL;
    if (waiter != NULL)
        stop_job("local rank %d waits at %s after %llu steps, while this rank waits for it in step %llu: all ranks "
                 "must make "
                 "the same ddprun calls and the same number of steps",
                 rank, waiter->place, (unsigned long long)atomic_load(&waiter->step),
                 (unsigned long long)engine_state.boundary_count);
    if (waiting_ms > (int64_t)engine_state.options.timeout_s * 1000)
        stop_job("%s (number %zu) has waited %d s for the other ranks; raise --timeout if they are only slow",
                 awaited.what, awaited.bucket, engine_state.options.timeout_s);
}

static void *
watch(void *unused)
{
    (void)unused;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    (void)engine_state.driver.cuCtxSetCurrent_p(engine_state.context);
    (void)engine_state.driver.cuThreadExchangeStreamCaptureMode_p(&mode);
    for (;;) {
        const char *text;
        struct comm_error error;
        if (stop_asked(&text))
            stop_job("%s", text);
        if (atomic_load(&engine_state.closing))
            return NULL;
        if (rendezvous_launcher_is_gone())
            stop_orphan();
        if (!collectives_sound(&engine_state.collectives, &error))
            stop_job_following("%s", error.text);
        for (unsigned i = 0; i < engine_state.collectives.communicator_count; ++i)
            look_at_waiting(i);
        nanosleep(&(struct timespec){.tv_nsec = PERIOD_MS * 1000000L}, NULL);
    }
}

void
watch_start(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&engine_state.watcher, NULL, watch, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        stop_job("cannot start the watch thread: out of threads");
}
