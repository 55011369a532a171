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

/* For how long the oldest bucket has been waiting, 0 if none is; *bucket_p is its number. */
static int64_t
waiting_ms(size_t *bucket_p)
{
    pthread_mutex_lock(&engine_state.lock);
    int64_t since = engine_state.waiting_since_ms;
    size_t bucket = engine_state.waiting_bucket;
    CUevent done = since != 0 && bucket < engine_state.wire_count ? engine_state.bucket_done[bucket] : NULL;
    pthread_mutex_unlock(&engine_state.lock);
    if (done == NULL)
        return 0;

    if (engine_state.driver.cuEventQuery_p(done) != CUDA_ERROR_NOT_READY) {
        pthread_mutex_lock(&engine_state.lock);
        engine_state.waiting_since_ms = 0;
        pthread_mutex_unlock(&engine_state.lock);
        return 0;
    }
    *bucket_p = bucket;
    return clock_now_ms() - since;
}

/*
 * The record of a rank of this node that waits on the control plane and has made fewer steps than this one; NULL if
 * there is none. It cannot send what this rank waits for before this rank comes to its place, which it has passed: both
 * would wait for ever.
 */
static const struct rank_status *
find_waiter(int *rank_p)
{
    const char *first =
        (const char *)engine_state.status - (size_t)engine_state.rendezvous.local_rank * RANK_STATUS_STRIDE;
    for (int i = 0; i < engine_state.local_world_size; ++i) {
        const struct rank_status *other = (const struct rank_status *)(first + (size_t)i * RANK_STATUS_STRIDE);
        if (i == engine_state.rendezvous.local_rank || !atomic_load(&other->waits) ||
            atomic_load(&other->step) >= engine_state.boundary_count)
            continue;
        *rank_p = i;
        return other;
    }
    return NULL;
}

static void
look_at_waiting(void)
{
    int rank;
    size_t bucket = 0;
    int64_t waiting = waiting_ms(&bucket);
    const struct rank_status *waiter = waiting > PATIENCE_WITH_WAITERS_MS ? find_waiter(&rank) : NULL;
    if (waiter != NULL)
        stop_job("local rank %d waits at %s after %llu steps, while this rank waits for it in step %llu: all ranks "
                 "must make "
                 "the same ddprun calls and the same number of steps",
                 rank, waiter->place, (unsigned long long)atomic_load(&waiter->step),
                 (unsigned long long)engine_state.boundary_count);
    if (waiting > (int64_t)engine_state.options.timeout_s * 1000)
        stop_job("bucket %zu of step %llu has waited %d s for the other ranks; raise --timeout if they are only slow",
                 bucket, (unsigned long long)engine_state.boundary_count, engine_state.options.timeout_s);
}

static void *
watch(void *unused)
{
    (void)unused;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    (void)engine_state.driver.cuCtxSetCurrent_p(engine_state.collectives.context);
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
        look_at_waiting();
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
