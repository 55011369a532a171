/*
 * watchdog.c - the engine's one thread: notices what no call of the trainer would.
 *
 * A failed check (host functions may not end the job themselves), a communicator with an error, a rank that waits too
 * long, a rank that waits for this one somewhere else. What it sees of waiting and of launches it writes into the
 * status record, where the launcher finds it when it asks who keeps the others waiting. Blocks all signals and disturbs
 * no stream capture.
 *
 * The issuer may be inside a call of NCCL that never returns: ranks connect at the first collective, and a peer may be
 * dead. It holds no lock there. This thread takes the lock only, makes no call of NCCL but
 * ncclCommGetAsyncError (comm/nccl.h), and counts such a call as waiting in the collective.
 */
#include "interpose/engine/core/core.h"
#include "interpose/engine/report/report.h"

#include "base/clock.h"
#include "base/message.h"

#include <semaphore.h>
#include <signal.h>

enum { PERIOD_MS = 50, PATIENCE_WITH_WAITERS_MS = 1000, LOOKS_AT_FAULT = 40, FIRST_LIMIT_MS = 20000 };
#define NS_PER_MS UINT64_C(1000000)

/* ---- what is on its way ---- */

/* A device that has failed does nothing any more. The trainer's next call meets the fault, and its own words come
 * first; if it makes no call, it is reported here. */
static void
look_at_fault(CUresult result)
{
    static unsigned looks;
    looks = driver_result_is_fault(result) ? looks + 1 : 0;
    if (looks == LOOKS_AT_FAULT)
        require_cuda(result, "the watch of what was enqueued");
}

static bool
has_come(CUevent event)
{
    CUresult result = engine_state.driver.cuEventQuery_p(event);
    look_at_fault(result);
    return result != CUDA_ERROR_NOT_READY && !driver_result_is_fault(result);
}

/* Of what has no events of its own. */
static enum rank_collective
look_at_tail(struct awaited *awaited, unsigned communicator, struct collective_in_flight *of)
{
    engine_lock();
    bool pending = awaited->tail_pending;
    *of = awaited->last;
    engine_unlock();
    if (pending && !has_come(awaited->tail))
        return RANK_COLLECTIVE_WAITS;

    engine_lock();
    bool more = awaited->more;
    awaited->more = false;
    awaited->tail_pending = more; /* before it is recorded: the issuer counts none meanwhile */
    engine_unlock();
    CUstream stream = engine_state.collectives.communicators[communicator].stream;
    CUresult recorded = more ? engine_state.driver.cuEventRecord_p(awaited->tail, stream) : CUDA_SUCCESS;
    if (recorded != CUDA_ERROR_DEINITIALIZED) /* the program exits with a code of its own */
        require_cuda(recorded, "cuEventRecord for the watch");
    return RANK_COLLECTIVE_NONE;
}

/* A call of NCCL that has lasted longer than any call that waits for no other rank. */
static enum rank_collective
look_at_call(struct awaited *awaited, unsigned communicator, struct collective_in_flight *of)
{
    if (collectives_in_call_us(&engine_state.collectives, communicator) < PERIOD_MS * 1000)
        return RANK_COLLECTIVE_NONE;
    engine_lock();
    *of = awaited->calling;
    engine_unlock();
    if (of->what == NULL)
        *of = (struct collective_in_flight){"a call of NCCL", 0, engine_state.boundary_count + 1};
    return RANK_COLLECTIVE_WAITS;
}

/* What a communicator is busy with now. */
static enum rank_collective
look_at_sent(struct awaited *awaited, unsigned communicator, struct collective_in_flight *of)
{
    for (;;) {
        engine_lock();
        bool any = awaited->count > 0;
        unsigned at = awaited->first;
        *of = awaited->sent[at].of;
        engine_unlock();
        if (!any)
            return look_at_tail(awaited, communicator, of);
        if (!has_come(awaited->sent[at].begin))
            return RANK_COLLECTIVE_BEHIND;
        if (!has_come(awaited->sent[at].end))
            return RANK_COLLECTIVE_WAITS;
        engine_lock();
        if (awaited->first == at) /* else the issuer has made room */
            inflight_forget_first(awaited);
        engine_unlock();
    }
}

static enum rank_collective
look_at_communicator(struct awaited *awaited, unsigned communicator, struct collective_in_flight *of)
{
    enum rank_collective state = look_at_sent(awaited, communicator, of);
    return state != RANK_COLLECTIVE_NONE ? state : look_at_call(awaited, communicator, of);
}

static void
describe_collective(const struct collective_in_flight *of, char *text, size_t bytes)
{
    if (strcmp(of->what, "bucket") == 0 || strcmp(of->what, "buffer") == 0 || strcmp(of->what, RANK_WAIT_GRAPH) == 0)
        snprintf(text, bytes, "%s %llu of step %llu", of->what, (unsigned long long)of->number,
                 (unsigned long long)of->step);
    else if (strcmp(of->what, RANK_WAIT_COMPARISON) == 0)
        snprintf(text, bytes, "%s of step %llu", of->what, (unsigned long long)of->step);
    else
        snprintf(text, bytes, "%s", of->what);
}

/* Tells the launcher what is waited for: of several communicators, the one whose device is behind, or waits longest. */
static void
publish(void)
{
    struct rank_status *status = engine_state.status;
    const struct awaited *worst = &in_flight[0];
    for (unsigned i = 1; i < atomic_load(&engine_state.collectives.open_count); ++i) {
        const struct awaited *other = &in_flight[i];
        if (other->state > worst->state || (other->state == worst->state && other->since_ns < worst->since_ns))
            worst = other;
    }
    if (atomic_load(&status->collective) == worst->state && atomic_load(&status->collective_ns) == worst->since_ns)
        return;
    if (worst->state != RANK_COLLECTIVE_NONE)
        describe_collective(&worst->of, status->collective_text, sizeof(status->collective_text));
    atomic_store(&status->collective_step, worst->of.step);
    atomic_store(&status->collective_ns, worst->since_ns);
    atomic_fetch_add(&status->wait_count, 1);
    atomic_store(&status->collective, (uint32_t)worst->state);
}

/*
 * The record of a rank of this launcher that waits on the control plane and cannot send what this rank waits for; NULL
 * if no rank is (under a cluster's launcher each rank has its own launcher, and supervisor 0 sees both:
 * launcher/watch/hang.c). It cannot if it has made fewer steps than this one: before it continues all ranks must reach
 * its place, which this one has passed. Nor if it has made as many, and this one is in DDP_STEP, past all messages of
 * that. Nor if it is at its program's end, and the collective belongs to a step that it
 * has not made. Nor if it compares a call of DDP_REDUCE that has the number of the awaited one, or a smaller one: this
 * rank has made the call of that number without a comparison. All would wait without end.
 */
static const struct rank_status *
find_waiter(const struct collective_in_flight *awaited, bool is_reduce, int *rank_p)
{
    const char *first = (const char *)engine_state.status - (size_t)engine_state.status_index * RANK_STATUS_STRIDE;
    for (int i = 0; i < engine_state.status_count; ++i) {
        const struct rank_status *other = (const struct rank_status *)(first + (size_t)i * RANK_STATUS_STRIDE);
        if (i == engine_state.status_index || !atomic_load(&other->waits))
            continue;
        uint64_t steps = atomic_load(&other->step);
        bool at_end = strncmp(other->place, RANK_PLACE_END, sizeof(other->place)) == 0;
        bool compares = is_reduce && strncmp(other->place, "DDP_REDUCE", strlen("DDP_REDUCE")) == 0 &&
                        atomic_load(&other->reduce_count) <= awaited->number;
        bool is_elsewhere = steps == engine_state.boundary_count && strcmp(awaited->what, RANK_WAIT_COMPARISON) == 0;
        if (steps >= engine_state.boundary_count && !(at_end && steps < awaited->step) && !compares && !is_elsewhere)
            continue;
        *rank_p = i;
        return other;
    }
    return NULL;
}

/*
 * Whether that rank's process has gone on for a while in which it stayed where it waits. What a process that is stopped
 * (a debugger) or starved says of itself is old: it may have got what it waited for. So the time is counted in looks of
 * its own watch thread.
 */
static bool
stays(const struct rank_status *waiter)
{
    static const struct rank_status *seen;
    static uint64_t wait_count, watch_ns;
    static unsigned looks;
    uint64_t count = atomic_load(&waiter->wait_count), looked_ns = atomic_load(&waiter->watch_ns);
    if (waiter != seen || count != wait_count)
        looks = 0;
    else if (looked_ns != watch_ns)
        ++looks;
    seen = waiter;
    wait_count = count;
    watch_ns = looked_ns;
    return looks >= PATIENCE_WITH_WAITERS_MS / PERIOD_MS;
}

/*
 * Whether what is waited for is work of the trainer, as far as this launcher can see: a graph does not tell how far it
 * has got, and when all ranks have launched theirs, no rank is late.
 */
static bool
all_have_launched(const struct collective_in_flight *of)
{
    const char *first = (const char *)engine_state.status - (size_t)engine_state.status_index * RANK_STATUS_STRIDE;
    bool all = strcmp(of->what, "CUDA graph") == 0 && engine_state.status_count == engine_state.rendezvous.world_size;
    for (int i = 0; i < engine_state.status_count && all; ++i) {
        const struct rank_status *other = (const struct rank_status *)(first + (size_t)i * RANK_STATUS_STRIDE);
        all = atomic_load(&other->step) >= of->step;
    }
    return all;
}

/* What the ranks should have done. */
static const char *
describe_rule(const struct rank_status *waiter, int rank, char text[256])
{
    uint64_t left_out = atomic_load(&waiter->left_out_step);
    if (left_out == 0)
        return "all ranks must make the same ddprun calls and the same number of steps";
    snprintf(text, 256, RANK_LEFT_OUT, rank, (unsigned long long)left_out);
    return text;
}

/* How long the first all-reduce, for which all ranks have come, may last before it is said. */
static uint64_t
first_limit_ms(void)
{
    const char *said = getenv(DDPRUN_ENV_FIRST_MS);
    return said != NULL ? strtoull(said, NULL, 10) : FIRST_LIMIT_MS;
}

/* On one host this is most often peer-to-peer traffic that does not arrive. */
static void
look_at_first(const struct collective_in_flight *of, uint64_t waiting_ms)
{
    static bool said;
    bool is_one_host = engine_state.status_count == engine_state.rendezvous.world_size;
    if (said || !is_one_host || engine_state.rendezvous.rank != 0)
        return;
    if (strcmp(of->what, FIRST_SUM) != 0 || waiting_ms < first_limit_ms())
        return;
    said = true;
    message_warning(
        "first_all_reduce",
        "the first all-reduce has not ended in %llu s, and all ranks have come to it: NCCL_P2P_DISABLE=1 tells "
        "whether it is P2P (ACS, IOMMU)",
        (unsigned long long)waiting_ms / 1000);
}

static void
look_at_waiting(unsigned communicator)
{
    struct awaited *awaited = &in_flight[communicator];
    struct collective_in_flight of;
    enum rank_collective state = look_at_communicator(awaited, communicator, &of);
    if (state != awaited->state || (state != RANK_COLLECTIVE_NONE && memcmp(&of, &awaited->of, sizeof(of)) != 0)) {
        awaited->state = state;
        awaited->of = of;
        awaited->since_ns = clock_ns();
    }
    if (state != RANK_COLLECTIVE_WAITS)
        return;

    int rank;
    bool is_reduce = communicator == COMMUNICATOR_PROGRAM;
    if (!is_reduce && LOCKED(groups_have_sent()))
        request_ask(atomic_load(&engine_state.boundary_count) + 1);
    uint64_t waiting_ms = (clock_ns() - awaited->since_ns) / NS_PER_MS;
    look_at_first(&of, waiting_ms);
    const struct rank_status *waiter =
        waiting_ms > PATIENCE_WITH_WAITERS_MS ? find_waiter(&of, is_reduce, &rank) : NULL;
    char text[sizeof(engine_state.status->collective_text)], rule[256];
    describe_collective(&of, text, sizeof(text));
    if (waiter != NULL && stays(waiter) && atomic_load(&waiter->waits) != 0)
        stop_job("rank %d waits at %s, and rank %d waits for it in %s: %s", rank, waiter->place,
                 engine_state.rendezvous.rank, text, describe_rule(waiter, rank, rule));
    if (waiting_ms > (uint64_t)engine_state.options.timeout_s * 1000 && !all_have_launched(&of))
        stop_job("%s has waited %u s for the other ranks; raise --timeout if they are only slow", text,
                 engine_state.options.timeout_s);
}

/* ---- launches that no hook reports ---- */

static void
look_at_launches(void)
{
    const struct shim_launches *launches = engine_state.services->launches;
    struct rank_status *status = engine_state.status;
    static CUfunction named;
    uint64_t count = __atomic_load_n(&launches->count, __ATOMIC_RELAXED);
    CUfunction last = __atomic_load_n(&launches->last, __ATOMIC_RELAXED);
    if (last != named) {
        const char *name = function_name(last);
        snprintf(status->kernel, sizeof(status->kernel), "%s", name != NULL ? name : "");
        named = last;
    }
    if (count == atomic_load(&status->launch_count))
        return;
    atomic_store(&status->launch_ns, clock_ns());
    atomic_store(&status->launch_count, count);
}

/* ---- the thread ---- */

/* Once there is a device to look at. */
static void
enter_context(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    (void)engine_state.driver.cuCtxSetCurrent_p(engine_state.context);
    (void)engine_state.driver.cuThreadExchangeStreamCaptureMode_p(&mode);
}

static void
look_at_device(void)
{
    static bool entered;
    struct comm_error error;
    if (!entered)
        enter_context();
    entered = true;
    require_comm(collectives_sound(&engine_state.collectives, &error), &error);
    for (unsigned i = 0; i < atomic_load(&engine_state.collectives.open_count); ++i)
        look_at_waiting(i);
    publish();
}

static pthread_t watcher;
static _Atomic bool watching; /* there is a watch thread */
static _Atomic bool closing;  /* it ends */

/* Posted when the watch is to end: the program's end does not wait for the rest of a period. */
static sem_t awake;

static void
pause_for_a_period(void)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += PERIOD_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    (void)sem_clockwait(&awake, CLOCK_MONOTONIC, &until);
}

static void (*each_period)(void); /* constant once the thread has started */

static void *
watch(void *unused)
{
    (void)unused;
    for (;;) {
        stop_if_asked();
        notice_print();
        if (atomic_load(&closing))
            return NULL;
        if (rendezvous_launcher_is_gone())
            stop_orphan();
        look_at_launches();
        each_period();
        atomic_store(&engine_state.status->watch_ns, clock_ns());
        if (atomic_load(&engine_state.collectives_ready))
            look_at_device();
        pause_for_a_period();
    }
}

void
watch_start(void (*period)(void))
{
    each_period = period;
    sigset_t all, before;
    sem_init(&awake, 0, 0); /* cannot fail: 0 is a value, and threads share it */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&watcher, NULL, watch, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        stop_job("cannot start the watch thread: out of threads, or of memory for thread-local variables");
    atomic_store(&watching, true);
}

void
watch_stop(void)
{
    if (atomic_exchange(&watching, false)) {
        atomic_store(&closing, true);
        sem_post(&awake);
        pthread_join(watcher, NULL);
    }
    notice_print(); /* what came too late for it */
}
