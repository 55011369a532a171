/*
 * commit_wait.c - what does it cost a step that DDP_STEP waits for the verdict of all ranks (send/speculation.c)?
 *
 * While the host waits, it enqueues nothing. So after DDP_STEP the device may have no work until the host has done its
 * own: without the wait it would have been ahead by as long as it has waited. The cost of a step is the smaller of both
 * times: how long DDP_STEP waited, and how long the stream that it names was without work after that, up to the first
 * call for which the host waits anyway (or a result leaves the device), or the next DDP_STEP.
 *
 * One step in SAMPLED_EVERY is looked at. After each operation that hooks report an event is recorded; if that has come
 * before the next operation, the stream was without work between them. Launches that are not reported (the filter lets
 * them pass) hide the end of the work before: nothing is counted there. The figure is rather too small than too large.
 *
 * Called by the thread that calls DDP_STEP, at boundaries and by its hooks; other threads are not looked at.
 */
#include "interpose/engine/core/observer.h"
#include "interpose/engine/measure/measure.h"

#include "base/clock.h"
#include "base/message.h"

enum { SAMPLED_EVERY = 4, SAMPLES = 32, GAPS_AT_MOST = 8 };

/* Above this share of a step, in percent, rank 0 prints the cost. In shorter steps launches alone cost as much. */
enum { WORTH_PERCENT = 2, WORTH_STEP_NS = 5000000 };

static __thread char self; /* its address tells threads apart */

/* The thread that has called DDP_STEP, and nothing since for which it waits; NULL: there is none. */
static _Atomic(const char *) owner;

/* That thread's. */
static struct {
    CUstream stream;
    CUevent work_ended[GAPS_AT_MOST + 1], work_begun[GAPS_AT_MOST]; /* around each gap */
    size_t gap_count;
    uint64_t launches;   /* not reported, when the last event was recorded */
    int64_t waited_ns;   /* in DDP_STEP */
    const char *pending; /* not read yet: of this thread */
} sample;

/* The issuer's. */
static struct {
    int64_t last_ns;          /* when the last DDP_STEP ended; 0: it does not count */
    int64_t waited_ns;        /* in this one */
    uint64_t step_count;      /* since the last sample */
    int64_t cost_ns, step_ns; /* sums */
    uint64_t sample_count, timed_count;
} sums GUARDED_BY(issuer_role);

static bool
is_open(void)
{
    return atomic_load_explicit(&owner, memory_order_relaxed) == &self;
}

static uint64_t
launches_now(void)
{
    return __atomic_load_n(&engine_state.services->launches->count, __ATOMIC_RELAXED);
}

/* ---- after DDP_STEP ---- */

void
commit_wait_close(void)
{
    if (!is_open())
        return;
    atomic_store(&owner, NULL);
    watch(WATCH_COMMIT, false);
}

/* What was enqueued last ends here. */
static void
note_end_of_work(void)
{
    CUevent *event = &sample.work_ended[sample.gap_count];
    if (*event == NULL)
        *event = timing_event();
    stream_record(sample.stream, *event, "cuEventRecord of a measurement");
    sample.launches = launches_now();
}

void
commit_wait_operation_begins(const struct operation *operation)
{
    size_t at = sample.gap_count;
    if (!is_open() || operation->stream != sample.stream)
        return;
    if (at == GAPS_AT_MOST || atomic_load(&engine_state.captures_open) > 0) {
        commit_wait_close();
        return;
    }
    if (sample.launches != launches_now() || engine_state.driver.cuEventQuery_p(sample.work_ended[at]) != CUDA_SUCCESS)
        return;
    if (sample.work_begun[at] == NULL)
        sample.work_begun[at] = timing_event();
    stream_record(sample.stream, sample.work_begun[at], "cuEventRecord of a measurement");
    ++sample.gap_count;
}

void
commit_wait_operation_ends(const struct operation *operation, bool runs, bool touches)
{
    (void)touches;
    if (is_open() && runs && operation->stream == sample.stream)
        note_end_of_work();
}

/* ---- at a boundary ---- */

void
commit_wait_waited(int64_t ns)
{
    sums.waited_ns = ns;
}

/* For how long the sampled stream was without work; false: an event has not come. */
static bool
read_gaps(int64_t *idle_ns_p)
{
    int64_t idle_ns = 0;
    for (size_t i = 0; i < sample.gap_count; ++i) {
        float ms = 0;
        if (engine_state.driver.cuEventElapsedTime_p(&ms, sample.work_ended[i], sample.work_begun[i]) != CUDA_SUCCESS)
            return false;
        idle_ns += (int64_t)((double)ms * 1e6);
    }
    *idle_ns_p = idle_ns;
    return true;
}

/* What the wait has cost a step whose stream was without work for so long after it. */
static int64_t
cost_of_wait(int64_t waited_ns, int64_t idle_ns)
{
    return waited_ns < idle_ns ? waited_ns : idle_ns;
}

static bool
is_worth_a_line(int64_t cost_ns, int64_t step_ns)
{
    return step_ns >= WORTH_STEP_NS && cost_ns * 100 > step_ns * WORTH_PERCENT;
}

static void
read_sample(void) BY_ISSUER
{
    int64_t idle_ns;
    if (sample.pending != &self || !read_gaps(&idle_ns))
        return;
    sample.pending = NULL;
    sums.cost_ns += cost_of_wait(sample.waited_ns, idle_ns);
    ++sums.sample_count;
}

static double
ms_of(int64_t ns)
{
    return (double)ns * 1e-6;
}

/* Said by rank 0, once. */
static void
say_cost(int64_t cost_ns, int64_t step_ns)
{
    static bool said;
    if (said || engine_state.rendezvous.rank != 0 || !is_worth_a_line(cost_ns, step_ns))
        return;
    said = true;
    message_line("the wait in DDP_STEP costs %.3g ms of a step of %.3g ms (%.0f %%): the device has no work while the "
                 "host works after DDP_STEP; work there in another thread, or before DDP_STEP, or run with --commit "
                 "trust",
                 ms_of(cost_ns), ms_of(step_ns), 100 * (double)cost_ns / (double)step_ns);
}

/* Enough samples are there. */
static void
judge(void) BY_ISSUER
{
    int64_t cost_ns = sums.cost_ns / (int64_t)sums.sample_count, step_ns = sums.step_ns / (int64_t)sums.timed_count;
    atomic_store(&engine_state.status->commit_wait_ns, cost_ns > 0 ? (uint64_t)cost_ns : 1);
    say_cost(cost_ns, step_ns);
    sums.cost_ns = sums.step_ns = 0;
    sums.sample_count = sums.timed_count = 0;
}

void
commit_wait_next_interval(CUstream stream, bool waits)
{
    int64_t now_ns = clock_now_ns();
    atomic_store(&owner, NULL);
    watch(WATCH_COMMIT, false);
    if (sums.last_ns != 0 && waits) {
        sums.step_ns += now_ns - sums.last_ns;
        ++sums.timed_count;
    }
    sums.last_ns = waits ? now_ns : 0;
    read_sample();
    if (sums.sample_count >= SAMPLES && sums.timed_count > 0)
        judge();
    if (!waits || ++sums.step_count < SAMPLED_EVERY || atomic_load(&engine_state.captures_open) > 0)
        return;
    sums.step_count = 0;
    sample.stream = stream;
    sample.gap_count = 0;
    sample.waited_ns = sums.waited_ns;
    sample.pending = &self;
    note_end_of_work();
    atomic_store(&owner, &self);
    watch(WATCH_COMMIT, true);
}
